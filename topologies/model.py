"""Networks, scenarios, wires and media as plain data. For a node's device see `device`.

Only the standard library is used. The same classes are read from YAML outside the machine (see
`loader`) and from the job's JSON inside the machine, where start-up time counts.
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
from topologies.visited import VisitedSubnet, visited_subnet

__all__ = ["ACCESS_POINT", "DCF", "HOME_AGENT", "QUEUE", "ROUTER", "STATION", "Device",
           "Interface", "Link", "Medium", "Mobility", "Network", "Node", "Scenario", "Wire",
           "from_json", "node_of", "with_duties"]

#: Duties that the builder knows, because they need radios. A network may name any others.
STATION, ACCESS_POINT = "station", "access_point"
#: Duties that scenarios with mobile nodes know in addition.
HOME_AGENT, ROUTER = "home_agent", "router"


@dataclass(frozen=True)
class Interface(Strict):
    """An interface of a node. `address` is CIDR, `radio` the MAC address of a hwsim radio."""

    address: str | None = None
    radio: str | None = None
    bridge: str | None = None

    @property
    def ip(self) -> str:
        """Return the address without its prefix length, "" if there is none."""
        return (self.address or "").partition("/")[0]


@dataclass(frozen=True)
class Node(Strict):
    """A node and its duties, which the network names freely.

    `agent` names the agent that serves it. `routes` maps further prefixes to next hops; `serves`
    is the prefix behind a home agent. `position` is x and y, or x, y and z, in metres. `device` is
    the processor that it computes on; None is the machine as it is.
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

    def has_duty(self, duty: str) -> bool:
        """Return whether the node has a duty."""
        return duty in self.duties

    @property
    def address(self) -> str:
        """Return the node's first IPv4 address, without its prefix length."""
        for interface in self.interfaces.values():
            if interface.address:
                return interface.ip
        raise ValueError("node has no address")

    def interface_of(self, address: str) -> str:
        """Return the name of the interface with an address."""
        return next(name for name, interface in self.interfaces.items()
                    if interface.address and interface.address.startswith(f"{address}/"))

    @property
    def outer_address(self) -> str:
        """Return a home agent's address towards other subnets: on the interface to its gateway."""
        gateway = ipaddress.IPv4Address(self.gateway or self.address)
        for interface in self.interfaces.values():
            if interface.address:
                there = ipaddress.IPv4Interface(interface.address)
                if gateway in there.network:
                    return str(there.ip)
        raise ValueError(f"node has no interface to {gateway}")

    @property
    def radio_interface(self) -> str:
        """Return the name of the node's wireless interface."""
        for name, interface in self.interfaces.items():
            if interface.radio:
                return name
        raise ValueError("node has no radio")


@dataclass(frozen=True)
class Wire(Strict):
    """The effect of a wire on packets, in each direction. Links refer to it by name.

    `rate_bps` is None for a wire as fast as the processor. `overhead_bytes` is the size of a frame
    beyond the Ethernet frame that the kernel counts. `queue_packets` is the length of its queue.
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
        """Return the fields of a link that uses this wire."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)
                 if field.name not in ("name", "title", "source")}
        return {"wire": self.name, **named}


@dataclass(frozen=True)
class Link(Strict):
    """A wire between two `node/interface` ends. Its figures apply in each direction.

    `wire` names the preset that the fields of `Wire` come from, "" if there was none.
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
        """Return its effect on packets in words.

        The result is "" for a wire as fast as the processor.
        """
        figures = ((self.rate_bps, 1e-6, "Mbit/s"), (self.delay_ms, 1, "ms"),
                   (self.loss_percent, 1, "% loss"))
        said = ", ".join(f"{value * scale:g} {unit}" for value, scale, unit in figures if value)
        return f"{self.wire} ({said})" if self.wire and said else said or self.wire


@dataclass(frozen=True)
class Network(Strict):
    """The nodes and the wires between them. Radios meet by channel, not by link."""

    name: str
    nodes: dict[str, Node]
    links: list[Link]

    def of_duty(self, duty: str) -> list[str]:
        """Return the names of the nodes with a duty, in file order."""
        return [name for name, node in self.nodes.items() if node.has_duty(duty)]

    @property
    def has_radios(self) -> bool:
        """Return whether any node has a radio."""
        return any(i.radio for node in self.nodes.values() for i in node.interfaces.values())

    @property
    def devices(self) -> dict[str, Device]:
        """Return the devices of the nodes that have one, by the node's name."""
        return {name: node.device for name, node in self.nodes.items() if node.device}

    @property
    def protectable(self) -> list[Link]:
        """Return the wires that MACsec can protect.

        These lead from access points to access points or agents.
        """
        def ends(link: Link) -> list[Node]:
            return [self.nodes[node_of(end)] for end in link.ends]
        return [link for link in self.links if any(n.has_duty(ACCESS_POINT) for n in ends(link))
                and all(n.has_duty(ACCESS_POINT) or n.has_duty(HOME_AGENT) for n in ends(link))]

    def link_of(self, node: str) -> tuple[str, Link]:
        """Return a node's first link and its interface there.

        Raises:
            LookupError: The node has no link.
        """
        for link in self.links:
            for end in link.ends:
                if end.startswith(f"{node}/"):
                    return end.partition("/")[2], link
        raise LookupError(f"{node} has no link")

    def merge_with(self, other: Network) -> Network | None:
        """Return both as one network that one testbed can serve.

        The result is None if they contradict.
        """
        links = {tuple(link.ends): link for link in self.links}
        same = self.name == other.name and all(
            self.nodes.get(name, node) == node for name, node in other.nodes.items()) and all(
            links.get(tuple(link.ends), link) == link for link in other.links)
        added = {tuple(link.ends): link for link in other.links}
        return dataclasses.replace(self, nodes={**self.nodes, **other.nodes},
                                   links=list({**links, **added}.values())) if same else None


@dataclass(frozen=True)
class Mobility(Strict):
    """The mobile node's straight drive to another position (m), with start and stop time."""

    to: list[float]
    start_s: int
    stop_s: int


@dataclass(frozen=True)
class Scenario(Strict):
    """The nodes of a scenario and their roles. Names refer to the network.

    `network` contains only the nodes that take part. `roams_to` is the access point that the
    mobile node moves to before it is measured; without it, the node stays at home. `is_placed`
    means that the scenario is about positions. With `moves_on`, the mobile node goes from access
    point to access point as its policy says. Without it, the node disconnects first and arrives
    without prior state if the new access point has another agent.
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
        """Return the mobile node's home agent."""
        return self.network.nodes[self.mobile_node].agent or ""

    @property
    def home(self) -> str:
        """Return the access point of the mobile node's home subnet."""
        return self.home_of(self.mobile_node)

    @property
    def access_point(self) -> str:
        """Return the access point of the mobile node while it is measured."""
        return self.roams_to or self.home

    @property
    def foreign_agent(self) -> str | None:
        """Return the agent of the visited subnet.

        The result is None if the mobile node is in its own subnet.
        """
        agent = self.network.nodes[self.roams_to].agent if self.roams_to else None
        return None if agent == self.agent else agent

    @property
    def visit(self) -> VisitedSubnet | None:
        """Return the mobile node's address data in the visited subnet.

        The result is None in its own.
        """
        if self.foreign_agent is None:
            return None
        nodes = self.network.nodes
        agent, home_agent = nodes[self.foreign_agent], nodes[self.agent]
        there = agent.interfaces[agent.interface_of(agent.address)].address or ""
        return visited_subnet(nodes[self.mobile_node].address, there,
                              [i.ip for i in home_agent.interfaces.values() if i.address])

    @property
    def companions(self) -> list[str]:
        """Return the other stations, which stay at home."""
        return [name for name in self.network.of_duty(STATION) if name != self.mobile_node]

    def home_of(self, station: str) -> str:
        """Return the access point that serves a station's home subnet."""
        nodes = self.network.nodes
        return next(name for name in self.network.of_duty(ACCESS_POINT)
                    if nodes[name].agent == nodes[station].agent)


def node_of(end: str) -> str:
    """Return the node of a link's end, `NODE/INTERFACE`."""
    return end.partition("/")[0]


def with_duties(node: Any) -> Any:
    """Return a node's document with `duties`, from the former format with one `kind`."""
    if not isinstance(node, dict) or "kind" not in node or "duties" in node:
        return node
    return {"duties": [node["kind"]], **{key: node[key] for key in node if key != "kind"}}


def from_json(cls: Any, value: Any) -> Any:
    """Build a dataclass of this module from plain JSON values, without another validation."""
    if cls is Node:
        value = with_duties(value)
    origin = typing.get_origin(cls)
    if origin is types.UnionType:  # a union of a type and None
        return None if value is None else from_json(typing.get_args(cls)[0], value)
    if origin is dict:
        item = typing.get_args(cls)[1]
        return {key: from_json(item, entry) for key, entry in value.items()}
    if origin is list:
        return [from_json(typing.get_args(cls)[0], entry) for entry in value]
    if not dataclasses.is_dataclass(cls):
        return value
    build: Any = cls
    hints = _field_types(build)
    return build(**{key: from_json(hints[key], entry) for key, entry in value.items()
                    if key in hints})


@functools.cache  # a guest evaluates annotations for a tenth of a second, in each repetition
def _field_types(cls: Any) -> Mapping[str, Any]:
    """Return the type of each field of a dataclass."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
