"""Run and log the commands of a build, which can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from guest.processes import tied_command

TAIL_LINES = 12


class BuildError(Exception):
    """A build that cannot be done. The text names the problem, then shows the end of the log."""


class Commands:
    """A runner for the commands of one build, which share one log file.

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
        """Return the error to raise, with the path of the log and its last lines."""
        if self.stopped:
            return BuildError(f"building the {self.what} was stopped")
        tail = "".join(f"\n  {line}" for line in self._tail)
        return BuildError(f"building the {self.what} failed: {reason}; full log: {self.log}{tail}")

    def stop(self) -> None:
        """Kill the running command, if there is one."""
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
                [*tied_command("KILL"), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return self._running

