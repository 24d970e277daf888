"""Body of this study's records: time, traffic and processor time of a login."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from analysis.metrics import Metric
from measure.record import RecordPart

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
    """A message of the first login.

    `at_s` is its time since the login began (s). `padata` lists the types of its pre-authentication
    data.
    """

    source: str
    target: str
    transport: str
    kind: str
    padata: list[int]
    message_bytes: int
    at_s: float


class Measured(RecordPart):
    """Results of a repetition.

    Processor times are null if the clock does not count them. `away_login_s` is the time of logins
    after a handoff, if there is one. `login_s` is the time of those before it.
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
