"""Check in a capture that an ADP host sent its datagrams at the right times.

ADP is the Authenticated Datagram Protocol of 1987. Its host collects messages, and sends them in
one datagram when one is urgent, the queue is full, or a timeout ends. `find_transmissions` computes
from the captured datagrams and the known messages when each datagram could leave. `find_reason`
returns why it left.

`check_waits` checks that no message waited longer than permitted. `check_wire` checks that the
distances between frames fit the rate of the emulated wire.
"""

from __future__ import annotations

import enum
import ipaddress
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from measure.capture.pcap import FRAGMENT_OFFSET, CapturedFrame
from measure.checks.observation import Check
from protocols.adp.packets import HEADER, MAX_MESSAGES_BYTES, MESSAGE_HEADER, HeaderFlag
from studies.adp1987.programs.endpoint import (
    FRAGMENT_BYTES,
    HEADERS_BYTES,
    TOLERANCE_NS,
    operation_costs,
)
from studies.adp1987.proof.captured_messages import CapturedHead
from studies.adp1987.proof.logs import HostLogs

# --- Departure of each ADP message, compared with the time when its host could send it ---
# The trace says when a process had a message. The capture says when the first fragment of its ADP
# message left, and the header how many user messages are inside. Their order is kept. In between,
# the host's one processor is busy only with the work that its device charges. That is taking
# messages, handling earlier ADP messages, and waiting while those are on the wire. So packets show
# when the host took a message and when it began to ship it. No log is used.

_DESTINATION = "bob"
#: Bytes of an ADP message without user messages: header, the body's two counts, sequence number and
#: check (in the modern protocol also its tag). A user message adds its header and its
#: destination owner.
_FRAME_BYTES = {"adp-1987": HEADER + 2 + 16, "adp": HEADER + 2 + 8 + 16}
_MESSAGE_BYTES = MESSAGE_HEADER + len(_DESTINATION)
_TRAILER_BYTES = 16
#: A message of the trace: time at which its process has it (s), bytes, urgency.
Arrival = tuple[float, int, bool]


@dataclass(frozen=True)
class SenderSetting:
    """Settings of a sending host, and times of operations on its processor model (s).

    `seconds` has the time per operation and per byte. `wire` describes a wire that blocks its
    sender until the last fragment has left. It is None if sending does not block.
    """

    task: Mapping[str, Any]
    seconds: Mapping[str, tuple[float, float]]
    wire: Mapping[str, float] | None

    @classmethod
    def from_job(cls, task: Mapping[str, Any], job: Mapping[str, Any]) -> SenderSetting:
        """Return the settings from the workload's instructions and the sender's configuration."""
        return cls(task, operation_costs(job["work"], job["rsa_bits"]), job["wire"])

    @property
    def timeout_s(self) -> float:
        """Return how long a message that is not urgent may wait (s)."""
        return float(self.task["timeout_s"]) if self.task["queue"] else 0.0

    @property
    def take_s(self) -> float:
        """Return how long the host needs to take a message from its process (s)."""
        return self.seconds["user-message-send"][0]

    def message_bytes(self, batch: Sequence[Arrival]) -> int:
        """Return the size of a datagram with the messages in `batch` (bytes)."""
        return _FRAME_BYTES[self.task["protocol"]] + sum(
            size + _MESSAGE_BYTES for _, size, _ in batch)

    def ship_s(self, batch: Sequence[Arrival], flags: int) -> float:
        """Return the time (s) from the decision to send messages until the wire gets the datagram.

        Args:
            batch: messages of the datagram.
            flags: flags of its header, which say how it is protected.
        """
        size = self.message_bytes(batch)
        if self.task["protocol"] == "adp":
            return self._cost_s("adp-message-send", 0) + self._cost_s("chacha20-poly1305", size)
        protected = size if flags & HeaderFlag.ALL else _TRAILER_BYTES * bool(
            flags & HeaderFlag.TRAILER)
        return (self._cost_s("adp-message-send", 0)
                + (self._cost_s("des", protected) if protected else 0.0)
                + (self._cost_s("des-mac", size) if flags & HeaderFlag.CHECKSUM else 0.0))

    def wire_s(self, size: int) -> float:
        """Return how long the fragments of a datagram are on the wire (s)."""
        frames = -(-size // FRAGMENT_BYTES)
        return self._on_wire_s(size + frames * HEADERS_BYTES, frames)

    def head_s(self, head: CapturedHead) -> float:
        """Return how long the first fragment was on the wire when it was captured (s)."""
        return self._on_wire_s(head.ip_bytes + 14, 1)

    def _on_wire_s(self, size: int, frames: int) -> float:
        if self.wire is None:
            return 0.0
        return (size + frames * self.wire["overhead_bytes"]) * 8 / self.wire["rate_bps"]

    def _cost_s(self, operation: str, size: int) -> float:
        each, byte = self.seconds[operation]
        return each + byte * size


@dataclass(frozen=True)
class PhaseTraffic:
    """The messages of a phase, and the captured datagrams that carried them.

    - `arrivals`: messages of the trace
    - `is_paced`: whether messages came at their own times. Otherwise each came as soon as the
      previous one was taken.
    - `start_s`: time zero of the trace
    - `heads`: headers of the captured datagrams
    """

    name: str
    arrivals: Sequence[Arrival]
    is_paced: bool
    start_s: float
    heads: Sequence[CapturedHead]

    @property
    def message_count(self) -> int:
        """Return the number of messages in the captured datagrams."""
        return sum(head.count for head in self.heads)


@dataclass(frozen=True)
class Transmission:
    """A sent datagram with its messages, and when the host began to send it.

    - `taken_s`: when the host took each message
    - `latest_s`: latest time at which sending began
    - `following`: size of the next message, None at the end
    - `overflowed`: the first message did not fit into the previous datagram
    """

    batch: Sequence[Arrival]
    taken_s: Sequence[float]
    begun_s: float
    latest_s: float
    following: int | None
    overflowed: bool

    def waits_s(self) -> Iterator[tuple[float, bool]]:
        """Yield how long each message waited in the host (s), and whether it was urgent."""
        for (_, _, urgent), taken_s in zip(self.batch, self.taken_s, strict=True):
            yield self.begun_s - taken_s, urgent


def find_transmissions(phase: PhaseTraffic, setting: SenderSetting) -> Iterator[Transmission]:
    """Yield the datagrams of a phase with their messages, as long as the trace has messages."""
    free_s, place, overflowed = phase.start_s, 0, False
    groups = _with_copies(phase.heads)
    for number, (head, last) in enumerate(groups, 1):
        after = groups[number][0] if number < len(groups) else None
        batch = phase.arrivals[place:place + head.count]
        sent_s = head.at_s - setting.head_s(head)
        taken_s, at_s = [], free_s
        for arrival_s, _, _ in batch:
            at_s = max(at_s, phase.start_s + arrival_s if phase.is_paced else at_s)
            at_s += setting.take_s
            taken_s.append(at_s)
        place += len(batch)
        rest = phase.arrivals[place:place + 1]
        free_s = max(free_s, last.at_s - setting.head_s(last)
                     + setting.wire_s(setting.message_bytes(batch)))
        if batch:
            made_s = setting.ship_s(batch, head.flags)
            overflows = bool(rest) and _is_overflowing(batch, rest[0][1], setting)
            if overflows and after is not None and _is_together(free_s, after, rest, setting):
                made_s += setting.ship_s(rest, after.flags)
            yield Transmission(batch, taken_s, sent_s - made_s,
                               head.at_s - setting.ship_s(batch, head.flags),
                               rest[0][1] if rest else None, overflowed)
            overflowed = overflows


def _with_copies(heads: Sequence[CapturedHead]) -> list[tuple[CapturedHead, CapturedHead]]:
    """Return the captured header of each datagram, and the header of its last immediate copy.

    Both are equal for a datagram without copies.
    """
    groups: list[tuple[CapturedHead, CapturedHead]] = []
    for head in heads:
        if head.is_again and groups:
            groups[-1] = (groups[-1][0], head)
        else:
            groups.append((head, head))
    return groups


def _is_together(free_s: float, after: CapturedHead, remaining: Sequence[Arrival],
                 setting: SenderSetting) -> bool:
    """Return whether the next datagram followed so quickly that both were ready together.

    That happens if a message does not fit: the host makes two datagrams, and then sends both.
    """
    idle_s = after.at_s - setting.head_s(after) - free_s
    return after.count == 1 and idle_s < setting.ship_s(remaining, after.flags) / 2


class TransmissionReason(enum.Enum):
    """The reason why a datagram was sent. `NONE` means that it should have been sent earlier."""

    URGENT, FULL, TIMEOUT, NONE = range(4)


def find_reason(dispatch: Transmission, setting: SenderSetting) -> TransmissionReason:
    """Return why a datagram was sent: an urgent message, a full queue or a timeout.

    Without a queue, every message counts as urgent.
    """
    batch = dispatch.batch
    if not setting.task["queue"]:
        return TransmissionReason.URGENT if len(batch) == 1 else TransmissionReason.NONE
    if any(urgent for _, _, urgent in batch[:-1]):
        return TransmissionReason.NONE
    if batch[-1][2]:
        return TransmissionReason.URGENT
    is_full = sum(size for _, size, _ in batch) >= setting.task["bound_bytes"] or (
        dispatch.following is not None and _is_overflowing(batch, dispatch.following, setting))
    return TransmissionReason.FULL if is_full or (dispatch.overflowed and len(batch)
                                                  == 1) else TransmissionReason.TIMEOUT


def earliness_s(dispatch: Transmission, setting: SenderSetting) -> float:
    """Return how long before its timeout a datagram was sent (s).

    The value is negative after the timeout. It is 0 if the datagram has an urgent message, a full
    queue or a single message. It is infinite if an earlier message was already a reason to send.
    """
    match find_reason(dispatch, setting):
        case TransmissionReason.NONE:
            return math.inf
        case TransmissionReason.TIMEOUT:
            return setting.timeout_s - (dispatch.latest_s - dispatch.taken_s[0])
        case _:
            return 0.0


def _is_overflowing(batch: Sequence[Arrival], following: int, setting: SenderSetting) -> bool:
    """Return whether the next message does not fit into the queue."""
    sizes = [size for _, size, _ in batch] + [following]
    # The queue counts up to four bytes per character of the destination's name.
    encoded = sum(sizes) + len(sizes) * (MESSAGE_HEADER + 4 * len(_DESTINATION))
    return bool(batch) and (
        sum(sizes) > setting.task["bound_bytes"] or encoded > MAX_MESSAGES_BYTES)


def lateness_s(dispatch: Transmission, setting: SenderSetting) -> float:
    """Return by how much the longest wait of a message exceeds its limit (s).

    The value is negative if no message waited too long. A timer that ends while the host takes
    another message has to wait for that.
    """
    return max((wait_s - (0.0 if urgent else setting.timeout_s) - setting.take_s
                for wait_s, urgent in dispatch.waits_s()), default=-math.inf)


# --- Checks of waits and of the wire's rate ---

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
    """Counts of a host's frames by their distance to the previous frame.

    - `early`: frames that came sooner than the wire's rate allows
    - `following`: fragments sent directly after the previous one
    - `late`: fragments among `following` that came later than the rate requires
    """

    frames: int
    early: int
    following: int
    late: int


@dataclass(frozen=True)
class TimingDeviations:
    """Number of datagrams in a phase, and deviations (s) of those sent too early or too late.

    An infinite deviation means that there was no reason to send the datagram.
    """

    sent: int
    by_s: Sequence[float]

    def __str__(self) -> str:
        worst = f", by up to {max(self.by_s) * 1e3:.2f} ms" if self.by_s else ""
        return f"{len(self.by_s)} of {self.sent}{worst}"


def split_phases(out: Path, stamps: Mapping[str, float],
                 heads: Sequence[CapturedHead]) -> list[PhaseTraffic]:
    """Assign captured datagrams to the phases of a repetition.

    Args:
        out: folder of the repetition.
        stamps: times at which the phases began, by phase (s since 1970).
        heads: headers of the sender's datagrams.

    Raises:
        OSError: the file of a phase is missing.
    """
    begun = [name for name in PHASES if name in stamps]
    phases = []
    for name, ends in zip(begun, [*(stamps[name] for name in begun[1:]), float("inf")],
                          strict=True):
        phase = json.loads((out / f"{name}.json").read_text())
        phases.append(PhaseTraffic(
            name, [tuple(arrival) for arrival in phase["messages"]], not phase["saturated"],
            stamps[name], [head for head in heads if stamps[name] <= head.at_s < ends]))
    return phases


def check_waits(every: Sequence[PhaseTraffic], setting: SenderSetting) -> Check:
    """Check that no message waited longer than its timeout, and urgent ones not at all.

    The wait begins when the host could take the message. Two further delays are allowed: the time
    to take one message, and the tolerance of the clock.
    """
    went = {phase.name: list(find_transmissions(phase, setting)) for phase in every}
    waits = [wait for dispatches in went.values() for dispatch in dispatches
             for wait in dispatch.waits_s()]
    late = {name: _off_time(lateness_s(dispatch, setting) for dispatch in dispatches)
            for name, dispatches in went.items()}
    is_kept = not any(each.by_s for each in late.values())
    missing = sum(abs(len(phase.arrivals) - phase.message_count) for phase in every)
    longest_s = max((wait_s for wait_s, urgent in waits if not urgent), default=0.0)
    return Check("in-time", bool(waits) and is_kept and not missing, (
        f"of {len(waits)} messages by the captures the longest wait is {longest_s * 1e3:.2f} ms, "
        f"with a timeout of {setting.timeout_s * 1e3:g} ms; ADP messages that went later than "
        f"{(CLOCK_S + setting.take_s) * 1e3:.2f} ms after they had to: {describe_off_time(late)}; "
        f"{missing} user messages cannot be placed"))


def find_early(every: Sequence[PhaseTraffic],
               setting: SenderSetting) -> Mapping[str, TimingDeviations]:
    """Return the datagrams that were sent too early, without a reason, by phase."""
    return {phase.name: _off_time(earliness_s(dispatch, setting) for dispatch in
                                  find_transmissions(phase, setting)) for phase in every}


def describe_off_time(off: Mapping[str, TimingDeviations]) -> str:
    """Describe datagrams that were sent at a wrong time, by phase, as text."""
    return ", ".join(f"{each} of {name}" for name, each in off.items())


def _off_time(by_s: Iterable[float]) -> TimingDeviations:
    every = list(by_s)
    return TimingDeviations(len(every), [each for each in every if each > CLOCK_S])


def measure_wire(frames: Iterable[CapturedFrame], source: str,
                 wire: Mapping[str, float]) -> WireTiming:
    """Measure the distances between a host's frames, captured at its end of the wire."""
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
    """Check that frames and datagrams keep the times that the wire's rate dictates.

    Frames may not follow each other sooner, by the capture. Datagrams must arrive at the computed
    time, by the receivers' clocks.

    Args:
        wire: distances between captured frames.
        logs: the hosts' logs, with arrival times.
        is_quick: a processor of today is modelled. Then real system calls take longer than modelled
            work, and datagrams may arrive late.
    """
    arrived, early_ones, late = logs.arrived, logs.early, logs.late
    ok = (wire.frames > 0 and not wire.early and not wire.late and not early_ones
          and (late <= arrived * _RARELY or is_quick))
    return Check("on-the-wire", ok, (
        f"of {wire.frames} frames captured {wire.early} sooner after the one before than the "
        f"wire's rate lets them, of {wire.following} further fragments {wire.late} later; by their "
        f"receivers' clocks, of {arrived} datagrams {early_ones} before that, {late} more than "
        f"{TOLERANCE_NS / 1e6:g} ms after"))
