"""Distribute the lines of a run to all connected pages, including those that connect late."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure.document import screen_document

#: A page that connects late gets the fleeting lines of this many seconds.
WINDOW_S = 60.0
#: Shortest interval between updates of a page, in seconds.
EVERY_S = 0.2


@dataclass(frozen=True)
class FeedLine:
    """A line of a feed with its number and time of arrival.

    `text` is JSON. `at_s` is a time of the monotonic clock. Of fleeting lines only the newest
    matter.
    """

    number: int
    text: str
    at_s: float
    is_fleeting: bool


class Feed:
    """An ordered list of lines that threads can wait for.

    `boot` identifies this feed after a restart. `fleeting` names reports of which only the newest
    matter.
    """

    def __init__(self, fleeting: Collection[str] = ()) -> None:
        self.boot = secrets.token_hex(4)
        self._fleeting = frozenset(fleeting)
        self._lasting: list[FeedLine] = []
        self._newest: deque[FeedLine] = deque()
        self._count = 0
        self._changed = threading.Condition()
        self._is_over = False

    def add_line(self, document: Mapping[str, Any]) -> None:
        """Add a line to the feed and wake all waiting threads.

        Args:
            document: The line's content, to be shown on a page.
        """
        now_s = time.monotonic()
        with self._changed:
            said = FeedLine(self._count, json.dumps(screen_document(document)), now_s,
                        document.get("name") in self._fleeting)
            self._count += 1
            (self._newest if said.is_fleeting else self._lasting).append(said)
            while self._newest and self._newest[0].at_s + WINDOW_S < now_s:
                self._newest.popleft()
            self._changed.notify_all()

    def clear_lines(self) -> None:
        """Remove all lines, because the next ones belong to another repetition."""
        with self._changed:
            self._lasting.clear()
            self._newest.clear()

    def end(self) -> None:
        """End the feed and release all waiting threads."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait_for_lines(self, number: int, patience_s: float) -> Sequence[FeedLine] | None:
        """Wait for new lines and return them.

        Args:
            number: Number of the first line to return.
            patience_s: Longest wait in seconds. Without a new line the result is empty.

        Returns:
            The lines in order, or None once the feed is over.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._count > number, patience_s)
            if self._is_over:
                return None
            there = [said for said in (*self._lasting, *self._newest) if said.number >= number]
        return sorted(there, key=lambda said: said.number)
