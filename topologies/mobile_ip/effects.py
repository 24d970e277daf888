"""Define the actions that the logic of Mobile IP agents and mobile nodes requests.

An action (effect) is data, such as `SendMessage` (send a registration message) or `Bind` (tunnel
packets to a care-of address). `home_agent`, `foreign_agent` and `mobile_node` return effects, and
the programs `agent` and `node` perform them on sockets and kernel. So the logic needs no kernel,
and can be tested alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Endpoint:
    """The sender or receiver of a registration message: its addresses and port.

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
    """Action: send a registration message over UDP."""

    payload: bytes
    source: str
    to: Endpoint


@dataclass(frozen=True)
class Bind:
    """Action of a home agent: tunnel packets for `home_address` to `care_of`.

    An earlier tunnel of the node is moved.
    """

    home_address: str
    care_of: str


@dataclass(frozen=True)
class Unbind:
    """Action of a home agent: deliver packets for a node on its home link again.

    `link` is the node's link-layer address, if the node itself deregistered at home.
    """

    home_address: str
    care_of: str
    link: bytes | None = None


@dataclass(frozen=True)
class Admit:
    """Action of a foreign agent: serve a visiting node.

    `link` is the link-layer address of the node. With `reverse_tunnel`, its packets also go back
    through the tunnel.
    """

    home_address: str
    home_agent: str
    link: bytes
    reverse_tunnel: bool


@dataclass(frozen=True)
class Dismiss:
    """Action of a foreign agent: stop serving a visiting node."""

    home_address: str


@dataclass(frozen=True)
class Solicit:
    """Action of a mobile node: send a solicitation for agents on the link."""


@dataclass(frozen=True)
class UseAgent:
    """Action of a mobile node: route all packets through this agent.

    `address` and `link` are the agent's IP and link-layer addresses.
    """

    address: str
    link: bytes
    at_home: bool


@dataclass(frozen=True)
class DaemonEvent:
    """Action: print an event as a line of JSON."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = SendMessage | Bind | Unbind | Admit | Dismiss | Solicit | UseAgent | DaemonEvent
