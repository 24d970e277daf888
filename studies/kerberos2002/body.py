"""Body of this study's records: phases, packets, operations and demands."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from analysis.metrics import Metric
from measure.record import RecordPart

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
    """Visits of a class of customers to a party in a transaction.

    `service_s` is the mean time of a visit (s). `operations` are the counts of a whole transaction.
    """

    party: str
    name: str
    visits: float
    service_s: float
    operations: dict[str, float]


class MessageRecord(RecordPart):
    """A message of the first transaction: parties, transport, kind and bytes."""

    source: str
    target: str
    transport: str
    kind: str
    message_bytes: int
    at_s: float


class Measured(RecordPart):
    """Measurements of a repetition. Only mobile protocols have phases.

    With several customers, the first tenth of the transactions is a warm-up and not counted.
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
    #: Seconds of Table I's operations on the processor of the judge, in one cell (timing).
    operations_here_s: dict[str, float] = Field(default_factory=dict)
    #: Counts for the guidelines of section 6.4, from a mobile client's transaction (guidelines).
    counted: dict[str, float] = Field(default_factory=dict)
    visits: list[VisitRecord]
    messages: list[MessageRecord]

    model_config = ConfigDict(populate_by_name=True)

    def demand_s(self, party: str) -> float:
        """Return the processor seconds of a party in a transaction."""
        return sum(visit.visits * visit.service_s for visit in self.visits if visit.party == party)
