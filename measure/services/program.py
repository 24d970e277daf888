"""Control a study's own program on a node by lines on standard input and output."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.errors import MeasureError


class HostProgram:
    """A running program, controlled by lines that it answers. A context manager."""

    def __init__(self, name: str, argv: Sequence[str], log: Path,
                 environment: Mapping[str, str] | None = None) -> None:
        self._name, self._log = name, log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=errors, text=True, env=environment)
        self.expect_line("ready")

    def __enter__(self) -> HostProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # the last command may still be unread
                    stream.close()

    def kill(self) -> None:
        """Kill the program, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def run_command(self, command: str) -> None:
        """Send a command and wait until the program has completed it.

        Raises:
            MeasureError: The program has ended.
        """
        self.send_command(command)
        self.expect_line(f"done {command}")

    def send_command(self, command: str) -> None:
        """Send a command without waiting for its completion.

        Raises:
            MeasureError: The program has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended_error() from None

    def finish(self) -> None:
        """Make the program write its log and exit.

        Raises:
            MeasureError: The program exited with an error.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait():
            raise self._ended_error()

    def expect_line(self, line: str) -> None:
        """Read one line and check that it is the expected one.

        Raises:
            MeasureError: The program printed another line or has ended.
        """
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != line:
            raise self._ended_error()

    def _ended_error(self) -> MeasureError:
        last = (self._log.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]
        return MeasureError("data", f"the {self._name} has ended: {last} (log: {self._log.name})")
