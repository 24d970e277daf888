"""When each user message was put on the wire, by captures, against when its host could take it.

The trace says when its process had a message, the capture when the first fragment of the ADP
message with it left, and its header how many messages it holds; order is kept. In between, the one
processor of the host is busy only with what its device charges: taking each message, handling the
ADP messages before, and while they are on the wire. So the time at which it took a message, and the
one at which it began to ship it, follow from packets; no log is asked.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocols.adp.packets import HEADER, MAX_RECORDS, RECORD, Flag
from studies.adp1987.endpoint import costs
from studies.adp1987.processor import FRAGMENT_BYTES, HEADERS_BYTES
from studies.adp1987.sniffed import SniffedHead

_DESTINATION = "bob"
#: Of an ADP message: header, the body's two counts, and number and check (with the modern one's
#: tag); of a user message: record and the owner that it goes to.
_FRAME_BYTES = {"adp-1987": HEADER + 2 + 16, "adp": HEADER + 2 + 8 + 16}
_RECORD_BYTES = RECORD + len(_DESTINATION)
_TRAILER_BYTES = 16
#: A message of the trace: when its process has it (s), its bytes, whether it is urgent.
Arrival = tuple[float, int, bool]


@dataclass(frozen=True)
class SenderSetting:
    """What a host is to do with messages, and what its device takes for that (s).

    `wire` has the figures of a wire that keeps its sender until the last fragment has left; without
    one, nothing does.
    """

    task: Mapping[str, Any]
    seconds: Mapping[str, tuple[float, float]]
    wire: Mapping[str, float] | None

    @classmethod
    def of_job(cls, task: Mapping[str, Any], job: Mapping[str, Any]) -> SenderSetting:
        """From what the workload told the program, of its device."""
        return cls(task, costs(job["work"], job["rsa_bits"]), job["wire"])

    @property
    def timeout_s(self) -> float:
        """How long a message that is not urgent may wait."""
        return float(self.task["timeout_s"]) if self.task["queue"] else 0.0

    @property
    def take_s(self) -> float:
        """What it takes to take a user message."""
        return self.seconds["user-message-send"][0]

    def bytes(self, batch: Sequence[Arrival]) -> int:
        """Of the ADP message with these."""
        return _FRAME_BYTES[self.task["protocol"]] + sum(
            size + _RECORD_BYTES for _, size, _ in batch)

    def ship_s(self, batch: Sequence[Arrival], flags: int) -> float:
        """From the decision to ship these, protected so, to handing them to the wire."""
        size = self.bytes(batch)
        if self.task["protocol"] == "adp":
            return self._takes_s("adp-message-send", 0) + self._takes_s("chacha20-poly1305", size)
        protected = size if flags & Flag.ALL else _TRAILER_BYTES * bool(flags & Flag.TRAILER)
        return (self._takes_s("adp-message-send", 0)
                + (self._takes_s("des", protected) if protected else 0.0)
                + (self._takes_s("des-mac", size) if flags & Flag.CHECKSUM else 0.0))

    def wire_s(self, size: int) -> float:
        """How long a datagram's fragments are on the wire."""
        frames = -(-size // FRAGMENT_BYTES)
        return self._on_wire_s(size + frames * HEADERS_BYTES, frames)

    def head_s(self, head: SniffedHead) -> float:
        """How long its first fragment was on the wire when it was captured."""
        return self._on_wire_s(head.ip_bytes + 14, 1)

    def _on_wire_s(self, size: int, frames: int) -> float:
        if self.wire is None:
            return 0.0
        return (size + frames * self.wire["overhead_bytes"]) * 8 / self.wire["rate_bps"]

    def _takes_s(self, operation: str, size: int) -> float:
        each, byte = self.seconds[operation]
        return each + byte * size


@dataclass(frozen=True)
class PhaseTraffic:
    """A phase's messages, and its ADP messages as captured; `start_s` is the first message's zero.

    `is_paced`: the trace went in its own time; otherwise each message came as the last was taken.
    """

    name: str
    arrivals: Sequence[Arrival]
    is_paced: bool
    start_s: float
    heads: Sequence[SniffedHead]

    @property
    def count(self) -> int:
        """User messages that were captured."""
        return sum(head.count for head in self.heads)


@dataclass(frozen=True)
class Dispatch:
    """An ADP message: its user messages, when the host took each, and when it began to ship them.

    `latest_s` is by when it began to, whatever the wire took; `following` is the size of the
    message after these, if there is one, and `overflowed` says that the first of these did not fit
    in with those before.
    """

    batch: Sequence[Arrival]
    taken_s: Sequence[float]
    begun_s: float
    latest_s: float
    following: int | None
    overflowed: bool

    def waits_s(self) -> Iterator[tuple[float, bool]]:
        """How long each waited once its host had it, and whether it is urgent."""
        for (_, _, urgent), taken_s in zip(self.batch, self.taken_s, strict=True):
            yield self.begun_s - taken_s, urgent


def dispatches(phase: PhaseTraffic, setting: SenderSetting) -> Iterator[Dispatch]:
    """The phase's ADP messages with what they hold, as long as the trace has messages for them."""
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
                     + setting.wire_s(setting.bytes(batch)))
        if batch:
            made_s = setting.ship_s(batch, head.flags)
            overflows = bool(rest) and _overflows(batch, rest[0][1], setting)
            if overflows and after is not None and _is_together(free_s, after, rest, setting):
                made_s += setting.ship_s(rest, after.flags)
            yield Dispatch(batch, taken_s, sent_s - made_s,
                           head.at_s - setting.ship_s(batch, head.flags),
                           rest[0][1] if rest else None, overflowed)
            overflowed = overflows


def _with_copies(heads: Sequence[SniffedHead]) -> list[tuple[SniffedHead, SniffedHead]]:
    """Each ADP message's head with that of its last copy right behind it, which may be itself."""
    groups: list[tuple[SniffedHead, SniffedHead]] = []
    for head in heads:
        if head.is_again and groups:
            groups[-1] = (groups[-1][0], head)
        else:
            groups.append((head, head))
    return groups


def _is_together(free_s: float, after: SniffedHead, rest: Sequence[Arrival],
                 setting: SenderSetting) -> bool:
    """Whether an ADP message follows with no time between to make it in: it was ready already.

    So it is where a message does not fit: what waits and what comes are made, and then both go.
    """
    idle_s = after.at_s - setting.head_s(after) - free_s
    return after.count == 1 and idle_s < setting.ship_s(rest, after.flags) / 2


class Reason(enum.Enum):
    """Why an ADP message went when it did, by what it holds; `NONE`: there was one before."""

    URGENT, FULL, TIMEOUT, NONE = range(4)


def reason(dispatch: Dispatch, setting: SenderSetting) -> Reason:
    """Why it went: at once for an urgent message and without a queue, or full, or in its time."""
    batch = dispatch.batch
    if not setting.task["queue"]:
        return Reason.URGENT if len(batch) == 1 else Reason.NONE
    if any(urgent for _, _, urgent in batch[:-1]):
        return Reason.NONE
    if batch[-1][2]:
        return Reason.URGENT
    is_full = sum(size for _, size, _ in batch) >= setting.task["bound_bytes"] or (
        dispatch.following is not None and _overflows(batch, dispatch.following, setting))
    return Reason.FULL if is_full or (dispatch.overflowed and len(batch) == 1) else Reason.TIMEOUT


def earliness_s(dispatch: Dispatch, setting: SenderSetting) -> float:
    """By how much an ADP message went before its time, unless urgent, full, or alone: then by zero.

    Below zero where its time was over; infinity where one before its last was a reason already.
    """
    match reason(dispatch, setting):
        case Reason.NONE:
            return math.inf
        case Reason.TIMEOUT:
            return setting.timeout_s - (dispatch.latest_s - dispatch.taken_s[0])
        case _:
            return 0.0


def _overflows(batch: Sequence[Arrival], following: int, setting: SenderSetting) -> bool:
    """Whether the queue has no room for the message that follows."""
    sizes = [size for _, size, _ in batch] + [following]
    # As the queue counts: four bytes a character of the name at most.
    encoded = sum(sizes) + len(sizes) * (RECORD + 4 * len(_DESTINATION))
    return bool(batch) and (sum(sizes) > setting.task["bound_bytes"] or encoded > MAX_RECORDS)


def lateness_s(dispatch: Dispatch, setting: SenderSetting) -> float:
    """By how much a message of these waited more than it may; below zero where none did.

    A timer that rings while the host takes another message waits for that.
    """
    return max((wait_s - (0.0 if urgent else setting.timeout_s) - setting.take_s
                for wait_s, urgent in dispatch.waits_s()), default=-math.inf)
