"""Progress and remaining time of a build, and a line that shows both."""

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
    """The progress of all builds: text, share done (0 to 1) and seconds left."""

    text: str
    fraction: float
    remaining_s: float


class Track:
    """The progress of one build through its stages.

    `expected_s` is the usual duration of each stage in seconds.
    """

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

    def begin_stage(self, name: str, items: int | None = None) -> None:
        """Enter a stage.

        Args:
            name: A stage of `expected_s`.
            items: Expected number of steps (compiled object files), if the stage has steps.
        """
        if name not in self.expected_s:
            raise KeyError(f"{self.name} has no stage {name}")
        with self._lock:
            self._close_stage()
            self._stage = name
            self._items = (0, items) if items else None

    def count_item(self) -> None:
        """Count one finished item of the stage."""
        with self._lock:
            if self._items:
                self._items = (self._items[0] + 1, self._items[1])

    def set_note(self, text: str | None) -> None:
        """Set a text to show in place of the stage, for example during a wait.

        None removes the text.
        """
        self._note = text

    def finish(self) -> None:
        """Mark all stages as done."""
        with self._lock:
            self._close_stage()
            self.finished = True

    def spent_s(self) -> float:
        """Return the seconds since the build began."""
        return self._clock() - self.started

    def remaining_s(self) -> float:
        """Return the estimated seconds left."""
        with self._lock:
            if self.finished:
                return 0.0
            stages = list(self.expected_s)
            later = sum(self.expected_s[n] for n in stages[stages.index(self._stage) + 1 :])
            return later + self._stage_remaining_s()

    def describe(self) -> str:
        """Return the build's part of the progress line."""
        if self.finished:
            return f"{self.name}: done"
        if self._note:
            return f"{self.name}: {self._note}"
        items = f" {self._items[0]}/{self._items[1]}" if self._items else ""
        return f"{self.name}: {self._stage}{items}"

    def _stage_remaining_s(self) -> float:
        expected, spent = self.expected_s[self._stage], self._clock() - self._since
        if self._items and self._items[0] > 0.05 * self._items[1]:
            # Over 5 % of the items are done: extrapolate this machine's own speed.
            done, total = self._items
            return spent * max(total - done, 0) / done
        # If the estimate was too low, do not show "0 s left": keep a tenth of it.
        return max(expected - spent, 0.1 * expected)

    def _close_stage(self) -> None:
        now = self._clock()
        spent = self.durations_s.get(self._stage, 0.0) + now - self._since
        self.durations_s[self._stage] = spent
        self._since = now


def status_of(tracks: list[Track]) -> Status:
    """Return the progress of all builds.

    Builds run in parallel, so the longest determines the total time.
    """
    remaining = max((track.remaining_s() for track in tracks), default=0.0)
    spent = max((track.spent_s() for track in tracks), default=0.0)
    fraction = spent / (spent + remaining) if remaining else 1.0
    return Status("; ".join(track.describe() for track in tracks), fraction, remaining)


class Printer:
    """A progress line: redrawn on a terminal, otherwise repeated every 15 s."""

    def __init__(self, stream: TextIO | None = None, what: str = "guest") -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._last = float("-inf")

    def __call__(self, status: Status) -> None:
        """Write the progress line, if enough time has passed since the last one."""
        now = time.monotonic()
        if now - self._last < (TTY_INTERVAL_S if self._tty else PLAIN_INTERVAL_S):
            return
        self._last = now
        minutes, seconds = divmod(round(status.remaining_s), 60)
        left = f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
        far = f"{status.fraction:4.0%}, about {left} left"
        line = f"building the {self._what}, {far}; {status.text}"
        if self._tty:
            self._stream.write(f"\r\033[K{line[:_terminal_width()]}")
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Erase the redrawn line."""
        if self._tty:
            self._stream.write("\r\033[K")
            self._stream.flush()


def _terminal_width() -> int:
    import shutil  # only a terminal needs it

    return shutil.get_terminal_size().columns - 1
