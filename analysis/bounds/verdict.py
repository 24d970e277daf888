"""What bounded a throughput: the medium, the processor, or the emulator.

In virtual time computing takes no time, so the processor bounds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from analysis.statistics import Estimate

Bound = Literal["medium", "processor", "emulator"]
Protocol = Literal["tcp", "udp"]

#: Share of its ceiling from which on the medium is what bounds a stream of one sender. UDP is
#: offered above what the air takes, so it shows the air itself. TCP's ceiling knows neither the
#: start of a connection nor segments that a full queue drops behind the first hop, after they have
#: taken airtime: a stream of a megabyte stays up to a tenth below it with the air never idle.
MEDIUM_SHARE: dict[Protocol, float] = {"udp": 0.95, "tcp": 0.85}
#: What collisions leave of a ceiling at the least, which does not count them. Two stations that
#: always have a frame of 64 to 1470 bytes reach 0.90 to 0.96 of theirs, solved exactly for all
#: media (tests/analysis/test_bounds.py).
COLLISIONS_LEAVE = 0.9
#: Share of the streams' time from which on the processor may have been what they waited for.
PROCESSOR_SHARE = 0.9


@dataclass(frozen=True)
class BoundVerdict:
    """What bounded a stream, and what is to be said of it; `certain`: the interval agrees."""

    bound: Bound
    certain: bool
    note: str


def least_share(protocol: Protocol, senders: int) -> float:
    """Return the share of the ceiling of so many senders from which on the medium bounds."""
    return MEDIUM_SHARE[protocol] * (COLLISIONS_LEAVE if senders > 1 else 1.0)


def judge(protocol: Protocol, share: Estimate | None, processor: float | None, *,
          senders: int = 1, most: float = math.inf, virtual: bool = False) -> BoundVerdict:
    """The verdict on one cell.

    `share` is goodput by the ceiling of mean backoffs, None without a medium, and `most` the share
    that luck allows; `processor` the processor's work by the streams' time, both as `tables.table`
    has them. What neither the medium nor the processor explains is the emulator's: queues and
    timers that wake late, a host that keeps a guest waiting. In `virtual` time the processor
    explains nothing.
    """
    least = least_share(protocol, senders)
    if share is not None and share.mean > most:
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
