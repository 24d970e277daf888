"""What both programs share: one loop over sockets and times, JSON lines in and out, a tidy end."""

from __future__ import annotations

import json
import os
import random
import secrets
import selectors
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_EPOCH_NS = time.time_ns() - time.monotonic_ns()
_MAX_WAIT_S = 3600.0


def now_ns() -> int:
    """Nanoseconds since 1970 that never jump: wall clock at the start plus what has passed."""
    return _EPOCH_NS + time.monotonic_ns()


def random_bytes(seed: int | None) -> Callable[[int], bytes]:
    """The system's random bytes; those of a seed are repeatable, and so no secret."""
    return secrets.token_bytes if seed is None else random.Random(seed).randbytes  # noqa: S311


def wait_until(due_ns: int) -> None:
    """Sleep; not at all where the time is past."""
    left_ns = due_ns - now_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


def say(event: str, **fields: object) -> None:
    """One event to who started the program, with the wall clock's time."""
    try:
        sys.stdout.write(json.dumps({"event": event, "at_s": time.time(), **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody listens any more; the stream goes on.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the program's end


def bind(address: str, port: int) -> socket.socket:
    """A UDP socket that never blocks. Raises OSError."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound


def send(through: socket.socket, payload: bytes, to: tuple[str, int]) -> None:
    """A datagram; one that the system refuses is lost, as any may be."""
    try:
        through.sendto(payload, to)
    except OSError as error:
        say("error", reason=f"{to[0]}: {error.strerror}")


def _is_conversation(descriptor: int) -> bool:
    """Whether somebody may be at the other end: of a pipe, a socket or a terminal."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class Loop:
    """Waits for what is readable and for the next time; signals and the end of input end it."""

    def __init__(self, command: Callable[[dict[str, Any]], None]) -> None:
        self._command = command
        # To the microsecond: epoll and poll wait for whole milliseconds.
        self._selector = selectors.SelectSelector()
        self._buffer = b""
        self.ended = False
        self._wake, self._wakes = socket.socketpair()
        for end in (self._wake, self._wakes):
            end.settimeout(0)
        signal.set_wakeup_fd(self._wakes.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        self._selector.register(self._wake, selectors.EVENT_READ)
        # A file or /dev/null has no commands, and would always seem to be at its end.
        self._has_input = _is_conversation(0)
        if self._has_input:
            self._selector.register(0, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        signal.set_wakeup_fd(-1)
        self._selector.close()
        self._wake.close()
        self._wakes.close()

    def watch(self, readable: socket.socket) -> None:
        """Return from `wait` when this can be read."""
        self._selector.register(readable, selectors.EVENT_READ)

    def end(self) -> None:
        """Leave after what is being done."""
        self.ended = True

    def wait(self, due_ns: int | None) -> set[object]:
        """What is readable, at the latest when a time has come; commands are obeyed here."""
        wait_s = _MAX_WAIT_S if due_ns is None else max(0.0, (due_ns - now_ns()) / 1e9)
        ready: set[object] = {key.fileobj for key, _ in self._selector.select(wait_s)}
        if self._wake in ready:
            self._wake.recv(64)
        if self._has_input and 0 in ready:
            self._read()
        return ready

    def _read(self) -> None:
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
                say("error", reason="a command is a JSON object on a line of its own")
