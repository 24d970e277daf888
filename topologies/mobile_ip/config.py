"""Configurations of the two programs, from JSON, refused in one line where they are wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from topologies.mobile_ip.packets import INFINITE_LIFETIME, Association

# RFC 5944 section 2.3: at most one advertisement a second.
_SHORTEST_INTERVAL_S = 1.0
_MISSING = object()
T = TypeVar("T")


class MobileIpConfigError(ValueError):
    """A configuration that cannot be used; the text names key and remedy."""


@dataclass(frozen=True)
class AgentConfig:
    """What an agent is; see docs/mobile-ip.md. Times in seconds."""

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


@dataclass(frozen=True)
class NodeConfig:
    """What a mobile node is; see docs/mobile-ip.md. Times in seconds."""

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


class _Reader:
    """Takes keys out of an object; what is left in the end is unknown."""

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, dict):
            raise MobileIpConfigError(f"{where}: an object is needed")
        self._values = dict(values)
        self._where = where

    def take(self, key: str, convert: Callable[[object], T], default: object = _MISSING) -> T:
        """A value as `convert` makes it, which says what it wants in a ValueError."""
        value = self._values.pop(key, default)
        if value is _MISSING:
            raise MobileIpConfigError(f"{self._where}: {key} is missing")
        try:
            return convert(value)
        except ValueError as error:
            raise MobileIpConfigError(f"{self._where}: {key}: {error}") from None

    def end(self) -> None:
        """Refuse what nobody has taken."""
        if self._values:
            raise MobileIpConfigError(f"{self._where}: unknown: {', '.join(sorted(self._values))}")


def load_agent(path: Path) -> AgentConfig:
    """The agent's configuration in a file. Raises MobileIpConfigError."""
    reader = _Reader(_read(path), path.name)
    reverse = reader.take("reverse_tunnel", _reverse_tunnel, default=True)
    config = AgentConfig(
        interface=reader.take("interface", _text),
        address=reader.take("address", _address),
        wired_interface=reader.take("wired_interface", _text_or_none, None),
        care_of=reader.take("care_of", _address),
        home=reader.take("home", _associations, []),
        foreign=reader.take("foreign", _boolean, default=True),
        reverse_tunnel=bool(reverse),
        reverse_tunnel_mandatory=reverse == "mandatory",
        advertisement_interval_s=reader.take("advertisement_interval_s", _interval, 1.0),
        lifetime_s=reader.take("lifetime_s", _lifetime, 600),
        peers=reader.take("peers", _associations, []),
    )
    reader.end()
    return config


def load_node(path: Path) -> NodeConfig:
    """The mobile node's configuration in a file. Raises MobileIpConfigError."""
    reader = _Reader(_read(path), path.name)
    config = NodeConfig(
        interface=reader.take("interface", _text),
        home_address=reader.take("home_address", _address),
        home_agent=reader.take("home_agent", _address),
        association=Association(reader.take("spi", _spi), reader.take("key_hex", _key)),
        lifetime_s=reader.take("lifetime_s", _lifetime, 600),
        by_event=reader.take("detection", _detection, "event") == "event",
        reverse_tunnel=reader.take("reverse_tunnel", _boolean, default=True),
        retry_s=reader.take("retry_s", _positive, 1.0),
        deadline_s=reader.take("deadline_s", _positive, 10.0),
        clock_offset_s=reader.take("clock_offset_s", _real, 0.0),
    )
    reader.end()
    return config


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise MobileIpConfigError(f"{path.name}: {error.strerror}") from None
    except ValueError as error:
        raise MobileIpConfigError(f"{path.name}: no JSON: {error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a name is needed")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _address(value: object) -> str:
    try:
        return socket.inet_ntoa(socket.inet_pton(socket.AF_INET, _text(value)))
    except (OSError, ValueError):
        raise ValueError(f"an IPv4 address is needed, not {value!r}") from None


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")  # noqa: TRY004 - see `take`
    return value


def _reverse_tunnel(value: object) -> bool | Literal["mandatory"]:
    return "mandatory" if value == "mandatory" else _boolean(value)


def _detection(value: object) -> str:
    if value not in {"event", "advertisement"}:
        raise ValueError("event or advertisement is needed")
    return str(value)


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a number is needed")  # noqa: TRY004 - see `take`
    return float(value)


def _positive(value: object) -> float:
    number = _real(value)
    if number <= 0:
        raise ValueError("a number above 0 is needed")
    return number


def _interval(value: object) -> float:
    """0 says: only when solicited."""
    number = _real(value)
    if number and number < _SHORTEST_INTERVAL_S:
        raise ValueError(f"0 or at least {_SHORTEST_INTERVAL_S:g} s is needed")
    return number


def _lifetime(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= INFINITE_LIFETIME:
        raise ValueError("a number of seconds from 1 to 65534 is needed, or 65535 for no end")
    return value


def _spi(value: object) -> int:
    # RFC 5944 section 3.5.1: 0 to 255 are reserved.
    if isinstance(value, bool) or not isinstance(value, int) or not 255 < value < 1 << 32:
        raise ValueError("an index from 256 to 4294967295 is needed")
    return value


def _key(value: object) -> bytes:
    key = bytes.fromhex(_text(value))
    if len(key) < 16:
        raise ValueError("at least 16 octets are needed")
    return key


def _associations(values: object) -> dict[str, Association]:
    if not isinstance(values, list):
        raise ValueError("a list is needed")  # noqa: TRY004 - see `take`
    associations = {}
    for number, value in enumerate(values):
        reader = _Reader(value, f"entry {number}")
        associations[reader.take("address", _address)] = Association(reader.take("spi", _spi),
                                                                     reader.take("key_hex", _key))
        reader.end()
    return associations
