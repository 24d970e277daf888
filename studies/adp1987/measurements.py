"""Define the measured values of a repetition of the study adp1987, and its metrics.

The study measures ADP (Authenticated Datagram Protocol of 1987). A repetition is one measurement.
Its record (a JSON file) has the study's values as `Measurements`: throughput, latency of urgent
messages, bytes and others. `judge` computes them, tables and figures show them. A metric is the
name, unit and better direction of such a value. `PrefixRecord` has values of the first messages of
a trace (list of messages to send), `AttackRecord` the success of an attack.
"""

from __future__ import annotations

from statistics import fmean, median, pstdev
from typing import Any

from pydantic import Field

from analysis.metrics import Metric
from measure.records.record import RecordPart

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
    """Throughput and latency of the first messages of a trace (list of messages to send).

    `messages` is their number. A value is None if the phase for it was not measured.
    """

    messages: int
    throughput_bytes_per_s: float | None
    latency_s: float | None


class AttackRecord(RecordPart):
    """An attack of a repetition: how often it was tried, and how often the receiver accepted it.

    `fault` is the name of the attack. `detail` describes its result in words.
    """

    fault: str
    tried: int
    accepted: int
    detail: str


class Measurements(RecordPart):
    """Measured values of a repetition. A value that was not measured is None or empty.

    From the phase that sends the trace as fast as possible:

    - `throughput_bytes_per_s`: delivered user data per second
    - `messages_per_s`: delivered messages per second
    - `messages_per_processor_s`: messages per second of CPU time of both hosts

    From the phase that sends each message at its time in the trace:

    - `latency_s`, `latency_median_s`, `latency_deviation_s`: mean, median and standard deviation of
      the latencies of urgent messages
    - `latencies_s`: these latencies
    - `utilisation_share`: fraction of time in which the sender's processor is busy
    - `adp_message_bytes`, `messages_per_adp_message`: user data (bytes) and messages in a datagram
    - `offered_bytes_per_s`: user data of the trace per second
    - `wire_bytes_per_byte`: bytes on the wire or air per byte of user data
    - `causes`: number of datagrams by the reason why they were sent

    Others:

    - `establishment_s`: time to set up the channel
    - `overloaded`: whether the trace offers more than the hosts can deliver
    - `handoff_s`: duration of the handoff
    - `lost_by_handoff`, `lost_otherwise`: messages lost during the handoff, and at other times
    - `prefixes`: throughput and latency of the first part of the trace (Figure 3)
    - `attack`: result of an injected attack
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


# --- Latencies of urgent messages as fields of a record ---

def latency_fields(waits_s: list[float]) -> dict[str, Any]:
    """Return statistics of latencies (s), and the latencies, as fields of `Measurements`."""
    return {"latency_s": fmean(waits_s) if waits_s else None,
            "latency_median_s": median(waits_s) if waits_s else None,
            "latency_deviation_s": pstdev(waits_s) if waits_s else None,
            "latencies_s": waits_s}
