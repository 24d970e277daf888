"""Runs a build's commands: everything they say goes to a log, and stopping the build stops them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from guest.processes import tied

TAIL_LINES = 12


class BuildError(Exception):
    """A build cannot be done. The first line says what and where; the log's last lines follow."""


class Commands:
    """Commands of one build, one at a time, with one log."""

    def __init__(self, what: str, log: Path) -> None:
        self.what = what
        self.log = log
        self.stopped = False
        self._running: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        log.parent.mkdir(parents=True, exist_ok=True)
        # Begun with the first command: until then it is that of whoever builds the same.
        self._mode = "w"

    def run(
        self,
        command: Sequence[str],
        *,
        each_line: Callable[[str], None] = lambda _: None,
        environment: Mapping[str, str] | None = None,
        may_fail: bool = False,
    ) -> str:
        """Run to the end and give the output back; BuildError unless it exits 0 (or may fail)."""
        lines: list[str] = []
        with open(self.log, self._mode) as log:
            self._mode = "a"
            log.write("$ " + " ".join(command) + "\n")
            with self._start(command, environment) as process:
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
            raise self.error(f"{Path(command[0]).name} exited with {status}")
        return "\n".join(lines)

    def error(self, reason: str) -> BuildError:
        """The error to raise, with where to read on and what was said last."""
        if self.stopped:
            return BuildError(f"building the {self.what} was stopped")
        tail = "".join(f"\n  {line}" for line in self._tail)
        return BuildError(f"building the {self.what} failed: {reason}; full log: {self.log}{tail}")

    def stop(self) -> None:
        """End the running command, if any."""
        with self._lock:
            self.stopped = True
            process = self._running
        if process is None or process.poll() is not None:
            return
        # All these commands leave is files, in a folder that is removed as a whole.
        os.killpg(process.pid, signal.SIGKILL)

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self.stopped:
                raise self.error("stopped")
            # Its own session: Ctrl-C reaches this process, which ends the command.
            # And where this process just dies, the kernel ends the command.
            self._running = subprocess.Popen(
                [*tied("KILL"), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return self._running

