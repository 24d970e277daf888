"""A program of a study's own on a node: told what to do by lines, which it answers by lines."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.errors import MeasureError


class HostProgram:
    """A running program: told what to do by lines, which it answers. A context manager."""

    def __init__(self, name: str, argv: Sequence[str], log: Path,
                 environment: Mapping[str, str] | None = None) -> None:
        self._name, self._log = name, log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=errors, text=True, env=environment)
        self.expect("ready")

    def __enter__(self) -> HostProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what it was told last, in vain
                    stream.close()

    def kill(self) -> None:
        """End it where it is, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def do(self, command: str) -> None:
        """Have it do something to its end. Raises MeasureError."""
        self.tell(command)
        self.expect(f"done {command}")

    def tell(self, command: str) -> None:
        """Have it begin something. Raises MeasureError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except OSError:
            raise self._gone() from None

    def end(self) -> None:
        """Have it write its log and end. Raises MeasureError."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait():
            raise self._gone()

    def expect(self, line: str) -> None:
        """Wait for what it says. Raises MeasureError."""
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != line:
            raise self._gone()

    def _gone(self) -> MeasureError:
        last = (self._log.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]
        return MeasureError("data", f"the {self._name} has ended: {last} (log: {self._log.name})")
