"""Start daemons on nodes of an emulated network, wait until they are ready, and end them.

A `Daemon`, such as hostapd, starts a program with its output in a log file. It is ready when a
certain line is in the log. On exit it is ended by its own pid. If it fails, `find_cause` returns
the reason from the log. After the start, the log is read only on request, because a permanent
reader would use CPU time while the daemon is measured. `wait_at_most` limits blocking calls on a
socket to a daemon.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from measure.agent import running_programs
from measure.agent.errors import MeasureError, find_cause, last_line

_STOP_S = 2.0
# In s. Daemons start in a fraction of a second, but took more than 10 s on an emulated, shared
# processor.
_READY_S = 30.0
#: Interval between two checks for the ready line, in s.
_LOOK_S = 0.005
_TAIL_LINES, _TAIL_BYTES = 12, 1 << 16


class Process(Protocol):
    """An interface of a daemon's process: some methods of subprocess.Popen."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""

    def send_signal(self, number: signal.Signals, /) -> None:
        """Send a signal, unless the process has ended."""

    def kill(self) -> None:
        """Kill the process."""

    def wait(self) -> int | None:
        """Wait until the process has ended and return its exit status, which is not None then."""


#: Starts a program with the given standard output and error.
Start = Callable[[IO[bytes], IO[bytes]], Process]
#: Starts a program with a socket as its standard input and output, and with the given standard
#: error.
StartTalking = Callable[[socket.socket, IO[bytes]], Process]


def has_ended(process: Process, within_s: float) -> bool:
    """Return whether a process ends within `within_s` seconds.

    `Popen.wait` with a timeout would check at growing intervals.
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
    """A running daemon whose log shows by a certain line that the daemon is ready.

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
        with (log.open("ab") as log_file,
              data.open("wb") if data else contextlib.nullcontext(log_file) as output):
            #: Offset in the log at which this daemon's output begins; earlier lines are of other
            #: daemons.
            self._begins_at = log_file.tell()
            self.process: Process = command(output, log_file) if callable(command) else \
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=log_file,
                                 env=dict(env) if env else None)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Return the process id of the daemon (its wrapper programs replace themselves by exec)."""
        return self.process.pid

    def wait_ready(self) -> Daemon:
        """Wait until the daemon's log contains the line that shows that it is ready.

        Raises:
            MeasureError: The daemon ended, or the line did not come in time.
        """
        until = time.monotonic() + self._timeout_s
        while True:
            state = self.process.poll()
            if any(map(self._ready.search, self._read_lines())):
                running_programs.note_program(self.pid)
                return self
            if state is not None or time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        fate = "gave no sign of being ready" if state is None else f"ended with status {state}"
        self.stop()
        raise MeasureError("testbed", f"{self.name} {fate} within {self._timeout_s:g} s: "
                           f"{self.find_cause()} (log: {self.log.name})")

    def find_cause(self) -> str:
        """Return the cause of a failure that the daemon's log states, else its last line."""
        return self.recent_cause() or last_line(self._read_lines(_TAIL_BYTES))

    def recent_cause(self) -> str:
        """Return the cause of a failure that the end of the daemon's log states, or ""."""
        return find_cause(self.name.partition(" on ")[0], self._read_lines(_TAIL_BYTES))

    def position(self) -> int:
        """Return the present length of the daemon's log in bytes."""
        return self.log.stat().st_size

    def cause_since(self, position: int, *, takes_weak: bool = True) -> str:
        """Return the cause of a failure that the daemon's log states after an offset, or "".

        Args:
            position: Offset in the log.
            takes_weak: Whether lines that only hint at a cause count, too.
        """
        with self.log.open("rb") as log:
            log.seek(position)
            text = log.read(_TAIL_BYTES).decode("utf-8", "replace")
        return find_cause(self.name.partition(" on ")[0], text.splitlines(), most=1,
                          takes_weak=takes_weak)

    def last_lines(self) -> list[str]:
        """Return the last lines of the daemon's log, oldest first."""
        return self._read_lines(_TAIL_BYTES)[-_TAIL_LINES:]

    def ask_to_stop(self) -> None:
        """Send the daemon its stop signal once, without waiting for its end."""
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
        """Return the lines of the daemon's log, or only of its last `last_bytes` bytes."""
        with self.log.open("rb") as log:
            ends_at = log.seek(0, os.SEEK_END)
            log.seek(max(self._begins_at, ends_at - (last_bytes or ends_at)))
            content = log.read()
        return [line.rstrip() for line in content.decode("utf-8", "replace").split("\n") if line]


# --- Time limit on blocking socket calls, enforced by the kernel ---
# Python's timeouts read the clock before each call, and poll. In virtual time, reading the clock
# advances the time. An observer would then delay the observed programs, by an amount that depends
# on scheduling.

#: `struct timeval` of socket(7): seconds and microseconds.
_TIMEVAL = "ll"


def wait_at_most(sock: socket.socket, seconds: float) -> None:
    """Limit each blocking call on a socket to `seconds`.

    After this time the call raises BlockingIOError. The limit is at least a microsecond, because 0
    means no limit to the kernel.
    """
    micros = max(1, round(seconds * 1e6))
    limit = struct.pack(_TIMEVAL, *divmod(micros, 1_000_000))
    sock.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, limit)
