"""Time is judged from captures: that no message waited too long, and that the wire has its rate."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from measure.observed import Check
from measure.pcap import FRAGMENT_OFFSET, CapturedFrame
from studies.adp1987 import dispatched
from studies.adp1987.dispatched import PhaseTraffic, SenderSetting
from studies.adp1987.logs import HostLogs
from studies.adp1987.processor import TOLERANCE_NS
from studies.adp1987.sniffed import SniffedHead

PHASES = ("proof", "latency", "throughput")
#: How far the machine's clock, which a capture has, may be behind the processor's exact time.
CLOCK_S = TOLERANCE_NS / 1e9
#: The share of datagrams that may arrive later than their wire has them.
_RARELY = 0.05
#: A capture has microseconds, and reads the clock up to some of them after the frame.
_ROUNDING_S = 6e-6
_IPV4 = 0x0800


@dataclass(frozen=True)
class WireTiming:
    """Frames of one host's by the distance to the frame before, against what each takes.

    `early` came sooner than the rate lets them; of the `following` fragments, each sent right after
    the one before, `late` came later than they had to.
    """

    frames: int
    early: int
    following: int
    late: int


@dataclass(frozen=True)
class OffTime:
    """A phase's ADP messages: how many, and by how much those went too late, or too soon, that did.

    Infinity stands for no reason at all.
    """

    sent: int
    by_s: Sequence[float]

    def __str__(self) -> str:
        worst = f", by up to {max(self.by_s) * 1e3:.2f} ms" if self.by_s else ""
        return f"{len(self.by_s)} of {self.sent}{worst}"


def phases(out: Path, stamps: Mapping[str, float],
           heads: Sequence[SniffedHead]) -> list[PhaseTraffic]:
    """What was sent of each phase that there was. Raises OSError."""
    begun = [name for name in PHASES if name in stamps]
    made = []
    for name, ends in zip(begun, [*(stamps[name] for name in begun[1:]), float("inf")],
                          strict=True):
        phase = json.loads((out / f"{name}.json").read_text())
        made.append(PhaseTraffic(
            name, [tuple(arrival) for arrival in phase["messages"]], not phase["saturated"],
            stamps[name], [head for head in heads if stamps[name] <= head.at_s < ends]))
    return made


def in_time(every: Sequence[PhaseTraffic], setting: SenderSetting) -> Check:
    """None waited longer than its timeout, urgent ones not at all, once their host could take it.

    Allowed beside are taking one message, in the middle of which a timer may ring, and the clock.
    """
    went = {phase.name: list(dispatched.dispatches(phase, setting)) for phase in every}
    waits = [wait for dispatches in went.values() for dispatch in dispatches
             for wait in dispatch.waits_s()]
    late = {name: _off_time(dispatched.lateness_s(dispatch, setting) for dispatch in dispatches)
            for name, dispatches in went.items()}
    is_kept = not any(each.by_s for each in late.values())
    missing = sum(abs(len(phase.arrivals) - phase.count) for phase in every)
    longest_s = max((wait_s for wait_s, urgent in waits if not urgent), default=0.0)
    return Check("in-time", bool(waits) and is_kept and not missing, (
        f"of {len(waits)} messages by the captures the longest wait is {longest_s * 1e3:.2f} ms, "
        f"with a timeout of {setting.timeout_s * 1e3:g} ms; ADP messages that went later than "
        f"{(CLOCK_S + setting.take_s) * 1e3:.2f} ms after they had to: {said(late)}; "
        f"{missing} user messages cannot be placed"))


def early(every: Sequence[PhaseTraffic], setting: SenderSetting) -> Mapping[str, OffTime]:
    """By phase, the ADP messages that went before they had a reason to."""
    return {phase.name: _off_time(dispatched.earliness_s(dispatch, setting) for dispatch in
                                  dispatched.dispatches(phase, setting)) for phase in every}


def said(off: Mapping[str, OffTime]) -> str:
    """Phase by phase."""
    return ", ".join(f"{each} of {name}" for name, each in off.items())


def _off_time(by_s: Iterable[float]) -> OffTime:
    every = list(by_s)
    return OffTime(len(every), [each for each in every if each > CLOCK_S])


def on_wire(frames: Iterable[CapturedFrame], source: str,
            wire: Mapping[str, float]) -> WireTiming:
    """The distances of a host's frames, captured where they leave for the wire."""
    sender = ipaddress.IPv4Address(source).packed
    own = [frame for frame in frames
           if frame.kind == _IPV4 and frame.payload[12:16] == sender]
    sooner = following = late = 0
    for before, frame in pairwise(own):
        takes_s = (frame.wire_bytes + wire["overhead_bytes"]) * 8 / wire["rate_bps"]
        gap_s = frame.at_s - before.at_s
        sooner += gap_s < takes_s - _ROUNDING_S
        if int.from_bytes(frame.payload[6:8]) & FRAGMENT_OFFSET:
            following += 1
            late += gap_s > takes_s + CLOCK_S
    return WireTiming(len(own), sooner, following, late)


def on_the_wire(wire: WireTiming, logs: HostLogs, *, is_quick: bool) -> Check:
    """The wire takes what its rate says, by the capture; and datagrams arrive when it has them.

    Today's processors are so quick that what the machine's own calls take shows beside them: there
    datagrams may come later than they are counted.
    """
    arrived, early_ones, late = logs.arrived, logs.early, logs.late
    ok = (wire.frames > 0 and not wire.early and not wire.late and not early_ones
          and (late <= arrived * _RARELY or is_quick))
    return Check("on-the-wire", ok, (
        f"of {wire.frames} frames captured {wire.early} sooner after the one before than the "
        f"wire's rate lets them, of {wire.following} further fragments {wire.late} later; by their "
        f"receivers' clocks, of {arrived} datagrams {early_ones} before that, {late} more than "
        f"{TOLERANCE_NS / 1e6:g} ms after"))
