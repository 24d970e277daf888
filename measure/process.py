"""Start a daemon on a node, know when it is ready, and end it by its own pid.

What it says goes into a file that is looked at until it is ready, and then only when somebody asks.
Whoever read along would compute on the machine's processor while the daemon is timed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from measure.causes import find_cause, last_line
from measure.errors import MeasureError

_STOP_S = 2.0
# Daemons take a fraction of a second; more than 10 s were seen on an emulated, shared processor.
_READY_S = 30.0
#: Between two looks at whether it is.
_LOOK_S = 0.005
_TAIL_LINES, _TAIL_BYTES = 12, 1 << 16


class Process(Protocol):
    """As much of Popen as a daemon needs of whatever runs it."""

    pid: int

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""

    def send_signal(self, number: signal.Signals, /) -> None:
        """Send a signal, unless it has ended."""

    def kill(self) -> None:
        """End it."""

    def wait(self) -> int | None:
        """Its exit status, when it has ended."""


#: Starts a program, given its standard output and error.
Start = Callable[[IO[bytes], IO[bytes]], Process]
#: The same, given a socket that is its standard input and output, and its standard error.
StartTalking = Callable[[socket.socket, IO[bytes]], Process]


def has_ended(process: Process, within_s: float) -> bool:
    """Whether a process ends in time; `Popen.wait` would look less and less often."""
    if process.poll() is not None:
        return True
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:  # no child of this process, and waited for already
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


class Daemon:
    """A running daemon whose output goes to `log`, where a line says "ready".

    It is started by a command, or by what starts it otherwise, given its standard output and error.
    With `data`, standard output is what it makes and goes to that file, and only standard error to
    the log. No two may have a log at the same time. A context manager; leaving it ends the daemon.
    """

    def __init__(self, name: str, command: Sequence[str] | Start, log: Path, ready: str, *,
                 timeout_s: float = _READY_S, env: Mapping[str, str] | None = None,
                 stop_signal: signal.Signals = signal.SIGTERM, data: Path | None = None) -> None:
        self.name = name
        self.log = log
        self._ready = re.compile(ready)
        self._timeout_s = timeout_s
        self._stop_signal = stop_signal
        self._is_asked = False
        with (log.open("ab") as said,
              data.open("wb") if data else contextlib.nullcontext(said) as output):
            #: Where in the log its output begins; what is before is of others.
            self._begins_at = said.tell()
            self.process: Process = command(output, said) if callable(command) else \
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=said,
                                 env=dict(env) if env else None)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the daemon itself (the wrappers it is started by replace themselves)."""
        return self.process.pid

    def wait_ready(self) -> Daemon:
        """Block until the ready line was seen; raises MeasureError when it is not to come."""
        until = time.monotonic() + self._timeout_s
        while True:
            state = self.process.poll()
            if any(map(self._ready.search, self._lines())):
                return self
            if state is not None or time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        fate = "gave no sign of being ready" if state is None else f"ended with status {state}"
        self.stop()
        raise MeasureError("testbed", f"{self.name} {fate} within {self._timeout_s:g} s: "
                           f"{self.cause()} (log: {self.log.name})")

    def cause(self) -> str:
        """Return what its output says of why it failed, or else the last line."""
        return self.recent_cause() or last_line(self._lines(_TAIL_BYTES))

    def recent_cause(self) -> str:
        """Return what the end of its log says of why something failed; "" if nothing."""
        return find_cause(self.name.partition(" on ")[0], self._lines(_TAIL_BYTES))

    def position(self) -> int:
        """Return where in its log the next line will stand."""
        return self.log.stat().st_size

    def cause_since(self, position: int, *, takes_weak: bool = True) -> str:
        """Return what it has said from a position on of why something failed; "" if nothing."""
        with self.log.open("rb") as log:
            log.seek(position)
            said = log.read(_TAIL_BYTES).decode("utf-8", "replace")
        return find_cause(self.name.partition(" on ")[0], said.splitlines(), most=1,
                          takes_weak=takes_weak)

    def output(self) -> list[str]:
        """The last lines of output, oldest first."""
        return self._lines(_TAIL_BYTES)[-_TAIL_LINES:]

    def ask_to_stop(self) -> None:
        """Tell the daemon to end, once, and wait for nothing; `stop` does."""
        if not self._is_asked and self.process.poll() is None:
            self.process.send_signal(self._stop_signal)
        self._is_asked = True

    def stop(self) -> None:
        """End the daemon and wait for it."""
        self.ask_to_stop()
        if not has_ended(self.process, _STOP_S):
            self.process.kill()
        self.process.wait()

    def _lines(self, last_bytes: int | None = None) -> list[str]:
        """The lines of its output so far, of all of it or of so many bytes at its end."""
        with self.log.open("rb") as log:
            ends_at = log.seek(0, os.SEEK_END)
            log.seek(max(self._begins_at, ends_at - (last_bytes or ends_at)))
            said = log.read()
        return [line.rstrip() for line in said.decode("utf-8", "replace").split("\n") if line]
