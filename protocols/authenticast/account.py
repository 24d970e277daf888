"""Statistics of a stream at its receiver.

They cover losses by cause, gaps, lag, the security level that was reached, and exposure.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Data
from protocols.authenticast.settings import Range

# A sequence number this far behind the newest counts as a duplicate.
WINDOW = 4096
# The lowest level is updated only from at least this many packets: fewer are not meaningful.
_MIN_PACKETS = 20
_LEVEL_NS = 1_000_000_000
_REJECTED = frozenset({Fate.FAILED, Fate.REFUSED})


class Arrivals:
    """A register of the sequence numbers that arrived, and of the causes of missing ones.

    A missing packet was lost in transit (`air`) or dropped at the full receive buffer (`buffer`).
    The kernel's drop count comes with each datagram. It is the count when that datagram was queued,
    so its increase belongs to the gap before that datagram.
    """

    def __init__(self) -> None:
        self.end = 0
        #: One more than the highest verified sequence number. Forged packets cannot change it.
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
        """Return how many sequence numbers arrived only in wrong copies."""
        return self._rejected_before + sum(number < self.end for number in self._rejected)

    def count_drops(self, dropped: int) -> None:
        """Update the kernel's drop count, as it came with a datagram."""
        self._drops += max(0, dropped - self._dropped)
        self._dropped = max(self._dropped, dropped)

    def is_new(self, sequence: int) -> bool:
        """Return whether a sequence number is new, and count a duplicate if not.

        A number that is too old to be remembered counts as a duplicate.
        """
        if sequence in self._seen or sequence + WINDOW < self.end:
            self.duplicates += 1
            return False
        return True

    def is_far(self, sequence: int) -> bool:
        """Return whether a sequence number would move the window far ahead.

        A packet with such a number is always verified. The distance counts from the verified
        packets, so that unverified packets cannot move the window far, however many they are.
        """
        return sequence >= self.verified_end + WINDOW // 2

    def accept(self, sequence: int) -> None:
        """Register a packet that arrived and is held or processed."""
        self.accepted += 1
        self._seen.add(sequence)
        if sequence >= self.end:
            self.count_missing(sequence)
            self.end = sequence + 1
        elif sequence in self._rejected:
            self._rejected.discard(sequence)
        elif self.air:
            self.air -= 1  # late, not lost: a datagram that the kernel dropped never arrives
        else:
            self.buffer -= 1
        self._drops = 0
        self._forget_old()

    def reject(self, sequence: int) -> None:
        """Register a wrong copy of a packet. The correct packet may still arrive."""
        if sequence >= self.end + WINDOW or sequence + WINDOW < self.end:
            return
        if sequence in self._seen:
            # The packet was accepted and held; its verification failed now.
            self._seen.discard(sequence)
            self.accepted -= 1
        elif sequence < self.end and sequence not in self._rejected:
            # The packet counted as missing. Now a wrong copy of it has arrived.
            if self.air:
                self.air -= 1
            elif self.buffer:
                self.buffer -= 1
        self._rejected.add(sequence)

    def count_missing(self, sequence: int) -> None:
        """Count the missing packets before a sequence number as lost.

        All packets before that number were sent, so a missing one is lost or late.
        """
        missing = sum(number not in self._rejected for number in range(self.end, sequence))
        in_buffer = min(missing, self._drops)
        self.buffer += in_buffer
        self.air += missing - in_buffer
        self.end = max(self.end, sequence)

    def _forget_old(self) -> None:
        if len(self._seen) > 2 * WINDOW:
            self._seen = {number for number in self._seen if number + WINDOW >= self.end}
        if len(self._rejected) > 2 * WINDOW:
            old = {number for number in self._rejected if number + WINDOW < self.end}
            self._rejected_before += len(old)
            self._rejected -= old


@dataclass
class Exposure:
    """The time during which the level was below the upper end of the user's range.

    Also counts the longest such time without interruption, and the time below the floor.
    """

    permitted: Range
    level: float
    since_ns: int
    total_ns: int = 0
    longest_ns: int = 0
    below_floor_ns: int = 0
    _run_ns: int = 0

    def advance(self, now_ns: int) -> None:
        """Add the time since the last call, spent at the current level."""
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

    def set_level(self, level: float, permitted: Range, now_ns: int) -> None:
        """Set the level and the user's range from this time on."""
        self.advance(now_ns)
        self.level, self.permitted = level, permitted


@dataclass
class Account:
    """Statistics about the packets of a stream.

    Fields are counts, except times (`_ns`, nanoseconds) and levels (shares).
    """

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
        """Return the number of packets that the application received."""
        return self.fates[Fate.VERIFIED] + self.fates[Fate.UNVERIFIED]

    @property
    def level(self) -> float:
        """Return the share of recent packets that was verified before processing.

        Recent packets are those of the last second, or of the time since the setting last changed
        if that is shorter. Without recent packets, the level before that change is returned.
        """
        return self._recent_verified / len(self._recent) if self._recent else self._last_level

    def begin_level(self) -> None:
        """Start a new level after a change of setting.

        Packets that were verified under the old setting do not count for the new level.
        """
        self._last_level = self.level
        self._recent.clear()
        self._recent_verified = 0

    def record_fate(self, packet: Data, fate: Fate, now_ns: int) -> int:
        """Record the fate of a packet and return the width of the hole before it.

        A hole (gap of type 2) is the number of sequence numbers skipped between two processed
        packets.
        """
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
        self._update_lag(now_ns - packet.sent_ns)
        self._update_level(fate is Fate.VERIFIED, now_ns)
        return hole

    def _update_lag(self, delay_ns: int) -> None:
        # The two clocks may differ, so lag is relative to the packet with the smallest delay.
        if self._quickest_ns is None or delay_ns < self._quickest_ns:
            self._quickest_ns = delay_ns
        self.lag_ns = delay_ns - self._quickest_ns
        self.max_lag_ns = max(self.max_lag_ns, self.lag_ns)

    def _update_level(self, is_verified: bool, now_ns: int) -> None:  # noqa: FBT001 - booked as it is
        self._recent.append((now_ns, is_verified))
        self._recent_verified += is_verified
        while self._recent[0][0] + _LEVEL_NS < now_ns:
            self._recent_verified -= self._recent.popleft()[1]
        if len(self._recent) >= _MIN_PACKETS:
            self.lowest_level = min(self.lowest_level, self.level)

    def to_dict(self, waiting: int) -> dict[str, Any]:
        """Return the statistics as values for JSON.

        The numbers of processed, waiting and lost packets add up to those sent. `waiting` is the
        number of packets that are held.
        """
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
