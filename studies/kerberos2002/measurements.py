"""Define the measured values of kerberos2002, as the JSON record of a measurement stores them.

`Measurements` has the response times of Kerberos logins, their rate, packets and CPU times.
`VisitRecord` has the requests to one node, as input of the queueing model. `MessageRecord` has one
message of a login. Tables and sections are those of the paper, Harbitter and Menascé (2002).
`studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from analysis.metrics import Metric
from measure.records.record import RecordPart

SCHEMA = 1
RESPONSE = Metric("transaction_s", "time of a transaction", unit="s", short="R", better="lower",
                  stops=True, digits=3)
THROUGHPUT = Metric("transactions_per_s", "transaction rate", unit="/s", short="X",
                    better="higher", digits=4)
BYTES = Metric("client_bytes", "bytes on the client's wire", unit="kB", scale=1e-3, short="bytes",
               better="lower", digits=2, heading=("bytes,", "client"))
PACKETS = Metric("client_packets", "packets on the client's wire", short="packets",
                 better="lower", digits=1, heading=("packets,", "client"))
PRE_AUTH = Metric("pre_auth_s", "Pre-auth", unit="ms", scale=1e3, digits=0, better="lower")
AUTH = Metric("auth_s", "Auth", unit="ms", scale=1e3, digits=0, better="lower")
POST_AUTH = Metric("post_auth_s", "Post-auth", unit="ms", scale=1e3, digits=0, better="lower")
TGT_ST = Metric("tgt_st_s", "TGT & ST", unit="ms", scale=1e3, digits=0, better="lower")
PHASES = (PRE_AUTH, AUTH, POST_AUTH, TGT_ST)
METRICS = (RESPONSE, THROUGHPUT, PACKETS, BYTES, *PHASES)
RESPONSES = Metric("transaction_times_s", "times of transactions", unit="s", digits=3)


class VisitRecord(RecordPart):
    """Requests of one kind to one node in a login, as the queueing model needs them.

    - `party`, `name`: the node, and the kind of request
    - `visits`: number of requests in a login
    - `service_s`: mean CPU time of a request (s)
    - `operations`: number of cryptographic operations in a login, by name
    """

    party: str
    name: str
    visits: float
    service_s: float
    operations: dict[str, float]


class MessageRecord(RecordPart):
    """A message of the first login, with sender, receiver and bytes.

    `kind` is its name, such as AS-REQ. `at_s` is its time since the login began (s).
    """

    source: str
    target: str
    transport: str
    kind: str
    message_bytes: int
    at_s: float


class Measurements(RecordPart):
    """Measured values of a repetition, as means over the logins (s and 1/s).

    - `seed`: seed of the random numbers
    - `transactions`: number of logins. With several users, the first tenth of the logins is a
      warm-up, and not counted.
    - `transaction_s`, `transactions_per_s`, `transaction_times_s`: time of a login, logins per
      second, and the times of all logins
    - `client_packets`, `client_bytes`: packets and bytes of the client per login
    - `retransmitted_packets`: number of packets that were sent again
    - `pre_auth_s`, `auth_s`, `post_auth_s`, `tgt_st_s`: phases of the login (Table III). Only
      logins of mobile clients have them.
    - `visits`: operations and CPU time of each node per login
    - `messages`: messages of the first login
    """

    schema_: int = Field(SCHEMA, alias="schema")
    seed: int
    transactions: int
    transaction_s: float
    transactions_per_s: float
    client_packets: float
    client_bytes: float
    retransmitted_packets: int
    pre_auth_s: float | None = None
    auth_s: float | None = None
    post_auth_s: float | None = None
    tgt_st_s: float | None = None
    transaction_times_s: list[float]
    #: Phases predicted from operations and devices, and from wires where there is one customer.
    predicted: dict[str, float] = Field(default_factory=dict)
    #: Seconds of Table I's operations on the machine that judges; only in one cell (`is_timed`).
    operations_here_s: dict[str, float] = Field(default_factory=dict)
    #: Counts for the guidelines of section 6.4, only from logins of a single mobile client
    #: (`count_for_guidelines`).
    counted: dict[str, float] = Field(default_factory=dict)
    visits: list[VisitRecord]
    messages: list[MessageRecord]

    model_config = ConfigDict(populate_by_name=True)

    def demand_s(self, party: str) -> float:
        """Return the CPU time (s) of a node per login."""
        return sum(visit.visits * visit.service_s for visit in self.visits if visit.party == party)
