"""Common parts of both programs: an event loop, JSON events as output, an orderly end."""

from __future__ import annotations

import json
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from protocols.fields import ConfigError

_EPOCH_S = time.time() - time.monotonic()


class Readable(Protocol):
    """An object with a descriptor that the loop can wait for."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Configured(Protocol):
    """The part that all configurations share."""

    @property
    def interface(self) -> str:
        """Return the interface on the radio side."""


class DaemonProgram(Protocol):
    """The interface of a program that `run_daemon` runs."""

    def start(self) -> None:
        """Prepare the kernel."""

    def stop(self) -> None:
        """Undo the changes to the kernel."""

    def deadline_s(self) -> float | None:
        """Return the time at which `tick` is due next, in seconds since 1970. None means never."""

    def tick(self, now: float) -> None:
        """Do what is due at this time, in seconds since 1970."""


ConfigT = TypeVar("ConfigT", bound=Configured)


def now_s() -> float:
    """Return the seconds since 1970 on a clock that never jumps.

    The clock is the wall clock at the start plus the time that has passed since.
    """
    return _EPOCH_S + time.monotonic()


def print_event(event: str, **fields: object) -> None:
    """Print one event as a line of JSON with the wall clock's time."""
    sys.stdout.write(json.dumps({"event": event, "at_s": time.time(), **fields}) + "\n")
    sys.stdout.flush()


class DaemonLoop:
    """An event loop over descriptors and due times, until it is told to end."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ended = False
        self._wake, wakes = socket.socketpair()
        self._wakes = wakes
        for end in (self._wake, wakes):
            end.settimeout(0)
        # A signal wakes the loop as a readable socket, so it never interrupts a change to the
        # kernel.
        signal.set_wakeup_fd(wakes.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        self.watch(self._wake, lambda: self._wake.recv(64))

    def watch(self, what: Readable, on_readable: Callable[[], object]) -> None:
        """Call `on_readable` whenever `what` can be read."""
        self._selector.register(what.fileno(), selectors.EVENT_READ, on_readable)

    def end(self) -> None:
        """Leave `run` after the current callback."""
        self._ended = True

    def run(self, deadline_s: Callable[[], float | None],
            tick: Callable[[float], object]) -> None:
        """Run callbacks for readable descriptors, and `tick(now)` at due times, until `end`."""
        while not self._ended:
            due_s = deadline_s()
            wait_s = None if due_s is None else max(0.0, due_s - now_s())
            for key, _ in self._selector.select(wait_s):
                key.data()
            due_s = deadline_s()
            if due_s is not None and due_s <= now_s() and not self._ended:
                tick(now_s())


def run_daemon(arguments: list[str], load: Callable[[Path], ConfigT],
               program: Callable[[ConfigT, DaemonLoop], DaemonProgram],
               announce: Callable[[ConfigT], dict[str, str]]) -> int:
    """Run a program with the configuration file named on its command line.

    Args:
        arguments: The command line; the first argument is the file.
        load: Reads the configuration.
        program: Creates the program.
        announce: Returns fields for the event that says that the program is ready.

    Returns:
        The exit status: 2 if the configuration cannot be used, 1 if the system refuses something.
    """
    try:
        config = load(Path(arguments[0]))
    except ConfigError as error:
        print_event("failed", reason=str(error))
        return 2
    loop = DaemonLoop()
    try:
        running = program(config, loop)
    except OSError as error:
        print_event("failed", reason=f"{config.interface}: {error.strerror}")
        return 1
    try:
        running.start()
        print_event("ready", **announce(config))
        loop.run(running.deadline_s, running.tick)
    finally:
        running.stop()
    print_event("stopped")
    return 0
