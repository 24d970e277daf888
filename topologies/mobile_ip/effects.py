"""What the agents and the mobile node want done: values, so that their logic needs no kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Endpoint:
    """The other side; `link` is its link-layer address on the radio side, None elsewhere."""

    address: str
    port: int
    link: bytes | None = None


@dataclass(frozen=True)
class Datagram:
    """A registration message as it came in."""

    payload: bytes
    source: Endpoint
    destination: str
    ttl: int = 64


@dataclass(frozen=True)
class SendMessage:
    """Send a registration message over UDP."""

    payload: bytes
    source: str
    to: Endpoint


@dataclass(frozen=True)
class Bind:
    """Home agent: tunnel what is for `home_address` to `care_of`; also when it was elsewhere."""

    home_address: str
    care_of: str


@dataclass(frozen=True)
class Unbind:
    """Home agent: deliver at home again; `link` is where, if the node said so itself."""

    home_address: str
    care_of: str
    link: bytes | None = None


@dataclass(frozen=True)
class Admit:
    """Foreign agent: serve a visitor."""

    home_address: str
    home_agent: str
    link: bytes
    reverse_tunnel: bool


@dataclass(frozen=True)
class Dismiss:
    """Foreign agent: serve a visitor no more."""

    home_address: str


@dataclass(frozen=True)
class Solicit:
    """Mobile node: ask for agents on the link."""


@dataclass(frozen=True)
class UseAgent:
    """Mobile node: everything goes through this agent."""

    address: str
    link: bytes
    at_home: bool


@dataclass(frozen=True)
class DaemonEvent:
    """An event for who started the daemon."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = SendMessage | Bind | Unbind | Admit | Dismiss | Solicit | UseAgent | DaemonEvent
