"""Effects that the agents' and the mobile node's logic returns, so that it needs no kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Endpoint:
    """The other side of a message.

    `link` is its link-layer address on the radio side, None elsewhere.
    """

    address: str
    port: int
    link: bytes | None = None


@dataclass(frozen=True)
class Datagram:
    """A received registration message."""

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
    """Home agent: tunnel packets for `home_address` to `care_of`, and move an earlier tunnel."""

    home_address: str
    care_of: str


@dataclass(frozen=True)
class Unbind:
    """Home agent: deliver at home again.

    `link` is the node's link-layer address, if the node itself deregistered at home.
    """

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
    """Foreign agent: stop serving a visitor."""

    home_address: str


@dataclass(frozen=True)
class Solicit:
    """Mobile node: ask for agents on the link."""


@dataclass(frozen=True)
class UseAgent:
    """Mobile node: route everything through this agent."""

    address: str
    link: bytes
    at_home: bool


@dataclass(frozen=True)
class DaemonEvent:
    """An event to print."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = SendMessage | Bind | Unbind | Admit | Dismiss | Solicit | UseAgent | DaemonEvent
