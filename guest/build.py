"""Run the commands of an image build, and show its progress with the remaining time.

`BuildCommands` runs the commands of one build, logs their output, and can be stopped. A failed
command raises `BuildError`, whose text is meant for the user. `BuildProgress` estimates the
remaining time from the usual duration of each stage, and `ProgressPrinter` shows one line for all
builds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from guest.processes import build_tied_command

# --- Commands of a build and their log ---

TAIL_LINES = 12


class BuildError(Exception):
    """An error: a build failed. The text names the problem, then shows the end of the log."""


class BuildCommands:
    """A runner for the commands of one build, which write to one log file.

    Commands run one at a time.
    """

    def __init__(self, what: str, log: Path) -> None:
        self.what = what
        self.log = log
        self.stopped = False
        self._running: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        log.parent.mkdir(parents=True, exist_ok=True)
        # The log is truncated by the first command: until then it may belong to another process
        # that builds the same thing.
        self._mode = "w"

    def run(
        self,
        command: Sequence[str],
        *,
        each_line: Callable[[str], None] = lambda _: None,
        environment: Mapping[str, str] | None = None,
        may_fail: bool = False,
    ) -> str:
        """Run a command to its end and return its output.

        Args:
            command: Program and arguments.
            each_line: Called with every line of output.
            environment: Environment variables, by default those of this process.
            may_fail: Accept an exit status other than 0.

        Raises:
            BuildError: The exit status is not 0 (unless it `may_fail`), or the build was stopped.
        """
        lines: list[str] = []
        with open(self.log, self._mode) as log:
            self._mode = "a"
            log.write("$ " + " ".join(command) + "\n")
            with self._start_process(command, environment) as process:
                assert process.stdout is not None  # it is a pipe
                for raw in process.stdout:
                    line = raw.decode(errors="replace").rstrip("\r\n")
                    lines.append(line)
                    self._tail.append(line)
                    log.write(line + "\n")
                    log.flush()
                    each_line(line)
                status = process.wait()
        self._running = None
        if self.stopped or (status != 0 and not may_fail):
            raise self.make_error(f"{Path(command[0]).name} exited with {status}")
        return "\n".join(lines)

    def make_error(self, reason: str) -> BuildError:
        """Return the error of a failed build, with the path of the log and its last lines."""
        if self.stopped:
            return BuildError(f"building the {self.what} was stopped")
        tail = "".join(f"\n  {line}" for line in self._tail)
        return BuildError(f"building the {self.what} failed: {reason}; full log: {self.log}{tail}")

    def stop(self) -> None:
        """Kill the running command of the build, if there is one."""
        with self._lock:
            self.stopped = True
            process = self._running
        if process is None or process.poll() is not None:
            return
        # SIGKILL is safe: the commands leave only files, in a folder that is removed as a whole.
        os.killpg(process.pid, signal.SIGKILL)

    def _start_process(
        self, command: Sequence[str], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self.stopped:
                raise self.make_error("stopped")
            # A separate session: Ctrl-C reaches only this process, which then ends the command. If
            # this process is killed, the kernel ends the command.
            self._running = subprocess.Popen(
                [*build_tied_command("KILL"), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return self._running


# --- Progress and remaining time ---

PLAIN_INTERVAL_S = 15.0
TTY_INTERVAL_S = 0.25


@dataclass(frozen=True)
class BuildStatus:
    """The progress of all builds: a text, the fraction done (0 to 1) and the seconds left."""

    text: str
    fraction: float
    remaining_s: float


class BuildProgress:
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
        """Note that a stage of the build begins.

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

    def follow_line(self, line: str) -> None:
        """Begin the stage that a line `@stage NAME` of a build's output names."""
        if line.startswith("@stage "):
            self.begin_stage(line.removeprefix("@stage "))

    def count_item(self) -> None:
        """Count one finished step of the stage, such as a compiled file."""
        with self._lock:
            if self._items:
                self._items = (self._items[0] + 1, self._items[1])

    def set_note(self, text: str | None) -> None:
        """Set a text to show in place of the stage, for example during a wait.

        None removes the text.
        """
        self._note = text

    def finish(self) -> None:
        """Note that all stages of the build are done."""
        with self._lock:
            self._close_stage()
            self.finished = True

    def spent_s(self) -> float:
        """Return the seconds since the build began."""
        return self._clock() - self.started

    def remaining_s(self) -> float:
        """Return the estimated seconds until the build ends."""
        with self._lock:
            if self.finished:
                return 0.0
            stages = list(self.expected_s)
            later = sum(self.expected_s[n] for n in stages[stages.index(self._stage) + 1 :])
            return later + self._stage_remaining_s()

    def describe(self) -> str:
        """Return this build's part of the progress line."""
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
            if done < total:
                return spent * (total - done) / done
        # If the estimate was too low, do not show "0 s left": keep a tenth of it.
        return max(expected - spent, 0.1 * expected)

    def _close_stage(self) -> None:
        now = self._clock()
        spent = self.durations_s.get(self._stage, 0.0) + now - self._since
        self.durations_s[self._stage] = spent
        self._since = now


def summarize_progress(tracks: Sequence[BuildProgress],
                       shown_fraction: float = 0.0) -> BuildStatus:
    """Return the progress of all builds.

    Builds run in parallel, so the longest determines the total time. The estimate of the remaining
    time rises on a machine that is slower than expected. The fraction stands then, and never falls.

    Args:
        tracks: The progress of each build.
        shown_fraction: The fraction that was shown before.
    """
    remaining = max((track.remaining_s() for track in tracks), default=0.0)
    spent = max((track.spent_s() for track in tracks), default=0.0)
    fraction = spent / (spent + remaining) if remaining else 1.0
    return BuildStatus("; ".join(track.describe() for track in tracks),
                       max(fraction, shown_fraction), remaining)


class ProgressPrinter:
    """A printer of build progress: one line, redrawn on a terminal or else repeated every 15 s."""

    def __init__(self, stream: TextIO | None = None, what: str = "guest") -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._last = float("-inf")

    def __call__(self, status: BuildStatus) -> None:
        """Print the progress of all builds, if enough time has passed since the last time."""
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
        """Erase the progress line from the terminal."""
        if self._tty:
            self._stream.write("\r\033[K")
            self._stream.flush()


def _terminal_width() -> int:
    import shutil  # only a terminal needs it

    return shutil.get_terminal_size().columns - 1
