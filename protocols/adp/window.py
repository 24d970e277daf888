"""Replay window: which sequence numbers of one direction of a channel have been seen."""

from __future__ import annotations


class ReplayWindow:
    """Accepts each number once, and none that is `width` or more behind the highest."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._mask = (1 << width) - 1
        self._highest = 0
        self._seen = 0  # bit n: highest - n has been seen

    def is_fresh(self, sequence: int) -> bool:
        """Whether a number may still be accepted; numbers start at 1."""
        behind = self._highest - sequence
        return sequence > 0 and (behind < 0 or (behind < self._width
                                                and not self._seen >> behind & 1))

    def accept(self, sequence: int) -> None:
        """Remember a fresh number, once its message has proven authentic."""
        behind = self._highest - sequence
        if behind >= 0:
            self._seen |= 1 << behind
            return
        # A jump can be as long as its sender likes: shifting by it would take as much memory.
        self._seen = (self._seen << -behind & self._mask if -behind < self._width else 0) | 1
        self._highest = sequence
