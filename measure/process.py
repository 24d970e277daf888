"""Start daemons on nodes, wait until they are ready, and end them by pid.

The output goes to a file. The file is read until the daemon is ready, and later only on request. A
permanent reader would use the machine's processor while the daemon is timed.
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
# In s. Daemons start in a fraction of a second, but took more than 10 s on an emulated, shared
# processor.
_READY_S = 30.0
#: Interval between two checks for the ready line, in s.
_LOOK_S = 0.005
_TAIL_LINES, _TAIL_BYTES = 12, 1 << 16


class Process(Protocol):
    """The part of Popen's interface that a daemon needs from its process."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""

    def send_signal(self, number: signal.Signals, /) -> None:
        """Send a signal, unless the process has ended."""

    def kill(self) -> None:
        """Kill the process."""

    def wait(self) -> int | None:
        """Wait for the end of the process and return its exit status."""


#: Starts a program with the given standard output and error.
Start = Callable[[IO[bytes], IO[bytes]], Process]
#: Starts a program with a socket as its standard input and output, and with the given standard
#: error.
StartTalking = Callable[[socket.socket, IO[bytes]], Process]


def has_ended(process: Process, within_s: float) -> bool:
    """Return whether a process ends within `within_s` seconds.

    `Popen.wait` would check at growing intervals.
    """
    if process.poll() is not None:
        return True
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:  # not a child of this process, and already waited for
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


class Daemon:
    """A running daemon that logs to `log`, where a line shows that it is ready.

    The daemon is started by a command, or by a function that gets the files for standard output and
    error. With `data`, standard output goes to that file and only standard error to the log. No two
    daemons may use one log at the same time. A context manager; leaving it ends the daemon.
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
            #: Offset in the log at which this daemon's output begins; earlier lines are of other
            #: daemons.
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
        """Return the daemon's process id (its wrapper programs replace themselves by exec)."""
        return self.process.pid

    def wait_ready(self) -> Daemon:
        """Wait until the output has the ready line.

        Raises:
            MeasureError: The daemon ended, or the line did not come in time.
        """
        until = time.monotonic() + self._timeout_s
        while True:
            state = self.process.poll()
            if any(map(self._ready.search, self._read_lines())):
                return self
            if state is not None or time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        fate = "gave no sign of being ready" if state is None else f"ended with status {state}"
        self.stop()
        raise MeasureError("testbed", f"{self.name} {fate} within {self._timeout_s:g} s: "
                           f"{self.find_cause()} (log: {self.log.name})")

    def find_cause(self) -> str:
        """Return the cause of a failure from the output, or else the last line."""
        return self.recent_cause() or last_line(self._read_lines(_TAIL_BYTES))

    def recent_cause(self) -> str:
        """Return the cause of a failure from the end of the output, or ""."""
        return find_cause(self.name.partition(" on ")[0], self._read_lines(_TAIL_BYTES))

    def position(self) -> int:
        """Return the offset in the log at which the next line will begin."""
        return self.log.stat().st_size

    def cause_since(self, position: int, *, takes_weak: bool = True) -> str:
        """Return the cause that the log states after a position, or "".

        Args:
            position: Offset in the log.
            takes_weak: Whether lines that only hint at a cause count, too.
        """
        with self.log.open("rb") as log:
            log.seek(position)
            said = log.read(_TAIL_BYTES).decode("utf-8", "replace")
        return find_cause(self.name.partition(" on ")[0], said.splitlines(), most=1,
                          takes_weak=takes_weak)

    def last_lines(self) -> list[str]:
        """Return the last lines of output, oldest first."""
        return self._read_lines(_TAIL_BYTES)[-_TAIL_LINES:]

    def ask_to_stop(self) -> None:
        """Send the stop signal once, without waiting for the daemon's end."""
        if not self._is_asked and self.process.poll() is None:
            self.process.send_signal(self._stop_signal)
        self._is_asked = True

    def stop(self) -> None:
        """End the daemon and wait for its end, or kill it after 2 s."""
        self.ask_to_stop()
        if not has_ended(self.process, _STOP_S):
            self.process.kill()
        self.process.wait()

    def _read_lines(self, last_bytes: int | None = None) -> list[str]:
        """Return the output's lines so far, or those of its last `last_bytes` bytes."""
        with self.log.open("rb") as log:
            ends_at = log.seek(0, os.SEEK_END)
            log.seek(max(self._begins_at, ends_at - (last_bytes or ends_at)))
            said = log.read()
        return [line.rstrip() for line in said.decode("utf-8", "replace").split("\n") if line]
