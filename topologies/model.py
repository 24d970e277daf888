"""Networks, scenarios, wires and media are plain data; a node's device is, too (see `device`).

Standard library only: the same classes are read from YAML outside the machine (see `loader`) and
from the job's JSON inside it, where start-up time counts.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topologies.device import Device, Strict
from topologies.timing import DCF, QUEUE, Medium
from topologies.visited import VisitedSubnet, visited

__all__ = ["ACCESS_POINT", "DCF", "HOME_AGENT", "QUEUE", "ROUTER", "STATION", "Device",
           "Interface", "Link", "Medium", "Mobility", "Network", "Node", "Scenario", "Wire",
           "from_json", "node_of", "with_duties"]

#: Duties that the builder knows, because they own radios. All others are a network's own words.
STATION, ACCESS_POINT = "station", "access_point"
#: Duties that scenarios with mobile nodes know besides.
HOME_AGENT, ROUTER = "home_agent", "router"


@dataclass(frozen=True)
class Interface(Strict):
    """One interface of a node; `address` is CIDR, `radio` the MAC address of a hwsim radio."""

    address: str | None = None
    radio: str | None = None
    bridge: str | None = None

    @property
    def ip(self) -> str:
        """The address without its prefix length, "" where there is none."""
        return (self.address or "").partition("/")[0]


@dataclass(frozen=True)
class Node(Strict):
    """A node and its duties, in words of the network's own; `agent` names the agent that serves it.

    `routes` maps further prefixes to next hops; `serves` is the prefix behind a home agent.
    `position` is where it stands, x and y or x, y and z in metres. `device` is what it computes on;
    None is the machine as it is.
    """

    duties: list[str]
    interfaces: dict[str, Interface]
    gateway: str | None = None
    routes: dict[str, str] = field(default_factory=dict)
    agent: str | None = None
    forwarding: bool = False
    serves: str | None = None
    ssid: str | None = None
    channel: int | None = None
    position: list[float] | None = None
    device: Device | None = None

    def has(self, duty: str) -> bool:
        """Whether a duty is among the node's."""
        return duty in self.duties

    @property
    def address(self) -> str:
        """The node's first IPv4 address, without its prefix length."""
        for interface in self.interfaces.values():
            if interface.address:
                return interface.ip
        raise ValueError("node has no address")

    def interface_of(self, address: str) -> str:
        """Name of the interface that has an address."""
        return next(name for name, interface in self.interfaces.items()
                    if interface.address and interface.address.startswith(f"{address}/"))

    @property
    def outer_address(self) -> str:
        """A home agent's address towards other subnets: that of the interface to its gateway."""
        gateway = ipaddress.IPv4Address(self.gateway or self.address)
        for interface in self.interfaces.values():
            if interface.address:
                there = ipaddress.IPv4Interface(interface.address)
                if gateway in there.network:
                    return str(there.ip)
        raise ValueError(f"node has no interface to {gateway}")

    @property
    def radio_interface(self) -> str:
        """Name of the node's wireless interface."""
        for name, interface in self.interfaces.items():
            if interface.radio:
                return name
        raise ValueError("node has no radio")


@dataclass(frozen=True)
class Wire(Strict):
    """What a wire does to packets, each way; links take it over by its name.

    `rate_bps` is None for a wire as quick as the processor. `overhead_bytes` are what a frame takes
    besides the Ethernet frame that the kernel counts. Up to `queue_packets` wait for their turn.
    """

    name: str
    title: str
    source: str
    rate_bps: float | None = None
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    overhead_bytes: int = 0
    queue_packets: int = 100

    @property
    def effect(self) -> dict[str, Any]:
        """The fields of a link that is of this wire."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)
                 if field.name not in ("name", "title", "source")}
        return {"wire": self.name, **named}


@dataclass(frozen=True)
class Link(Strict):
    """A wire between two `node/interface` ends; what it does to packets holds each way.

    `wire` names the preset that the fields of `Wire` were taken from, "" where there was none.
    """

    ends: list[str]
    mtu_bytes: int = 1500
    wire: str = ""
    rate_bps: float | None = None
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    overhead_bytes: int = 0
    queue_packets: int = 100

    @property
    def limits(self) -> str:
        """What it does to packets, in words; "" for a wire as quick as the processor."""
        figures = ((self.rate_bps, 1e-6, "Mbit/s"), (self.delay_ms, 1, "ms"),
                   (self.loss_percent, 1, "% loss"))
        said = ", ".join(f"{value * scale:g} {unit}" for value, scale, unit in figures if value)
        return f"{self.wire} ({said})" if self.wire and said else said or self.wire


@dataclass(frozen=True)
class Network(Strict):
    """Nodes and the wires between them; radios meet by channel, not by link."""

    name: str
    nodes: dict[str, Node]
    links: list[Link]

    def of_duty(self, duty: str) -> list[str]:
        """Names of the nodes with a duty, in file order."""
        return [name for name, node in self.nodes.items() if node.has(duty)]

    @property
    def has_radios(self) -> bool:
        """Whether any node has a radio."""
        return any(i.radio for node in self.nodes.values() for i in node.interfaces.values())

    @property
    def devices(self) -> dict[str, Device]:
        """The devices of the nodes that have one, by the node's name."""
        return {name: node.device for name, node in self.nodes.items() if node.device}

    @property
    def protectable(self) -> list[Link]:
        """The wires that MACsec can protect: between access points, and from them to agents."""
        def ends(link: Link) -> list[Node]:
            return [self.nodes[node_of(end)] for end in link.ends]
        return [link for link in self.links if any(n.has(ACCESS_POINT) for n in ends(link))
                and all(n.has(ACCESS_POINT) or n.has(HOME_AGENT) for n in ends(link))]

    def link_of(self, node: str) -> tuple[str, Link]:
        """A node's first link, and the interface that it has there. Raises LookupError."""
        for link in self.links:
            for end in link.ends:
                if end.startswith(f"{node}/"):
                    return end.partition("/")[2], link
        raise LookupError(f"{node} has no link")

    def joined(self, other: Network) -> Network | None:
        """Both as one network, so that one testbed serves both; None where they contradict."""
        links = {tuple(link.ends): link for link in self.links}
        same = self.name == other.name and all(
            self.nodes.get(name, node) == node for name, node in other.nodes.items()) and all(
            links.get(tuple(link.ends), link) == link for link in other.links)
        added = {tuple(link.ends): link for link in other.links}
        return dataclasses.replace(self, nodes={**self.nodes, **other.nodes},
                                   links=list({**links, **added}.values())) if same else None


@dataclass(frozen=True)
class Mobility(Strict):
    """The mobile node's drive: from its position straight to another one (m), from when to when."""

    to: list[float]
    start_s: int
    stop_s: int


@dataclass(frozen=True)
class Scenario(Strict):
    """Who talks to whom from where; node names refer to the network.

    `network` holds the nodes that take part and no others. `roams_to` is the access point that the
    mobile node moves to before it is measured; without it, it stays at home. With `is_placed`,
    where nodes stand is what it is about. With `moves_on`, the mobile node goes from access point
    to access point as its policy says; else it leaves first, and comes from nothing, where
    its agent is another one there.
    """

    id: str
    title: str
    network: Network
    mobile_node: str
    peer: str
    roams_to: str | None = None
    mobility: Mobility | None = None
    is_placed: bool = False
    moves_on: bool = False

    @property
    def agent(self) -> str:
        """The mobile node's home agent."""
        return self.network.nodes[self.mobile_node].agent or ""

    @property
    def home(self) -> str:
        """The access point of the mobile node's home subnet."""
        return self.home_of(self.mobile_node)

    @property
    def access_point(self) -> str:
        """Where the mobile node is while it is measured."""
        return self.roams_to or self.home

    @property
    def foreign_agent(self) -> str | None:
        """The agent of the subnet that the mobile node visits; None where it stays in its own."""
        agent = self.network.nodes[self.roams_to].agent if self.roams_to else None
        return None if agent == self.agent else agent

    @property
    def visit(self) -> VisitedSubnet | None:
        """What a node that takes an address where it visits has there; None in its own subnet."""
        if self.foreign_agent is None:
            return None
        nodes = self.network.nodes
        agent, home_agent = nodes[self.foreign_agent], nodes[self.agent]
        there = agent.interfaces[agent.interface_of(agent.address)].address or ""
        return visited(nodes[self.mobile_node].address, there,
                       [i.ip for i in home_agent.interfaces.values() if i.address])

    @property
    def companions(self) -> list[str]:
        """The other stations; they stay at home."""
        return [name for name in self.network.of_duty(STATION) if name != self.mobile_node]

    def home_of(self, station: str) -> str:
        """The access point that serves a station's home subnet."""
        nodes = self.network.nodes
        return next(name for name in self.network.of_duty(ACCESS_POINT)
                    if nodes[name].agent == nodes[station].agent)


def node_of(end: str) -> str:
    """Return the node of a link's end, `NODE/INTERFACE`."""
    return end.partition("/")[0]


def with_duties(node: Any) -> Any:
    """A node's document with `duties`, for one that says `kind`: one duty, as files used to."""
    if not isinstance(node, dict) or "kind" not in node or "duties" in node:
        return node
    return {"duties": [node["kind"]], **{key: node[key] for key in node if key != "kind"}}


def from_json(cls: Any, value: Any) -> Any:
    """Build a dataclass of this module from plain JSON values, without validating it again."""
    if cls is Node:
        value = with_duties(value)
    origin = typing.get_origin(cls)
    if origin is types.UnionType:  # of something and None
        return None if value is None else from_json(typing.get_args(cls)[0], value)
    if origin is dict:
        item = typing.get_args(cls)[1]
        return {key: from_json(item, entry) for key, entry in value.items()}
    if origin is list:
        return [from_json(typing.get_args(cls)[0], entry) for entry in value]
    if not dataclasses.is_dataclass(cls):
        return value
    build: Any = cls
    hints = _fields(build)
    return build(**{key: from_json(hints[key], entry) for key, entry in value.items()
                    if key in hints})


@functools.cache  # a guest evaluates annotations for a tenth of a second, in each repetition
def _fields(cls: Any) -> Mapping[str, Any]:
    """What type each field of a dataclass has."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
