"""Waits in real time are judged by the quicker ones: contention adds to some, a timeout to all.

In real time a host is late for reasons that are no protocol's, so that no single wait proves
anything. But nothing makes it early: where a quarter of the ADP messages went when they had to, the
timeout is the cell's. By captures and the trace, no log is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from measure.observed import Check
from measure.pcap import CapturedFrame
from studies.adp1987 import dispatched, sniffed
from studies.adp1987.dispatched import Arrival, Dispatch, PhaseTraffic, Reason, SenderSetting

#: A guest's kernel may sleep for as long as its tick where it should not sleep at all.
_TICK_S = 0.010
_QUICK_SHARE = 0.25
#: Computing takes what it takes: no device charges anything.
_UNCHARGED = dict.fromkeys(
    ("user-message-send", "adp-message-send", "chacha20-poly1305"), (0.0, 0.0))


@dataclass(frozen=True)
class RealWaits:
    """By how much ADP messages went later than they had to (s), against the quickest of all.

    `urgent` ones went for an urgent message, `timed` ones for a timeout; `baseless` for nothing.
    What had to wait for the ADP message before counts from there.
    `unplaced` user messages are in no ADP message, or not in the trace.
    """

    urgent: Sequence[float]
    timed: Sequence[float]
    baseless: int
    unplaced: int


def waits(frames: Iterable[CapturedFrame], source: str, arrivals: Sequence[Arrival],
          task: Mapping[str, Any]) -> RealWaits:
    """Those of a phase in which the trace goes in its own time; when that began, they say."""
    heads = [head for head in sniffed.heads(frames, source) if head.count]
    setting = SenderSetting(task, _UNCHARGED, None)
    phase = PhaseTraffic("latency", arrivals, is_paced=True, start_s=0.0, heads=heads)
    begun_s = min((dispatch.begun_s - due_s for dispatch in dispatched.dispatches(phase, setting)
                   if (due_s := _due_s(dispatch, setting)) is not None), default=0.0)
    late: dict[Reason, list[float]] = {reason: [] for reason in Reason}
    for dispatch in dispatched.dispatches(replace(phase, start_s=begun_s), setting):
        late[dispatched.reason(dispatch, setting)].append(dispatched.lateness_s(dispatch, setting))
    return RealWaits(sorted(late[Reason.URGENT]), sorted(late[Reason.TIMEOUT]),
                     len(late[Reason.NONE]), abs(len(arrivals) - phase.count))


def in_time(seen: RealWaits) -> Check:
    """A quarter of what was urgent, and of what had a timeout, went within a tick of its time."""
    parts = {"urgent": seen.urgent, "timed out": seen.timed}
    ok = all(_quick(late_s) <= _TICK_S for late_s in parts.values() if late_s)
    said = ", ".join(f"{len(late_s)} {name} (a quarter by {_quick(late_s) * 1e3:.2f} ms at most, "
                     f"one by {late_s[-1] * 1e3:.2f})" for name, late_s in parts.items() if late_s)
    return Check("in-time", ok and bool(said) and not seen.baseless and not seen.unplaced, (
        f"ADP messages by how much later they went than they had to: {said or 'none'}; "
        f"{seen.baseless} without a reason, {seen.unplaced} user messages cannot be placed"))


def _due_s(dispatch: Dispatch, setting: SenderSetting) -> float | None:
    """When it had to go, in the trace's time; None where that is another message's to say."""
    match dispatched.reason(dispatch, setting):
        case Reason.URGENT:
            return dispatch.batch[-1][0]
        case Reason.TIMEOUT:
            return dispatch.batch[0][0] + setting.timeout_s
        case _:
            return None


def _quick(late_s: Sequence[float]) -> float:
    return late_s[int(_QUICK_SHARE * len(late_s))]
