"""Replay window: records which sequence numbers of one direction have arrived."""

from __future__ import annotations


class ReplayWindow:
    """A window that accepts each sequence number once.

    A number that is `width` or more behind the highest is refused.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._mask = (1 << width) - 1
        self._highest = 0
        self._seen = 0  # bit n: the number `highest - n` has arrived

    def is_fresh(self, sequence: int) -> bool:
        """Return whether a number may still be accepted.

        Numbers start at 1.
        """
        behind = self._highest - sequence
        return sequence > 0 and (behind < 0 or (behind < self._width
                                                and not self._seen >> behind & 1))

    def accept(self, sequence: int) -> None:
        """Record a fresh number after its message proved authentic."""
        behind = self._highest - sequence
        if behind >= 0:
            self._seen |= 1 << behind
            return
        # A sender can jump arbitrarily far; shifting by the jump would use as much memory.
        self._seen = (self._seen << -behind & self._mask if -behind < self._width else 0) | 1
        self._highest = sequence
