"""Run a Mobile IP program (agent or mobile node) as a daemon with an event loop.

`run_daemon` reads the configuration file, runs the event loop until a signal or command ends it,
and undoes all changes at the end. `load_agent_config` and `load_node_config` read the JSON
configurations of both programs (docs/mobile-ip.md).
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from protocols.fields import (
    ConfigError,
    Fields,
    none_or,
    number_between,
    parse_address,
    parse_boolean,
    parse_text,
    read_json,
)
from topologies.mobile_ip.packets import INFINITE_LIFETIME, Association

_EPOCH_S = time.time() - time.monotonic()


class Readable(Protocol):
    """An object with a file descriptor that the event loop can wait for."""

    def fileno(self) -> int:
        """Return the file descriptor."""


class DaemonConfig(Protocol):
    """The configuration that agents and mobile nodes have in common."""

    @property
    def interface(self) -> str:
        """Return the name of the interface on the radio side."""


class DaemonProgram(Protocol):
    """The interface of a program that `run_daemon` runs."""

    def start(self) -> None:
        """Prepare the kernel for the program's routes."""

    def stop(self) -> None:
        """Undo the program's changes to the kernel."""

    def deadline_s(self) -> float | None:
        """Return when `tick` must be called next, in seconds since 1970. None means never."""

    def tick(self, now: float) -> None:
        """Do all work that is due at this time, in seconds since 1970."""


ConfigT = TypeVar("ConfigT", bound=DaemonConfig)


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
    """An event loop that waits for file descriptors and times, until `end` is called."""

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
        """Call `on_readable` whenever a descriptor can be read."""
        self._selector.register(what.fileno(), selectors.EVENT_READ, on_readable)

    def end(self) -> None:
        """Leave `run` after the current callback."""
        self._ended = True

    def run(self, deadline_s: Callable[[], float | None],
            tick: Callable[[float], object]) -> None:
        """Call functions for readable descriptors, and `tick(now)` at due times, until `end`."""
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
        return _print_refusal(config, error)
    try:
        running.start()
        print_event("ready", **announce(config))
        loop.run(running.deadline_s, running.tick)
    except OSError as error:
        return _print_refusal(config, error)
    finally:
        running.stop()
    print_event("stopped")
    return 0


def _print_refusal(config: DaemonConfig, error: OSError) -> int:
    """Print a `failed` event with the kernel's reason for a refusal, and return exit status 1."""
    print_event("failed", reason=f"{config.interface}: {error.strerror or error}")
    return 1


# --- Configurations of the two programs, from JSON ---
# An error is one line.

# RFC 5944 section 2.3: at most one advertisement a second.
_SHORTEST_INTERVAL_S = 1.0


@dataclass(frozen=True)
class AgentConfig:
    """The configuration of a Mobile IP agent (docs/mobile-ip.md). Times are in seconds."""

    interface: str
    address: str
    wired_interface: str | None
    care_of: str
    home: dict[str, Association]
    foreign: bool
    reverse_tunnel: bool
    reverse_tunnel_mandatory: bool
    advertisement_interval_s: float
    lifetime_s: int
    peers: dict[str, Association]
    visitors: dict[str, Association]


@dataclass(frozen=True)
class NodeConfig:
    """The configuration of a Mobile IP mobile node (docs/mobile-ip.md). Times are in seconds."""

    interface: str
    home_address: str
    home_agent: str
    association: Association
    lifetime_s: int
    by_event: bool
    reverse_tunnel: bool
    retry_s: float
    deadline_s: float
    clock_offset_s: float
    foreign_agents: dict[str, Association]


def load_agent_config(path: Path) -> AgentConfig:
    """Load an agent's configuration from a file.

    Raises:
        ConfigError: The file cannot be used.
    """
    reader = Fields(read_json(path), path.name)
    reverse = reader.take("reverse_tunnel", _parse_reverse_tunnel, default=True)
    config = AgentConfig(
        interface=reader.take("interface", parse_text),
        address=reader.take("address", parse_address),
        wired_interface=reader.take("wired_interface", none_or(parse_text), None),
        care_of=reader.take("care_of", parse_address),
        home=_read_associations(reader.take_objects("home", [])),
        foreign=reader.take("foreign", parse_boolean, default=True),
        reverse_tunnel=bool(reverse),
        reverse_tunnel_mandatory=reverse == "mandatory",
        advertisement_interval_s=reader.take("advertisement_interval_s", _parse_interval, 1.0),
        lifetime_s=reader.take("lifetime_s", _parse_lifetime, 600),
        peers=_read_associations(reader.take_objects("peers", [])),
        visitors=_read_associations(reader.take_objects("visitors", [])),
    )
    reader.end()
    return config


def load_node_config(path: Path) -> NodeConfig:
    """Load a mobile node's configuration from a file.

    Raises:
        ConfigError: The file cannot be used.
    """
    reader = Fields(read_json(path), path.name)
    config = NodeConfig(
        interface=reader.take("interface", parse_text),
        home_address=reader.take("home_address", parse_address),
        home_agent=reader.take("home_agent", parse_address),
        association=Association(reader.take("spi", _parse_spi), reader.take("key_hex", _parse_key)),
        lifetime_s=reader.take("lifetime_s", _parse_lifetime, 600),
        by_event=reader.take("detection", _parse_detection, "event") == "event",
        reverse_tunnel=reader.take("reverse_tunnel", parse_boolean, default=True),
        retry_s=reader.take("retry_s", _parse_positive, 1.0),
        deadline_s=reader.take("deadline_s", _parse_positive, 10.0),
        clock_offset_s=reader.take("clock_offset_s", number_between(), 0.0),
        foreign_agents=_read_associations(reader.take_objects("foreign_agents", [])),
    )
    reader.end()
    return config


def _parse_reverse_tunnel(value: object) -> bool | Literal["mandatory"]:
    return "mandatory" if value == "mandatory" else parse_boolean(value)


def _parse_detection(value: object) -> str:
    if value not in {"event", "advertisement"}:
        raise ValueError("event or advertisement is needed")
    return str(value)


def _parse_positive(value: object) -> float:
    seconds = number_between()(value)
    if seconds <= 0:
        raise ValueError("a number above 0 is needed")
    return seconds


def _parse_interval(value: object) -> float:
    """Check an advertisement interval in s, where 0 means to advertise only when solicited."""
    seconds = number_between()(value)
    if seconds and seconds < _SHORTEST_INTERVAL_S:
        raise ValueError(f"0 or at least {_SHORTEST_INTERVAL_S:g} s is needed")
    return seconds


def _parse_lifetime(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= INFINITE_LIFETIME:
        raise ValueError("a number of seconds from 1 to 65534 is needed, or 65535 for no end")
    return value


def _parse_spi(value: object) -> int:
    # RFC 5944 section 3.5.1: 0 to 255 are reserved.
    if isinstance(value, bool) or not isinstance(value, int) or not 255 < value < 1 << 32:
        raise ValueError("an index from 256 to 4294967295 is needed")
    return value


def _parse_key(value: object) -> bytes:
    key = bytes.fromhex(parse_text(value))
    if len(key) < 16:
        raise ValueError("at least 16 octets are needed")
    return key


def _read_associations(entries: list[Fields]) -> dict[str, Association]:
    associations = {}
    for entry in entries:
        associations[entry.take("address", parse_address)] = Association(
            entry.take("spi", _parse_spi), entry.take("key_hex", _parse_key))
        entry.end()
    return associations
