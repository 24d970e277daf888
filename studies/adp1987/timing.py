"""Judge times from captures: waits of messages, and the rate of the wire."""

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
#: Largest difference (s) between the guest's clock, which captures use, and the processor's exact
#: time.
CLOCK_S = TOLERANCE_NS / 1e9
#: Share of datagrams that may arrive later than the wire's rate says.
_RARELY = 0.05
#: Captures have microseconds, and read the clock up to some microseconds after the frame.
_ROUNDING_S = 6e-6
_IPV4 = 0x0800


@dataclass(frozen=True)
class WireTiming:
    """Counts of one host's frames by their distance to the previous frame.

    `find_early` frames came sooner than the wire's rate allows. `following` fragments were sent
    directly after the previous one, and `late` of them came later than the rate requires.
    """

    frames: int
    early: int
    following: int
    late: int


@dataclass(frozen=True)
class OffTime:
    """The number of ADP messages of a phase, and deviations of those off time (s).

    An infinite deviation means that the message had no reason to be sent.
    """

    sent: int
    by_s: Sequence[float]

    def __str__(self) -> str:
        worst = f", by up to {max(self.by_s) * 1e3:.2f} ms" if self.by_s else ""
        return f"{len(self.by_s)} of {self.sent}{worst}"


def split_phases(out: Path, stamps: Mapping[str, float],
                 heads: Sequence[SniffedHead]) -> list[PhaseTraffic]:
    """Return the traffic of each phase that has a time stamp.

    Args:
        out: Folder of the repetition.
        stamps: Times at which the phases began, by phase (s since 1970).
        heads: Heads of the sender's ADP messages.

    Raises:
        OSError: The file of a phase is missing.
    """
    begun = [name for name in PHASES if name in stamps]
    made = []
    for name, ends in zip(begun, [*(stamps[name] for name in begun[1:]), float("inf")],
                          strict=True):
        phase = json.loads((out / f"{name}.json").read_text())
        made.append(PhaseTraffic(
            name, [tuple(arrival) for arrival in phase["messages"]], not phase["saturated"],
            stamps[name], [head for head in heads if stamps[name] <= head.at_s < ends]))
    return made


def check_waits(every: Sequence[PhaseTraffic], setting: SenderSetting) -> Check:
    """Check that no message waited longer than its timeout, and urgent ones not at all.

    The wait begins when the host could take the message. Allowed in addition are the time to take
    one message, during which a timer may expire, and the tolerance of the clock.
    """
    went = {phase.name: list(dispatched.find_dispatches(phase, setting)) for phase in every}
    waits = [wait for dispatches in went.values() for dispatch in dispatches
             for wait in dispatch.waits_s()]
    late = {name: _off_time(dispatched.lateness_s(dispatch, setting) for dispatch in dispatches)
            for name, dispatches in went.items()}
    is_kept = not any(each.by_s for each in late.values())
    missing = sum(abs(len(phase.arrivals) - phase.message_count) for phase in every)
    longest_s = max((wait_s for wait_s, urgent in waits if not urgent), default=0.0)
    return Check("in-time", bool(waits) and is_kept and not missing, (
        f"of {len(waits)} messages by the captures the longest wait is {longest_s * 1e3:.2f} ms, "
        f"with a timeout of {setting.timeout_s * 1e3:g} ms; ADP messages that went later than "
        f"{(CLOCK_S + setting.take_s) * 1e3:.2f} ms after they had to: {describe_off_time(late)}; "
        f"{missing} user messages cannot be placed"))


def find_early(every: Sequence[PhaseTraffic], setting: SenderSetting) -> Mapping[str, OffTime]:
    """Return the ADP messages that were sent before they had a reason, by phase."""
    return {phase.name: _off_time(dispatched.earliness_s(dispatch, setting) for dispatch in
                                  dispatched.find_dispatches(phase, setting)) for phase in every}


def describe_off_time(off: Mapping[str, OffTime]) -> str:
    """Return the phases' deviations as text."""
    return ", ".join(f"{each} of {name}" for name, each in off.items())


def _off_time(by_s: Iterable[float]) -> OffTime:
    every = list(by_s)
    return OffTime(len(every), [each for each in every if each > CLOCK_S])


def measure_wire(frames: Iterable[CapturedFrame], source: str,
                 wire: Mapping[str, float]) -> WireTiming:
    """Measure the distances between a host's frames, captured where they leave for the wire."""
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


def check_wire(wire: WireTiming, logs: HostLogs, *, is_quick: bool) -> Check:
    """Check that frames and datagrams keep the times of the wire's rate.

    Frames may follow each other no sooner than the rate allows, by the capture. Datagrams must
    arrive at the computed time, by the receivers' clocks. Today's processors are so quick
    (`is_quick`) that the guest's own system calls become visible. Their datagrams may arrive later
    than computed.
    """
    arrived, early_ones, late = logs.arrived, logs.early, logs.late
    ok = (wire.frames > 0 and not wire.early and not wire.late and not early_ones
          and (late <= arrived * _RARELY or is_quick))
    return Check("on-the-wire", ok, (
        f"of {wire.frames} frames captured {wire.early} sooner after the one before than the "
        f"wire's rate lets them, of {wire.following} further fragments {wire.late} later; by their "
        f"receivers' clocks, of {arrived} datagrams {early_ones} before that, {late} more than "
        f"{TOLERANCE_NS / 1e6:g} ms after"))
