"""Measured values of the study's records, with their metrics and distributions."""

from __future__ import annotations

from pydantic import Field

from analysis.metrics import Metric
from measure.record import RecordPart

THROUGHPUT = Metric("throughput_bytes_per_s", "throughput", unit="kB/s", scale=1e-3, short="T",
                    better="higher", stops=True, digits=0)
LATENCY = Metric("latency_s", "latency of urgent messages", unit="ms", scale=1e3, short="L",
                 better="lower", stops=True, digits=1, heading=("latency",))
ESTABLISHMENT = Metric("establishment_s", "establishment of the channel", unit="ms", scale=1e3,
                       short="C", better="lower", digits=1, heading=("establish-", "ment"))
UTILISATION = Metric("utilisation_share", "utilisation of the sender", unit="%", scale=100,
                     short="utilisation", better="lower", digits=1, heading=("utili-", "sation"))
ADP_BYTES = Metric("adp_message_bytes", "user data of an ADP message", unit="B", digits=0,
                   short="size", heading=("ADP", "message"))
WIRE_BYTES = Metric("wire_bytes_per_byte", "bytes on the wire per byte of user data", short="wire",
                    better="lower", digits=3, heading=("on the", "wire"))
RATE = Metric("messages_per_s", "messages a second", unit="/s", short="rate", better="higher",
              digits=0, heading=("messages", "a second"))
WORK = Metric("messages_per_processor_s", "messages a second of the processor, both hosts",
              unit="/s", short="work", better="higher", digits=0,
              heading=("messages a", "proc. second"))
METRICS = (THROUGHPUT, LATENCY, ESTABLISHMENT, UTILISATION, ADP_BYTES, WIRE_BYTES, RATE, WORK)
LATENCIES = Metric("latencies_s", "latencies of urgent messages", unit="ms", scale=1e3, digits=1)
#: Shares of a trace at which Figure 3 has its points.
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class PrefixRecord(RecordPart):
    """Throughput and latency of the first messages of a trace."""

    messages: int
    throughput_bytes_per_s: float | None
    latency_s: float | None


class AttackRecord(RecordPart):
    """A negative control: how often it was tried and how often the receiver accepted it."""

    fault: str
    tried: int
    accepted: int
    detail: str


class Measured(RecordPart):
    """The measured values of a repetition.

    A value that the cell does not have is empty.
    """

    throughput_bytes_per_s: float | None = None
    latency_s: float | None = None
    latency_median_s: float | None = None
    latency_deviation_s: float | None = None
    establishment_s: float | None = None
    utilisation_share: float | None = None
    adp_message_bytes: float | None = None
    messages_per_adp_message: float | None = None
    offered_bytes_per_s: float | None = None
    wire_bytes_per_byte: float | None = None
    messages_per_s: float | None = None
    messages_per_processor_s: float | None = None
    overloaded: bool = False
    handoff_s: float | None = None
    lost_by_handoff: int | None = None
    lost_otherwise: int | None = None
    causes: dict[str, int] = Field(default_factory=dict)
    latencies_s: list[float] = Field(default_factory=list)
    prefixes: list[PrefixRecord] = Field(default_factory=list)
    attack: AttackRecord | None = None
