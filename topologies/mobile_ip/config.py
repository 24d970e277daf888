"""Configurations of the two programs, from JSON. An error is one line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from protocols.fields import (
    Fields,
    none_or,
    number_between,
    parse_address,
    parse_boolean,
    parse_text,
    read_json,
)
from topologies.mobile_ip.packets import INFINITE_LIFETIME, Association

# RFC 5944 section 2.3: at most one advertisement a second.
_SHORTEST_INTERVAL_S = 1.0


@dataclass(frozen=True)
class AgentConfig:
    """The configuration of an agent (see docs/mobile-ip.md). Times are in seconds."""

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
    """The configuration of a mobile node (see docs/mobile-ip.md). Times are in seconds."""

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


def load_agent(path: Path) -> AgentConfig:
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


def load_node(path: Path) -> NodeConfig:
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
    """Check an advertisement interval. The result is 0 means to advertise only when solicited."""
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
