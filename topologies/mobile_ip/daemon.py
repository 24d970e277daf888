"""What both programs share: one loop over sockets and times, JSON lines out, a tidy end."""

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
    """What the loop can wait for."""

    def fileno(self) -> int:
        """A descriptor."""


class Configured(Protocol):
    """What every configuration has."""

    @property
    def interface(self) -> str:
        """The radio side's interface."""


class DaemonProgram(Protocol):
    """What `serve` runs."""

    def start(self) -> None:
        """Prepare the kernel."""

    def stop(self) -> None:
        """Take back what was done to the kernel."""

    def deadline_s(self) -> float | None:
        """When `tick` is due next."""

    def tick(self, now: float) -> None:
        """Whatever is due."""


ConfigT = TypeVar("ConfigT", bound=Configured)


def now_s() -> float:
    """Seconds since 1970 that never jump: wall clock at the start plus what has passed."""
    return _EPOCH_S + time.monotonic()


def say(event: str, **fields: object) -> None:
    """One event to who started the daemon, with the wall clock's time."""
    sys.stdout.write(json.dumps({"event": event, "at_s": time.time(), **fields}) + "\n")
    sys.stdout.flush()


class DaemonLoop:
    """Waits for what is readable and for the next time, until it is told to end."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ended = False
        self._wake, wakes = socket.socketpair()
        self._wakes = wakes
        for end in (self._wake, wakes):
            end.settimeout(0)
        # A signal becomes something readable: no step of the kernel's is cut in half.
        signal.set_wakeup_fd(wakes.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        self.watch(self._wake, lambda: self._wake.recv(64))

    def watch(self, what: Readable, on_readable: Callable[[], object]) -> None:
        """Call back whenever `what` can be read."""
        self._selector.register(what.fileno(), selectors.EVENT_READ, on_readable)

    def end(self) -> None:
        """Leave `run` after what is being done."""
        self._ended = True

    def run(self, deadline_s: Callable[[], float | None],
            tick: Callable[[float], object]) -> None:
        """Until `end`: callbacks for what is readable, `tick(now)` when its time has come."""
        while not self._ended:
            due_s = deadline_s()
            wait_s = None if due_s is None else max(0.0, due_s - now_s())
            for key, _ in self._selector.select(wait_s):
                key.data()
            due_s = deadline_s()
            if due_s is not None and due_s <= now_s() and not self._ended:
                tick(now_s())


def serve(arguments: list[str], load: Callable[[Path], ConfigT],
          program: Callable[[ConfigT, DaemonLoop], DaemonProgram],
          announce: Callable[[ConfigT], dict[str, str]]) -> int:
    """Run a program on the configuration named on its command line; its exit status.

    `announce` gives the fields of the event that says it is ready. Status 2: the configuration
    cannot be used; 1: the system refuses something.
    """
    try:
        config = load(Path(arguments[0]))
    except ConfigError as error:
        say("failed", reason=str(error))
        return 2
    loop = DaemonLoop()
    try:
        running = program(config, loop)
    except OSError as error:
        say("failed", reason=f"{config.interface}: {error.strerror}")
        return 1
    try:
        running.start()
        say("ready", **announce(config))
        loop.run(running.deadline_s, running.tick)
    finally:
        running.stop()
    say("stopped")
    return 0
