"""The receiver's account: losses by cause, gaps, lag, the level that was reached, exposure."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Data
from protocols.authenticast.settings import Range

# Numbers this far behind the newest are old news: duplicates, whatever they hold.
WINDOW = 4096
# A level is that of so many packets at least, or it says nothing.
_MIN_PACKETS = 20
_LEVEL_NS = 1_000_000_000
_REJECTED = frozenset({Fate.FAILED, Fate.REFUSED})


class Arrivals:
    """Which sequence numbers have come, and whether the missing ones died in the air or the buffer.

    The kernel's count of datagrams dropped at the full buffer comes with each datagram and is the
    count at the time when that one was queued: what it grew by belongs to the gap before it.
    """

    def __init__(self) -> None:
        self.end = 0
        #: One more than the highest number that was verified: nobody can move this.
        self.verified_end = 0
        self.accepted = 0
        self.air = 0
        self.buffer = 0
        self.duplicates = 0
        self._seen: set[int] = set()
        self._rejected: set[int] = set()
        self._rejected_before = 0
        self._dropped = 0
        self._drops = 0

    @property
    def rejected(self) -> int:
        """Numbers of which only copies came that were wrong."""
        return self._rejected_before + sum(number < self.end for number in self._rejected)

    def count_drops(self, dropped: int) -> None:
        """The kernel's count, as it came with a datagram."""
        self._drops += max(0, dropped - self._dropped)
        self._dropped = max(self._dropped, dropped)

    def is_new(self, sequence: int) -> bool:
        """Whether it was not there before; what is too old to know counts as a duplicate."""
        if sequence in self._seen or sequence + WINDOW < self.end:
            self.duplicates += 1
            return False
        return True

    def is_far(self, sequence: int) -> bool:
        """Whether to believe it would push the window on: such a packet is always verified.

        Counted from what was verified, so that not even many unverified ones push it far.
        """
        return sequence >= self.verified_end + WINDOW // 2

    def accept(self, sequence: int) -> None:
        """It has come, and is held or processed."""
        self.accepted += 1
        self._seen.add(sequence)
        if sequence >= self.end:
            self.reach(sequence)
            self.end = sequence + 1
        elif sequence in self._rejected:
            self._rejected.discard(sequence)
        elif self.air:
            self.air -= 1  # only late: the kernel's drops never come
        else:
            self.buffer -= 1
        self._drops = 0
        self._forget()

    def reject(self, sequence: int) -> None:
        """A copy has come that is wrong; a right one may follow."""
        if sequence >= self.end + WINDOW or sequence + WINDOW < self.end:
            return
        if sequence in self._seen:
            # It was held, and is wrong after all.
            self._seen.discard(sequence)
            self.accepted -= 1
        elif sequence < self.end and sequence not in self._rejected:
            # It was missing until now; something came in its place.
            if self.air:
                self.air -= 1
            elif self.buffer:
                self.buffer -= 1
        self._rejected.add(sequence)

    def reach(self, sequence: int) -> None:
        """Everything before this number was sent: what is missing is lost or late."""
        missing = sum(number not in self._rejected for number in range(self.end, sequence))
        in_buffer = min(missing, self._drops)
        self.buffer += in_buffer
        self.air += missing - in_buffer
        self.end = max(self.end, sequence)

    def _forget(self) -> None:
        if len(self._seen) > 2 * WINDOW:
            self._seen = {number for number in self._seen if number + WINDOW >= self.end}
        if len(self._rejected) > 2 * WINDOW:
            old = {number for number in self._rejected if number + WINDOW < self.end}
            self._rejected_before += len(old)
            self._rejected -= old


@dataclass
class Exposure:
    """How long less was verified than the user would like, and whether ever less than the floor."""

    permitted: Range
    level: float
    since_ns: int
    total_ns: int = 0
    longest_ns: int = 0
    below_floor_ns: int = 0
    _run_ns: int = 0

    def advance(self, now_ns: int) -> None:
        """Time has passed at this level."""
        passed_ns = max(0, now_ns - self.since_ns)
        self.since_ns = max(self.since_ns, now_ns)
        if self.level < self.permitted.high:
            self.total_ns += passed_ns
            self._run_ns += passed_ns
            self.longest_ns = max(self.longest_ns, self._run_ns)
        else:
            self._run_ns = 0
        if self.level < self.permitted.low:
            self.below_floor_ns += passed_ns

    def change(self, level: float, permitted: Range, now_ns: int) -> None:
        """Another level, or another range, from now on."""
        self.advance(now_ns)
        self.level, self.permitted = level, permitted


@dataclass
class Account:
    """What became of a stream's packets; counts but for the times, which are ns."""

    arrivals: Arrivals = field(default_factory=Arrivals)
    fates: Counter[Fate] = field(default_factory=Counter)
    bytes_processed: int = 0
    processing: int = 0
    holes: int = 0
    missed: int = 0
    stray: int = 0
    malformed: int = 0
    lag_ns: int = 0
    max_lag_ns: int = 0
    lowest_level: float = 1.0
    _quickest_ns: int | None = None
    _last: int = -1
    _recent: deque[tuple[int, bool]] = field(default_factory=deque)
    _recent_verified: int = 0
    _last_level: float = 1.0

    @property
    def processed(self) -> int:
        """Packets that the application got."""
        return self.fates[Fate.VERIFIED] + self.fates[Fate.UNVERIFIED]

    @property
    def level(self) -> float:
        """The share of the last second's packets that was verified before they were processed.

        Since the last change of setting, where that was less than a second ago.
        """
        return self._recent_verified / len(self._recent) if self._recent else self._last_level

    def begin_level(self) -> None:
        """Another setting is in force: what was verified by the last one says nothing of it."""
        self._last_level = self.level
        self._recent.clear()
        self._recent_verified = 0

    def settle(self, packet: Data, fate: Fate, now_ns: int) -> int:
        """Book a packet's fate; returns the width of the hole before it (a gap of type 2)."""
        self.fates[fate] += 1
        if fate in _REJECTED:
            self.arrivals.reject(packet.sequence)
        if fate is Fate.VERIFIED:
            self.arrivals.verified_end = max(self.arrivals.verified_end, packet.sequence + 1)
        if not fate.is_processed:
            return 0
        self.bytes_processed += len(packet.payload)
        hole = max(0, packet.sequence - self._last - 1)
        self.holes += hole > 0
        self.missed += hole
        self._last = packet.sequence
        self.processing = max(self.processing, packet.sequence + 1)
        self._see_lag(now_ns - packet.sent_ns)
        self._see_level(fate is Fate.VERIFIED, now_ns)
        return hole

    def _see_lag(self, delay_ns: int) -> None:
        # The clocks need not agree: the quickest packet is the measure of the others.
        if self._quickest_ns is None or delay_ns < self._quickest_ns:
            self._quickest_ns = delay_ns
        self.lag_ns = delay_ns - self._quickest_ns
        self.max_lag_ns = max(self.max_lag_ns, self.lag_ns)

    def _see_level(self, is_verified: bool, now_ns: int) -> None:  # noqa: FBT001 - booked as it is
        self._recent.append((now_ns, is_verified))
        self._recent_verified += is_verified
        while self._recent[0][0] + _LEVEL_NS < now_ns:
            self._recent_verified -= self._recent.popleft()[1]
        if len(self._recent) >= _MIN_PACKETS:
            self.lowest_level = min(self.lowest_level, self.level)

    def summary(self, waiting: int) -> dict[str, Any]:
        """The account in words that JSON has; the causes of loss add up with what was processed."""
        arrivals = self.arrivals
        processed = self.processed
        return {
            "sent": arrivals.end, "processed": processed, "waiting": waiting,
            "verified": self.fates[Fate.VERIFIED], "bytes_processed": self.bytes_processed,
            "level": self.fates[Fate.VERIFIED] / processed if processed else None,
            "lowest_level": self.lowest_level,
            "lost": {"air": arrivals.air, "buffer": arrivals.buffer, "failed": arrivals.rejected,
                     **{fate.value: self.fates[fate] for fate in Fate
                        if not fate.is_processed and fate not in _REJECTED}},
            "failed_operations": self.fates[Fate.FAILED], "refused": self.fates[Fate.REFUSED],
            "duplicates": arrivals.duplicates, "stray": self.stray, "malformed": self.malformed,
            "holes": self.holes, "missed": self.missed, "max_lag_s": self.max_lag_ns / 1e9,
        }
