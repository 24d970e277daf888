"""Define the measured values of krb5today, as the JSON record of a measurement stores them.

`Measurements` has the times of logins by MIT krb5, with packets, bytes and CPU times.
`LoginMessage` is one captured Kerberos message of the first login.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from analysis.metrics import Metric
from measure.records.record import RecordPart

SCHEMA = 1
TIME = Metric("login_s", "time of a login", unit="ms", scale=1e3, digits=2, short="login",
              better="lower", stops=True)
RATE = Metric("logins_per_s", "login rate", unit="/s", digits=1, short="rate", better="higher")
KDC = Metric("kdc_s", "processor of KDCs, each login", unit="ms", scale=1e3, digits=2, short="kdc",
             better="lower", heading=("KDC,", "processor"))
CLIENT = Metric("client_s", "processor of the client, each login", unit="ms", scale=1e3, digits=1,
                short="client", better="lower", heading=("client,", "processor"))
TRIPS = Metric("round_trips", "round trips", digits=1, short="trips", better="lower",
               heading=("round", "trips"))
PACKETS = Metric("login_packets", "packets on the client's wire", digits=1,
                 short="packets", better="lower", heading=("packets,", "client"))
BYTES = Metric("login_bytes", "bytes on the client's wire", unit="kB", scale=1e-3, digits=2,
               short="bytes", better="lower", heading=("bytes,", "client"))
REPEATED = Metric("repeated_requests", "requests sent again", digits=1, short="again",
                  better="lower", heading=("sent", "again"))
AWAY = Metric("away_login_s", "time of a login where it has moved to", unit="ms", scale=1e3,
              digits=2, short="away", better="lower", heading=("login,", "away"))
METRICS = (TIME, AWAY, RATE, KDC, CLIENT, TRIPS, PACKETS, BYTES, REPEATED)
TIMES = Metric("login_times_s", "times of logins", unit="ms", scale=1e3, digits=2)


class LoginMessage(RecordPart):
    """A Kerberos message of the first login in a repetition, as captured.

    - `source`, `target`: names of the sending and the receiving node
    - `transport`: `udp`, `tcp`, `gss` (inside a GSS token), or `proxy` (inside a token that the
      server forwards)
    - `kind`: type of the message, such as AS-REQ
    - `padata`: types of its pre-authentication data
    - `at_s`: its time since the login began (s)
    """

    source: str
    target: str
    transport: str
    kind: str
    padata: list[int]
    message_bytes: int
    at_s: float


class Measurements(RecordPart):
    """Measured values of a repetition.

    - `logins`, `logins_per_s`: number of logins, and their rate
    - `login_s`, `login_times_s`: mean time of a login, and the times of all logins (s)
    - `away_login_s`: mean time of logins after a handoff, None without a handoff. `login_s` is then
      the mean time of logins before the handoff.
    - `kdc_s`, `client_s`: CPU time of KDC and client per login (s), None if the clock does not
      count it
    - `round_trips`: round trips of a login, including one per opened TCP connection
    - `login_packets`, `login_bytes`: packets and bytes of a login
    - `repeated_requests`, `retransmitted_packets`: requests and TCP segments that were sent again
    - `messages`: all messages of the first login, empty if several users log in at a time
    """

    schema_: int = Field(SCHEMA, alias="schema")
    logins: int
    login_s: float
    away_login_s: float | None = None
    logins_per_s: float
    kdc_s: float | None
    client_s: float | None
    round_trips: float
    login_packets: float
    login_bytes: float
    repeated_requests: float
    retransmitted_packets: int
    login_times_s: list[float]
    messages: list[LoginMessage]

    model_config = ConfigDict(populate_by_name=True)
