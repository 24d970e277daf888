"""Define networks and scenarios as data: nodes, links, and which node talks to which.

A `Network` has nodes and links. A `Scenario` says in which network which mobile node talks to which
peer. The same classes are read from YAML outside of the guest (`loader`), and from the job's JSON
inside the guest (`from_json`). The guest is a virtual machine, where start-up time counts. So only
the standard library is used.

A *duty* says what a node is for, such as access point. A node's *agent* is the home agent or
gateway that serves it. A mobile node is at *home* at the access point of its own network, and
*visits* another one. A *wire* is the effect of a link on packets: rate, delay and loss. Media
(802.11 timing) are in `medium_model`, and devices (processor models) in `device`.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import itertools
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topologies.device import Device, Strict
from topologies.ipv6 import ipv6_address, slaac_address
from topologies.medium_model import DCF, QUEUE, Medium

# --- Address of a mobile node in a visited subnet without an agent for it ---

#: Bit that is set in a visitor's address: 10.1.0.12 becomes 10.2.0.140 in 10.2.0.0/24.
_VISITORS = 128
#: Longest name of an interface that has room for a point and the number of a VLAN.
LONGEST_WITH_VLAN = 10


@dataclass(frozen=True)
class VisitedSubnet:
    """A mobile node's address in a visited subnet, with its prefix and gateway.

    `agent` has the addresses of the node's home agent, at which its tunnel ends.
    """

    address: str
    gateway: str
    agent: tuple[str, ...]

    @property
    def ip(self) -> str:
        """Return the IP address without its prefix length."""
        return self.address.partition("/")[0]


def visited_subnet(home_address: str, gateway: str, agent: Sequence[str]) -> VisitedSubnet:
    """Return the address and gateway that a mobile node gets in a visited subnet.

    Args:
        home_address: The node's home address.
        gateway: The gateway's address with its prefix.
        agent: Addresses of the home agent.
    """
    interface = ipaddress.IPv4Interface(gateway)
    host = int(ipaddress.IPv4Address(home_address)) & int(interface.hostmask)
    address = interface.network.network_address + (host | _VISITORS)
    return VisitedSubnet(f"{address}/{interface.network.prefixlen}", str(interface.ip),
                         tuple(agent))


__all__ = ["ACCESS_POINT", "DCF", "DHCP_SERVER", "GATEWAY", "HOME_AGENT", "IPV4", "IPV6",
           "OCSP_RESPONDER", "QUEUE", "RADIUS_SERVER", "ROUTER", "STATION", "Device", "Interface",
           "Link", "Medium", "Mobility", "Nat", "Network", "Node", "Roaming", "Scenario", "Wire",
           "from_json", "node_of", "with_duties"]

# --- Networks and scenarios ---

#: Duties that the builder knows, because they need radios. A network may name any others.
STATION, ACCESS_POINT = "station", "access_point"
#: Duties that scenarios with mobile nodes know in addition. A gateway has no Mobile IP.
HOME_AGENT, GATEWAY, ROUTER = "home_agent", "gateway", "router"
RADIUS_SERVER, DHCP_SERVER = "radius_server", "dhcp_server"
OCSP_RESPONDER = "ocsp_responder"
#: Versions of IP that measured traffic uses.
IPV4, IPV6 = 4, 6


@dataclass(frozen=True)
class Interface(Strict):
    """An interface of a node. `address` is CIDR, `radio` the MAC address of an emulated radio.

    With `dhcp`, a DHCP server assigns the address, which is reserved for this interface.
    """

    address: str | None = None
    radio: str | None = None
    bridge: str | None = None
    dhcp: bool = False

    @property
    def ip(self) -> str:
        """Return the IP address without its prefix length, "" if there is none."""
        return (self.address or "").partition("/")[0]


@dataclass(frozen=True)
class Roaming(Strict):
    """Background scans of a station that looks for a better access point (`bgscan`).

    It scans every `short_s` while its access point's signal is below `threshold_dbm`, and every
    `long_s` otherwise. After each scan it moves if another access point is clearly better.
    """

    bgscan: str
    threshold_dbm: int
    short_s: int
    long_s: int

    @property
    def bgscan_option(self) -> str:
        """Return the value of wpa_supplicant's option `bgscan`."""
        return f"{self.bgscan}:{self.short_s}:{self.threshold_dbm}:{self.long_s}"


@dataclass(frozen=True)
class Nat(Strict):
    """Translation of source addresses and ports by a router (NAPT, RFC 3022).

    Packets that leave by the interface `outside` get its address and a random port. The router
    deletes a mapping of UDP after `udp_timeout_s` without packets.
    """

    outside: str
    udp_timeout_s: int = 120


@dataclass(frozen=True)
class Node(Strict):
    """A node of a network, with its duties (such as access_point), which the network names.

    `agent` names the home agent or gateway that serves it. `radius_server` names the server of an
    access point; None is its home agent. `second_radius_server` is asked if that one does not
    answer, and `is_down` says of a server that it does not run. `routes` maps further prefixes to
    next hops; `serves` is the prefix behind a home agent. `position` is x and y, or x, y and z, in
    metres. `device` is the processor that it computes on; None is the machine as it is. With
    `roaming`, a station changes its access point by itself. With `nat`, a gateway translates the
    addresses of packets from its subnets.
    """

    duties: list[str]
    interfaces: dict[str, Interface]
    gateway: str | None = None
    routes: dict[str, str] = field(default_factory=dict)
    agent: str | None = None
    radius_server: str | None = None
    second_radius_server: str | None = None
    is_down: bool = False
    forwarding: bool = False
    serves: str | None = None
    ssid: str | None = None
    channel: int | None = None
    position: list[float] | None = None
    device: Device | None = None
    roaming: Roaming | None = None
    nat: Nat | None = None

    def has_duty(self, duty: str) -> bool:
        """Return whether the node has a duty, such as access_point."""
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
        """Return a home agent's address on the interface to its gateway, towards other subnets."""
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

    @property
    def radio_bridge(self) -> str:
        """Return the name of the bridge that an access point's radio is in."""
        return self.interfaces[self.radio_interface].bridge or ""

    @property
    def uses_dhcp(self) -> bool:
        """Return whether a DHCP server assigns the address of the node's radio."""
        return any(interface.radio and interface.dhcp for interface in self.interfaces.values())

    @property
    def radio_mac(self) -> str:
        """Return the MAC address of the node's radio."""
        return self.interfaces[self.radio_interface].radio or ""


@dataclass(frozen=True)
class Wire(Strict):
    """The effect of a wire on packets in each direction: rate, delay, loss and queue.

    Links refer to it by name. `rate_bps` is None for a wire as fast as the processor.
    `overhead_bytes` is the size of a frame beyond the Ethernet frame that the kernel counts.
    `queue_packets` is the length of its queue. `jitter_ms` is the most by which a packet's delay
    differs from `delay_ms`. `loss_burst_packets` is the mean number of packets that are lost in a
    row. `rate_back_bps` is the rate from the second end to the first, None if it is `rate_bps`.
    """

    name: str
    title: str
    source: str
    rate_bps: float | None = None
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    overhead_bytes: int = 0
    queue_packets: int = 100
    jitter_ms: float = 0.0
    loss_burst_packets: float = 1.0
    rate_back_bps: float | None = None

    @property
    def effect(self) -> dict[str, Any]:
        """Return the fields that a link gets from this wire."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)
                 if field.name not in ("name", "title", "source")}
        return {"wire": self.name, **named}


@dataclass(frozen=True)
class Link(Strict):
    """A wire between two `node/interface` ends. Its values apply in each direction.

    `rate_bps` is the rate from the first end to the second if `rate_back_bps` is another one.
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
    jitter_ms: float = 0.0
    loss_burst_packets: float = 1.0
    rate_back_bps: float | None = None

    def rate_from(self, end: str) -> float | None:
        """Return the rate of packets from an end (bit/s), None for a wire without a rate."""
        return self.rate_back_bps or self.rate_bps if end == self.ends[-1] else self.rate_bps

    @property
    def slowest_rate_bps(self) -> float | None:
        """Return the rate of the slower direction (bit/s), None for a wire without a rate."""
        rates = [rate for rate in map(self.rate_from, self.ends) if rate is not None]
        return min(rates) if rates else None

    @property
    def limits(self) -> str:
        """Describe what the link does to packets: rate, delay, loss and its bursts.

        The result is "" for a wire without limits, which is as fast as the processor allows.
        """
        loss = "% loss" if self.loss_burst_packets <= 1 else \
            f"% loss in bursts of {self.loss_burst_packets:g} packets"
        figures = ((self.rate_bps, 1e-6, "Mbit/s"), (self.rate_back_bps, 1e-6, "Mbit/s back"),
                   (self.delay_ms, 1, "ms"),
                   (self.jitter_ms, 1, "ms of jitter"), (self.loss_percent, 1, loss))
        effects = ", ".join(f"{value * scale:g} {unit}" for value, scale, unit in figures if value)
        return f"{self.wire} ({effects})" if self.wire and effects else effects or self.wire


@dataclass(frozen=True)
class Network(Strict):
    """The nodes of a network and the wires between them. Radios connect by their channel.

    `ip` is the version of IP of the measured traffic. With 6, nodes have IPv6 addresses in
    addition, and stations get theirs by SLAAC.
    """

    name: str
    nodes: dict[str, Node]
    links: list[Link]
    ip: int = IPV4

    @property
    def special_links(self) -> tuple[Link, ...]:
        """Return the wires with a rate for each direction, or with losses in bursts."""
        return tuple(link for link in self.links
                     if link.rate_back_bps is not None or link.loss_burst_packets > 1)

    def address_of(self, name: str) -> str:
        """Return the address of a node for measured traffic, of the network's version of IP."""
        node = self.nodes[name]
        if self.ip == IPV4:
            return node.address
        if node.has_duty(STATION):
            gateway, port = self._gateway_port(node)
            return slaac_address(node.radio_mac,
                                 self.nodes[gateway].interfaces[port].address or "")
        own = next(i.address for i in node.interfaces.values() if i.address)
        return ipv6_address(own)

    def outer_address_of(self, name: str) -> str:
        """Return a gateway's address towards other subnets, of the network's version of IP."""
        node = self.nodes[name]
        if self.ip == IPV4:
            return node.outer_address
        own = node.interfaces[node.interface_of(node.outer_address)].address or ""
        return ipv6_address(own)

    def advertised_ports(self, name: str) -> list[str]:
        """Return the interfaces on which a node sends router advertisements to stations."""
        stations = [self.nodes[station] for station in self.of_duty(STATION)]
        ends = [self._gateway_port(station) for station in stations] if self.ip == IPV6 else []
        return list(dict.fromkeys(port for gateway, port in ends if gateway == name))

    def _gateway_port(self, station: Node) -> tuple[str, str]:
        """Return a station's gateway and the interface that has the gateway's address."""
        return next((name, port) for name, node in self.nodes.items()
                    for port, interface in node.interfaces.items()
                    if interface.ip == station.gateway)

    def of_duty(self, duty: str) -> list[str]:
        """Return the names of the nodes with a duty (such as access_point), in file order."""
        return [name for name, node in self.nodes.items() if node.has_duty(duty)]

    @property
    def subnet_gateways(self) -> list[str]:
        """Return the names of home agents and gateways, at which tunnels of stations end."""
        return [name for name, node in self.nodes.items()
                if node.has_duty(HOME_AGENT) or node.has_duty(GATEWAY)]

    @property
    def tunnel_gateways(self) -> list[str]:
        """Return the subnet gateways between which tunnels can exist.

        A gateway that translates addresses is none: it belongs to another organisation.
        """
        return [name for name in self.subnet_gateways if self.nodes[name].nat is None]

    def radius_server_of(self, access_point: str) -> str:
        """Return the name of the RADIUS server that answers an access point, or "" without one."""
        first, *others = self.radius_servers_of(access_point) or [""]
        return others[0] if others and self.nodes[first].is_down else first

    def radius_servers_of(self, access_point: str) -> list[str]:
        """Return an access point's RADIUS servers in the order in which it asks them."""
        second = self.nodes[access_point].second_radius_server
        return [name for name in (self._first_radius_server(access_point), second) if name]

    def fails_over(self, access_point: str) -> bool:
        """Return whether an access point has to go over to its second RADIUS server."""
        first, *others = self.radius_servers_of(access_point) or [""]
        return bool(others) and self.nodes[first].is_down

    def _first_radius_server(self, access_point: str) -> str:
        node = self.nodes[access_point]
        if node.radius_server is not None:
            return node.radius_server
        agent = self.nodes.get(node.agent or "")
        return "" if agent is not None and not agent.has_duty(HOME_AGENT) else node.agent or ""

    @property
    def access_point_channels(self) -> list[int]:
        """Return the channel of every access point, in file order."""
        return [self.nodes[name].channel or 0 for name in self.of_duty(ACCESS_POINT)]

    @property
    def has_radios(self) -> bool:
        """Return whether any node has a radio."""
        return bool(self.radio_nodes)

    @property
    def radio_nodes(self) -> list[str]:
        """Return the names of the nodes that have a radio."""
        return [name for name, node in self.nodes.items()
                if any(interface.radio for interface in node.interfaces.values())]

    @property
    def devices(self) -> dict[str, Device]:
        """Return the devices (processor models) of the nodes that have one, by node."""
        return {name: node.device for name, node in self.nodes.items() if node.device}

    @property
    def protectable(self) -> list[Link]:
        """Return the wires that MACsec can protect.

        These lead from access points to access points, home agents or gateways.
        """
        def ends(link: Link) -> list[Node]:
            return [self.nodes[node_of(end)] for end in link.ends]
        return [link for link in self.links if any(n.has_duty(ACCESS_POINT) for n in ends(link))
                and all(n.has_duty(ACCESS_POINT) or n.has_duty(HOME_AGENT) or n.has_duty(GATEWAY)
                        for n in ends(link))]

    def link_of(self, node: str) -> tuple[str, Link]:
        """Return a node's first link, and the name of its interface there.

        Raises:
            LookupError: The node has no link.
        """
        for link in self.links:
            for end in link.ends:
                if end.startswith(f"{node}/"):
                    return end.partition("/")[2], link
        raise LookupError(f"{node} has no link")

    def wire_beyond(self, access_point: str) -> tuple[str, str]:
        """Return the node and interface at the other end of an access point's wire.

        If another access point is at the other end, the function continues along its wire.

        Raises:
            LookupError: The access point has no link.
        """
        _, link = self.link_of(access_point)
        node, _, port = next(end for end in link.ends
                             if node_of(end) != access_point).partition("/")
        return self.wire_beyond(node) if self.nodes[node].has_duty(ACCESS_POINT) else (node, port)

    def merge_with(self, other: Network) -> Network | None:
        """Return two networks joined to one that a single testbed (emulated network) can serve.

        The result is None if they contradict each other.
        """
        links = {tuple(link.ends): link for link in self.links}
        same = (self.name, self.ip) == (other.name, other.ip) and all(
            self.nodes.get(name, node) == node for name, node in other.nodes.items()) and all(
            links.get(tuple(link.ends), link) == link for link in other.links)
        added = {tuple(link.ends): link for link in other.links}
        return dataclasses.replace(self, nodes={**self.nodes, **other.nodes},
                                   links=list({**links, **added}.values())) if same else None


@dataclass(frozen=True)
class Mobility(Strict):
    """A mobile node's drive in a straight line: its end position (m), start and stop time."""

    to: list[float]
    start_s: int
    stop_s: int

    def position_at(self, start: Sequence[float], at_s: float) -> list[float]:
        """Return a node's coordinates (m) at a time (s) of its drive from `start`.

        The node is at `start` before `start_s`, and at `to` after `stop_s`. Its speed is constant.
        """
        share = min(max((at_s - self.start_s) / (self.stop_s - self.start_s), 0.0), 1.0)
        return [here + share * (there - here)
                for here, there in itertools.zip_longest(start, self.to, fillvalue=0.0)]


@dataclass(frozen=True)
class Scenario(Strict):
    """A scenario: which mobile node talks to which peer, and from where.

    Names refer to the network. `network` contains only the nodes that take part. `roams_to` is the
    access point that the mobile node moves to before it is measured; without it, the node stays at
    home. `is_placed` means that the scenario is about positions. With `moves_on`, the mobile node
    goes from access point to access point as its policy says. Without it, the node disconnects
    first and arrives without prior state if the new access point has another agent.
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
        """Return the mobile node's home agent, or its gateway without Mobile IP."""
        return self.network.nodes[self.mobile_node].agent or ""

    @property
    def has_mobile_ip(self) -> bool:
        """Return whether a home agent serves the mobile node."""
        return self.network.nodes[self.agent].has_duty(HOME_AGENT)

    @property
    def uses_dhcp(self) -> bool:
        """Return whether the mobile node gets its address by DHCP."""
        return self.network.nodes[self.mobile_node].uses_dhcp

    @property
    def uses_ipv6(self) -> bool:
        """Return whether the measured traffic is IPv6."""
        return self.network.ip == IPV6

    @property
    def separate_radius_servers(self) -> dict[str, str]:
        """Return the RADIUS servers of the access points in use, by access point.

        Servers that are the home agent or the gateway of their access point are left out.
        """
        nodes = self.network.nodes
        servers = {name: self.network.radius_server_of(name)
                   for name in dict.fromkeys((self.home, self.access_point))}
        return {name: server for name, server in servers.items()
                if server not in ("", nodes[name].agent)}

    @property
    def realm_servers(self) -> dict[str, str]:
        """Return the servers to which RADIUS servers forward requests, by access point."""
        nodes = self.network.nodes
        return {name: further for name, server in self.separate_radius_servers.items()
                if (further := nodes[server].agent) and nodes[further].has_duty(RADIUS_SERVER)}

    @property
    def deciding_servers(self) -> dict[str, str]:
        """Return the RADIUS servers that authenticate the mobile node, by access point.

        The access points are those in use. A server that forwards requests does not decide.
        """
        return {name: self.realm_servers.get(name) or self.network.radius_server_of(name)
                for name in dict.fromkeys((self.home, self.access_point))}

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
        """Return the agent of the visited subnet, None if the mobile node is in its own subnet."""
        agent = self.network.nodes[self.roams_to].agent if self.roams_to else None
        return None if agent == self.agent else agent

    @property
    def visit(self) -> VisitedSubnet | None:
        """Return the mobile node's address and gateway in the visited subnet, None at home."""
        if self.foreign_agent is None:
            return None
        nodes = self.network.nodes
        agent, home_agent = nodes[self.foreign_agent], nodes[self.agent]
        visited = agent.interfaces[agent.interface_of(agent.address)].address or ""
        return visited_subnet(nodes[self.mobile_node].address, visited,
                              [i.ip for i in home_agent.interfaces.values() if i.address])

    @property
    def visited_nat(self) -> Nat | None:
        """Return the address translation of the visited subnet's gateway, None without one."""
        return self.network.nodes[self.foreign_agent].nat if self.foreign_agent else None

    @property
    def translated_address(self) -> str:
        """Return the address that a visited gateway with NAT gives to packets, "" without one."""
        if self.visited_nat is None or self.foreign_agent is None:
            return ""
        return self.network.nodes[self.foreign_agent].interfaces[self.visited_nat.outside].ip

    @property
    def companions(self) -> list[str]:
        """Return the names of the other stations, which stay at home."""
        return [name for name in self.network.of_duty(STATION) if name != self.mobile_node]

    @property
    def is_drive(self) -> bool:
        """Return whether the signal decides when the mobile node changes its access point."""
        return self.network.nodes[self.mobile_node].roaming is not None

    def home_of(self, station: str) -> str:
        """Return the access point that serves a station's home subnet."""
        nodes = self.network.nodes
        return next(name for name in self.network.of_duty(ACCESS_POINT)
                    if nodes[name].agent == nodes[station].agent)


def vlan_port(port: str, vlan: int) -> str:
    """Return the name of a port's interface for a VLAN, as Linux and hostapd name it."""
    return f"{port[:LONGEST_WITH_VLAN]}.{vlan}"


def node_of(end: str) -> str:
    """Return the node in the name of a link's end, `NODE/INTERFACE`."""
    return end.partition("/")[0]


def with_duties(node: Any) -> Any:
    """Return a node's YAML data with `duties`, converted from the former format with `kind`."""
    if not isinstance(node, dict) or "kind" not in node or "duties" in node:
        return node
    return {"duties": [node["kind"]], **{key: node[key] for key in node if key != "kind"}}


def from_json(cls: Any, value: Any) -> Any:
    """Build a network, a scenario or a part of one from plain JSON values, without validation."""
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
