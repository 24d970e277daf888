"""Judge waits in real time by their quickest quarter.

In real time a host can be late for reasons outside of the protocol, so no single wait proves
anything. Contention delays some messages, a longer timeout delays all. Nothing makes a host early.
If a quarter of the ADP messages left on time, the timeout is the cell's. The times come from
captures and the trace, not from a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from measure.observed import Check
from measure.pcap import CapturedFrame
from studies.adp1987 import dispatched, sniffed
from studies.adp1987.dispatched import Arrival, Dispatch, PhaseTraffic, Reason, SenderSetting

#: A guest's kernel may sleep for one tick where it should not sleep at all (s).
_TICK_S = 0.010
_QUICK_SHARE = 0.25
#: In real time, no device charges for operations.
_UNCHARGED = dict.fromkeys(
    ("user-message-send", "adp-message-send", "chacha20-poly1305"), (0.0, 0.0))


@dataclass(frozen=True)
class RealWaits:
    """Delays of ADP messages after the time at which they had to leave (s).

    The quickest message has the delay 0. `urgent` messages were sent for an urgent message, `timed`
    ones for a timeout, `baseless` ones without a reason. The delay of a message that had to wait
    for an earlier ADP message counts from there. `unplaced` counts user messages that are in no ADP
    message, or not in the trace.
    """

    urgent: Sequence[float]
    timed: Sequence[float]
    baseless: int
    unplaced: int


def measure_waits(frames: Iterable[CapturedFrame], source: str, arrivals: Sequence[Arrival],
                  task: Mapping[str, Any]) -> RealWaits:
    """Return the delays of a phase with the trace's own time.

    The start of the phase is estimated from the messages themselves.

    Args:
        frames: Captured frames of the phase, in order of time.
        source: IPv4 address of the sender.
        arrivals: Messages of the trace.
        task: The workload's task.
    """
    heads = [head for head in sniffed.find_heads(frames, source) if head.count]
    setting = SenderSetting(task, _UNCHARGED, None)
    phase = PhaseTraffic("latency", arrivals, is_paced=True, start_s=0.0, heads=heads)
    begun_s = min((dispatch.begun_s - due_s for dispatch
                   in dispatched.find_dispatches(phase, setting)
                   if (due_s := _due_s(dispatch, setting)) is not None), default=0.0)
    late: dict[Reason, list[float]] = {reason: [] for reason in Reason}
    for dispatch in dispatched.find_dispatches(replace(phase, start_s=begun_s), setting):
        late[dispatched.find_reason(dispatch,
                                    setting)].append(dispatched.lateness_s(dispatch, setting))
    return RealWaits(sorted(late[Reason.URGENT]), sorted(late[Reason.TIMEOUT]),
                     len(late[Reason.NONE]), abs(len(arrivals) - phase.message_count))


def check_waits(delays: RealWaits) -> Check:
    """Check that the quickest quarter of the messages left within a tick of their time.

    Urgent messages and messages with a timeout are judged separately.
    """
    parts = {"urgent": delays.urgent, "timed out": delays.timed}
    ok = all(_quick_delay_s(late_s) <= _TICK_S for late_s in parts.values() if late_s)
    said = ", ".join(
        f"{len(late_s)} {name} (a quarter by {_quick_delay_s(late_s) * 1e3:.2f} ms at most, "
                     f"one by {late_s[-1] * 1e3:.2f})" for name, late_s in parts.items() if late_s)
    return Check("in-time", ok and bool(said) and not delays.baseless and not delays.unplaced, (
        f"ADP messages by how much later they went than they had to: {said or 'none'}; "
        f"{delays.baseless} without a reason, {delays.unplaced} user messages cannot be placed"))


def _due_s(dispatch: Dispatch, setting: SenderSetting) -> float | None:
    """Return when a message had to leave in the trace's time (s).

    The result is None where another message decides it.
    """
    match dispatched.find_reason(dispatch, setting):
        case Reason.URGENT:
            return dispatch.batch[-1][0]
        case Reason.TIMEOUT:
            return dispatch.batch[0][0] + setting.timeout_s
        case _:
            return None


def _quick_delay_s(late_s: Sequence[float]) -> float:
    return late_s[int(_QUICK_SHARE * len(late_s))]
