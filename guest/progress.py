"""How far a build is and how long it will still take: bookkeeping, and the line that says so."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

PLAIN_INTERVAL_S = 15.0
TTY_INTERVAL_S = 0.25


@dataclass(frozen=True)
class Status:
    """One look at all builds: a line of text, the share done (0 to 1), seconds left (estimated)."""

    text: str
    fraction: float
    remaining_s: float


class Track:
    """One build's way through its stages; `expected_s` says how long each usually takes."""

    def __init__(
        self,
        name: str,
        expected_s: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.expected_s = dict(expected_s)
        self.durations_s: dict[str, float] = {}
        self.finished = False
        self._clock = clock
        self._lock = threading.Lock()
        self._stage = next(iter(self.expected_s))
        self._since = self.started = clock()
        self._items: tuple[int, int] | None = None
        self._note: str | None = None

    def stage(self, name: str, items: int | None = None) -> None:
        """Enter a stage; `items` is how many steps (compiled objects) it is expected to have."""
        if name not in self.expected_s:
            raise KeyError(f"{self.name} has no stage {name}")
        with self._lock:
            self._close_stage()
            self._stage = name
            self._items = (0, items) if items else None

    def step(self) -> None:
        """One item of the stage is done."""
        with self._lock:
            if self._items:
                self._items = (self._items[0] + 1, self._items[1])

    def note(self, text: str | None) -> None:
        """Shown instead of the stage, as while waiting for another process."""
        self._note = text

    def finish(self) -> None:
        """All stages are done."""
        with self._lock:
            self._close_stage()
            self.finished = True

    def spent_s(self) -> float:
        """Seconds since the build began."""
        return self._clock() - self.started

    def remaining_s(self) -> float:
        """Estimated seconds left."""
        with self._lock:
            if self.finished:
                return 0.0
            stages = list(self.expected_s)
            later = sum(self.expected_s[n] for n in stages[stages.index(self._stage) + 1 :])
            return later + self._stage_remaining_s()

    def describe(self) -> str:
        """The build's part of the line."""
        if self.finished:
            return f"{self.name}: done"
        if self._note:
            return f"{self.name}: {self._note}"
        items = f" {self._items[0]}/{self._items[1]}" if self._items else ""
        return f"{self.name}: {self._stage}{items}"

    def _stage_remaining_s(self) -> float:
        expected, spent = self.expected_s[self._stage], self._clock() - self._since
        if self._items and self._items[0] > 0.05 * self._items[1]:
            # Enough seen to go by this machine's own speed.
            done, total = self._items
            return spent * max(total - done, 0) / done
        # An estimate that has run out is not "0 s left": keep a tenth.
        return max(expected - spent, 0.1 * expected)

    def _close_stage(self) -> None:
        now = self._clock()
        spent = self.durations_s.get(self._stage, 0.0) + now - self._since
        self.durations_s[self._stage] = spent
        self._since = now


def status_of(tracks: list[Track]) -> Status:
    """Builds run side by side, so the longest says how long all of it takes."""
    remaining = max((track.remaining_s() for track in tracks), default=0.0)
    spent = max((track.spent_s() for track in tracks), default=0.0)
    fraction = spent / (spent + remaining) if remaining else 1.0
    return Status("; ".join(track.describe() for track in tracks), fraction, remaining)


class Printer:
    """Writes the line: redrawn on a terminal, otherwise a new one now and then."""

    def __init__(self, stream: TextIO | None = None, what: str = "guest") -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._last = float("-inf")

    def __call__(self, status: Status) -> None:
        """Write it, if it is time for a line."""
        now = time.monotonic()
        if now - self._last < (TTY_INTERVAL_S if self._tty else PLAIN_INTERVAL_S):
            return
        self._last = now
        minutes, seconds = divmod(round(status.remaining_s), 60)
        left = f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
        far = f"{status.fraction:4.0%}, about {left} left"
        line = f"building the {self._what}, {far}; {status.text}"
        if self._tty:
            self._stream.write(f"\r\033[K{line[:_width()]}")
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Take the redrawn line away."""
        if self._tty:
            self._stream.write("\r\033[K")
            self._stream.flush()


def _width() -> int:
    import shutil  # only a terminal needs it

    return shutil.get_terminal_size().columns - 1
