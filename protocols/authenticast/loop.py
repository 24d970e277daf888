"""Main loop of both programs.

It waits for sockets and times, reads commands and writes events.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import select
import signal
import socket
import stat
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from protocols.authenticast.clock import WallClock
from protocols.authenticast.events import write_event
from protocols.authenticast.port import Port

#: Share of its timeout by which select may be late (Linux, fs/select.c), and the shortest timeout
#: for which the loop compensates.
_SLACK, _LONG_S = 0.001, 0.05


def random_bytes(seed: int | None) -> Callable[[int], bytes]:
    """Return a generator of random bytes: the system's, or a repeatable one from a seed.

    Bytes from a seed are predictable and therefore not secret.
    """
    return secrets.token_bytes if seed is None else random.Random(seed).randbytes  # noqa: S311


def _is_command_source(descriptor: int) -> bool:
    """Return whether a descriptor is a pipe, a socket or a terminal.

    Only these can have another party that sends commands.
    """
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class Loop:
    """A loop that waits for ports and for the next due time.

    SIGTERM, SIGINT and the end of standard input end the loop.
    """

    def __init__(self, clock: WallClock, command: Callable[[dict[str, Any]], None]) -> None:
        self._clock = clock
        self._command = command
        self._ports: list[Port] = []
        self._buffer = b""
        self.ended = False
        self._wake, self._wakes = socket.socketpair()
        for end in (self._wake, self._wakes):
            end.settimeout(0)
        signal.set_wakeup_fd(self._wakes.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        # A file or /dev/null has no commands, and would always be at its end.
        self._has_input = _is_command_source(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        signal.set_wakeup_fd(-1)
        self._wake.close()
        self._wakes.close()

    def add_port(self, port: Port) -> None:
        """Add a port whose datagrams make `wait` return."""
        self._ports.append(port)

    def end(self) -> None:
        """End the loop after the current step."""
        self.ended = True

    def write_event(self, event: str, at_ns: int | None = None, **fields: object) -> None:
        """Write an event with its time (default: the clock's)."""
        write_event(event, (self._clock.now_ns() if at_ns is None else at_ns) / 1e9, **fields)

    def wait(self, due_ns: int | None) -> set[Port]:
        """Wait for datagrams until a time, and return the ports that can be read.

        Also runs the commands from standard input and sends the datagrams that ports have queued.
        Returns earlier if a port is due, and at a signal. `due_ns` None means no time limit of the
        caller.
        """
        times = [due_ns, *(port.due_ns() for port in self._ports)]
        due_ns = min((time_ns for time_ns in times if time_ns is not None), default=None)
        watched = [port for port in self._ports if not port.is_ahead]
        # select waits to the microsecond; epoll and poll wait for whole milliseconds.
        sources: list[socket.socket | int] = [self._wake, *(port.socket for port in watched)]
        sources += [0] if self._has_input else []
        left_s = self._clock.wait_s(due_ns)
        # The kernel may be late by a thousandth of a timeout. So a long wait ends early, and the
        # caller waits again for the rest.
        readable, _, _ = select.select(sources, [], [],
                                       left_s if left_s < _LONG_S else left_s * (1 - 2 * _SLACK))
        self._clock.update_time()
        if self._wake in readable:
            self._wake.recv(64)
        if self._has_input and 0 in readable:
            self._read_commands()
        for port in self._ports:
            port.flush()
        return {port for port in self._ports if port.is_ahead or port.socket in readable}

    def _read_commands(self) -> None:
        data = os.read(0, 65536)
        if not data:
            self.end()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in filter(None, lines):
            try:
                command = json.loads(line)
            except ValueError:
                command = None
            if isinstance(command, dict):
                self._command(command)
            else:
                self.write_event("error", reason="a command is a JSON object on a line of its own")
