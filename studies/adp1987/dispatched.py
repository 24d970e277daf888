"""Compare when each ADP message left with when its host could send it.

The trace says when a process had a message. The capture says when the first fragment of its ADP
message left, and the header how many user messages are inside. Their order is kept. In between, the
host's one processor is busy only with the work that its device charges. That is taking messages,
handling earlier ADP messages, and waiting while those are on the wire. So packets show when the
host took a message and when it began to ship it. No log is used.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocols.adp.packets import HEADER, MAX_RECORDS, RECORD, Flag
from studies.adp1987.endpoint import operation_costs
from studies.adp1987.processor import FRAGMENT_BYTES, HEADERS_BYTES
from studies.adp1987.sniffed import SniffedHead

_DESTINATION = "bob"
#: Bytes of an ADP message without user messages: header, the body's two counts, sequence number and
#: check (in the modern protocol also its tag). A user message adds a record and its destination
#: owner.
_FRAME_BYTES = {"adp-1987": HEADER + 2 + 16, "adp": HEADER + 2 + 8 + 16}
_RECORD_BYTES = RECORD + len(_DESTINATION)
_TRAILER_BYTES = 16
#: A message of the trace: time at which its process has it (s), bytes, urgency.
Arrival = tuple[float, int, bool]


@dataclass(frozen=True)
class SenderSetting:
    """A sending host's settings and the costs of its device (s).

    `seconds` holds, by operation, the seconds per operation and per byte. `wire` has the figures of
    a wire that blocks its sender until the last fragment has left. It is None where sending does
    not block.
    """

    task: Mapping[str, Any]
    seconds: Mapping[str, tuple[float, float]]
    wire: Mapping[str, float] | None

    @classmethod
    def from_job(cls, task: Mapping[str, Any], job: Mapping[str, Any]) -> SenderSetting:
        """Return the setting from a task and the sender's job."""
        return cls(task, operation_costs(job["work"], job["rsa_bits"]), job["wire"])

    @property
    def timeout_s(self) -> float:
        """Return how long a message that is not urgent may wait (s)."""
        return float(self.task["timeout_s"]) if self.task["queue"] else 0.0

    @property
    def take_s(self) -> float:
        """Return the time to take a user message (s)."""
        return self.seconds["user-message-send"][0]

    def message_bytes(self, batch: Sequence[Arrival]) -> int:
        """Return the size of an ADP message with the user messages in `batch` (bytes)."""
        return _FRAME_BYTES[self.task["protocol"]] + sum(
            size + _RECORD_BYTES for _, size, _ in batch)

    def ship_s(self, batch: Sequence[Arrival], flags: int) -> float:
        """Return the time from the decision to ship `batch` until the wire gets it (s).

        `flags` are the ADP header's flags, which state the protection.
        """
        size = self.message_bytes(batch)
        if self.task["protocol"] == "adp":
            return self._cost_s("adp-message-send", 0) + self._cost_s("chacha20-poly1305", size)
        protected = size if flags & Flag.ALL else _TRAILER_BYTES * bool(flags & Flag.TRAILER)
        return (self._cost_s("adp-message-send", 0)
                + (self._cost_s("des", protected) if protected else 0.0)
                + (self._cost_s("des-mac", size) if flags & Flag.CHECKSUM else 0.0))

    def wire_s(self, size: int) -> float:
        """Return how long the fragments of a datagram are on the wire (s)."""
        frames = -(-size // FRAGMENT_BYTES)
        return self._on_wire_s(size + frames * HEADERS_BYTES, frames)

    def head_s(self, head: SniffedHead) -> float:
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
    """The user messages of a phase and its captured ADP messages.

    `start_s` is time zero of the trace. `is_paced`: the trace kept its own time. Otherwise each
    message came as soon as the previous one was taken.
    """

    name: str
    arrivals: Sequence[Arrival]
    is_paced: bool
    start_s: float
    heads: Sequence[SniffedHead]

    @property
    def message_count(self) -> int:
        """Return the number of captured user messages."""
        return sum(head.count for head in self.heads)


@dataclass(frozen=True)
class Dispatch:
    """An ADP message with its user messages and the time at which shipping began.

    `taken_s` are the times at which the host took each user message. `latest_s` is the latest time
    at which shipping began, whatever the wire took. `following` is the size of the next user
    message, None at the end. `overflowed`: the first message of this batch did not fit into the
    previous one.
    """

    batch: Sequence[Arrival]
    taken_s: Sequence[float]
    begun_s: float
    latest_s: float
    following: int | None
    overflowed: bool

    def waits_s(self) -> Iterator[tuple[float, bool]]:
        """Yield how long each user message waited after its host took it, and its urgency."""
        for (_, _, urgent), taken_s in zip(self.batch, self.taken_s, strict=True):
            yield self.begun_s - taken_s, urgent


def find_dispatches(phase: PhaseTraffic, setting: SenderSetting) -> Iterator[Dispatch]:
    """Yield the phase's ADP messages with their user messages, while the trace has some."""
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
            yield Dispatch(batch, taken_s, sent_s - made_s,
                           head.at_s - setting.ship_s(batch, head.flags),
                           rest[0][1] if rest else None, overflowed)
            overflowed = overflows


def _with_copies(heads: Sequence[SniffedHead]) -> list[tuple[SniffedHead, SniffedHead]]:
    """Return each ADP message's head with the head of its last immediate copy.

    A message without copies is its own last copy.
    """
    groups: list[tuple[SniffedHead, SniffedHead]] = []
    for head in heads:
        if head.is_again and groups:
            groups[-1] = (groups[-1][0], head)
        else:
            groups.append((head, head))
    return groups


def _is_together(free_s: float, after: SniffedHead, remaining: Sequence[Arrival],
                 setting: SenderSetting) -> bool:
    """Return whether the next ADP message followed too quickly to be made in between.

    Such a message was ready before. This happens where a message does not fit: the waiting messages
    and the new one are made first, and then both ADP messages are sent.
    """
    idle_s = after.at_s - setting.head_s(after) - free_s
    return after.count == 1 and idle_s < setting.ship_s(remaining, after.flags) / 2


class Reason(enum.Enum):
    """A reason for which an ADP message was sent.

    `NONE` means that the reason existed earlier: the message was sent too late.
    """

    URGENT, FULL, TIMEOUT, NONE = range(4)


def find_reason(dispatch: Dispatch, setting: SenderSetting) -> Reason:
    """Return why an ADP message was sent: urgent message, full queue or timeout.

    Without a queue, every message counts as urgent.
    """
    batch = dispatch.batch
    if not setting.task["queue"]:
        return Reason.URGENT if len(batch) == 1 else Reason.NONE
    if any(urgent for _, _, urgent in batch[:-1]):
        return Reason.NONE
    if batch[-1][2]:
        return Reason.URGENT
    is_full = sum(size for _, size, _ in batch) >= setting.task["bound_bytes"] or (
        dispatch.following is not None and _is_overflowing(batch, dispatch.following, setting))
    return Reason.FULL if is_full or (dispatch.overflowed and len(batch) == 1) else Reason.TIMEOUT


def earliness_s(dispatch: Dispatch, setting: SenderSetting) -> float:
    """Return how long before its timeout an ADP message was sent (s).

    The value is negative after the timeout. It is zero for an ADP message that is urgent, full or
    alone. It is infinity if a message before the last one was already a reason to send.
    """
    match find_reason(dispatch, setting):
        case Reason.NONE:
            return math.inf
        case Reason.TIMEOUT:
            return setting.timeout_s - (dispatch.latest_s - dispatch.taken_s[0])
        case _:
            return 0.0


def _is_overflowing(batch: Sequence[Arrival], following: int, setting: SenderSetting) -> bool:
    """Return whether the queue has no room for the next message."""
    sizes = [size for _, size, _ in batch] + [following]
    # The queue counts up to four bytes per character of the destination's name.
    encoded = sum(sizes) + len(sizes) * (RECORD + 4 * len(_DESTINATION))
    return bool(batch) and (sum(sizes) > setting.task["bound_bytes"] or encoded > MAX_RECORDS)


def lateness_s(dispatch: Dispatch, setting: SenderSetting) -> float:
    """Return by how much the longest wait exceeds its limit (s).

    The value is negative if no message waited too long. A timer that expires while the host takes
    another message has to wait for that.
    """
    return max((wait_s - (0.0 if urgent else setting.timeout_s) - setting.take_s
                for wait_s, urgent in dispatch.waits_s()), default=-math.inf)
