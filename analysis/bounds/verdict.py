"""Verdict on the bottleneck of a throughput: medium, processor or emulator.

In virtual time computing takes no time, so the processor is never the bottleneck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from analysis.statistics import Estimate

Bound = Literal["medium", "processor", "emulator"]
Protocol = Literal["tcp", "udp"]

#: Share of the ceiling from which on the medium is the bottleneck of a stream with one sender. UDP
#: is offered faster than the air takes it, so it shows the air itself. TCP's ceiling does not
#: include the start of a connection, nor segments that used airtime before a full queue behind the
#: first hop dropped them. So a stream of 1 MB stays up to 10 % below it though the air is never
#: idle.
MEDIUM_SHARE: dict[Protocol, float] = {"udp": 0.95, "tcp": 0.85}
#: Smallest share of a ceiling that remains with collisions, which the ceiling does not count. Two
#: stations that always have a frame of 64 to 1470 bytes reach 0.90 to 0.96 of their ceiling, solved
#: exactly for all media (tests/analysis/test_bounds.py).
COLLISIONS_LEAVE = 0.9
#: Share of the streams' time from which on a busy processor may be the bottleneck.
PROCESSOR_SHARE = 0.9


@dataclass(frozen=True)
class BoundVerdict:
    """The bottleneck of a stream with a note.

    `certain` means that the whole interval supports the verdict.
    """

    bound: Bound
    certain: bool
    note: str


def least_share(protocol: Protocol, senders: int) -> float:
    """Return the share of the ceiling from which on the medium is the bottleneck."""
    return MEDIUM_SHARE[protocol] * (COLLISIONS_LEAVE if senders > 1 else 1.0)


def judge_bound(protocol: Protocol, share: Estimate | None, processor: float | None, *,
                senders: int = 1, most: float = math.inf, virtual: bool = False) -> BoundVerdict:
    """Return the verdict on the bottleneck of one cell.

    If neither the medium nor the processor explains the throughput, the emulator does. Possible
    causes are queues, timers that fire late, or a host that makes a guest wait.

    Args:
        protocol: Transport protocol of the stream.
        share: Goodput divided by the ceiling for mean backoffs, None without a medium.
        processor: Processor time divided by the streams' time, None if not recorded.
        senders: Number of contending stations.
        most: Largest share that short random backoffs allow.
        virtual: The clock is virtual, so the processor is never the bottleneck.
    """
    least = least_share(protocol, senders)
    if share is not None and share.mean > most:
        return BoundVerdict("emulator", certain=False,
                            note="above the ceiling: it was not this medium "
                            "that carried the stream")
    if share is not None and share.mean >= least:
        certain = share.low is not None and share.low >= least
        return BoundVerdict("medium", certain, "" if certain
                            else _describe_uncertainty(share, least))
    certain = share is None or (share.high is not None and share.high < least)
    doubt = "" if certain or share is None else _describe_uncertainty(share, least)
    if virtual:
        return BoundVerdict("emulator", certain, doubt)
    if processor is None:
        return BoundVerdict("emulator", certain=False, note=_join_notes(
            doubt, "processor time not recorded, so it may have been the processor"))
    if processor >= PROCESSOR_SHARE:
        return BoundVerdict("processor", certain, _join_notes(
            doubt, f"it had work for up to {min(processor, 1.0):.0%} of the streams' time"))
    return BoundVerdict("emulator", certain, _join_notes(
        doubt, f"the processor had work for at most {processor:.0%} of the streams' time"))


def _describe_uncertainty(share: Estimate, least: float) -> str:
    if share.low is None or share.high is None:
        return "one repetition; more would tell how sure this is"
    return (f"not certain: the interval of the share, {share.low:.0%} to {share.high:.0%}, holds "
            f"the limit of {least:.0%}")


def _join_notes(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
