"""What bounded a throughput: the medium, the processor, or the emulator.

In virtual time computing takes no time, so the processor bounds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analysis.statistics import Estimate

Bound = Literal["medium", "processor", "emulator"]
Protocol = Literal["tcp", "udp"]

#: Share of its ceiling from which on the medium is what bounds a stream. UDP is offered above what
#: the air takes, so it shows the air itself. TCP's ceiling knows neither the start of a connection
#: nor segments that a full queue drops behind the first hop, after they have taken airtime: a
#: stream of a megabyte stays up to a tenth below it with the air never idle.
MEDIUM_SHARE: dict[Protocol, float] = {"udp": 0.95, "tcp": 0.85}
#: Ceilings are of one sender after the other. Who contends counts down together: two hops through
#: one access point carry up to 15 % more so, short datagrams most (docs/medium.md). What is further
#: above its ceiling was not measured on this medium.
MOST_SHARE = 1.2
#: Share of the streams' time from which on the processor may have been what they waited for.
PROCESSOR_SHARE = 0.9


@dataclass(frozen=True)
class BoundVerdict:
    """What bounded a stream, and what is to be said of it; `certain`: the interval agrees."""

    bound: Bound
    certain: bool
    note: str


def judge(protocol: Protocol, share: Estimate | None, processor: float | None, *,
          virtual: bool = False) -> BoundVerdict:
    """The verdict on one cell.

    `share` is goodput by ceiling, None without a medium; `processor` the processor's work by the
    streams' time, both as `tables.table` has them. What neither the medium nor the processor
    explains is the emulator's: queues and timers that wake late, a host that keeps a guest waiting.
    In `virtual` time the processor explains nothing.
    """
    least = MEDIUM_SHARE[protocol]
    if share is not None and share.mean > MOST_SHARE:
        return BoundVerdict("emulator", certain=False,
                            note="above the ceiling: it was not this medium "
                            "that carried the stream")
    if share is not None and share.mean >= least:
        certain = share.low is not None and share.low >= least
        return BoundVerdict("medium", certain, "" if certain else _open(share, least))
    certain = share is None or (share.high is not None and share.high < least)
    doubt = "" if certain or share is None else _open(share, least)
    if virtual:
        return BoundVerdict("emulator", certain, doubt)
    if processor is None:
        return BoundVerdict("emulator", certain=False, note=_joined(
            doubt, "processor time not recorded, so it may have been the processor"))
    if processor >= PROCESSOR_SHARE:
        return BoundVerdict("processor", certain, _joined(
            doubt, f"it had work for up to {min(processor, 1.0):.0%} of the streams' time"))
    return BoundVerdict("emulator", certain, _joined(
        doubt, f"the processor had work for at most {processor:.0%} of the streams' time"))


def _open(share: Estimate, least: float) -> str:
    if share.low is None or share.high is None:
        return "one repetition; more would tell how sure this is"
    return (f"not certain: the interval of the share, {share.low:.0%} to {share.high:.0%}, holds "
            f"the limit of {least:.0%}")


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
