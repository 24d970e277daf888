"""Refuse links, wires, radio media and device models of a network that cannot work.

A wire is the rate, delay and loss of a link. A medium is the 802.11 timing, and a device is the
speed of a node's processor. `check_wire`, `check_medium` and `check_device` refuse impossible
values, and fields without effect. `check_links` and other functions refuse bad ends of links, loops
of bridges, mixed subnets and nodes that no link reaches. They take what was read from YAML files,
and raise `TopologyError` with one line for the user. `topologies.model` lists the terms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from topologies.device import KINDS, Device, Work
from topologies.errors import TopologyError
from topologies.model import (
    ACCESS_POINT,
    DHCP_SERVER,
    STATION,
    Link,
    Medium,
    Network,
    Node,
    Scenario,
    Wire,
    node_of,
)
from topologies.yaml_reader import YamlPlace, YamlSource

# --- Values of wires, media and devices ---

#: Identifiers of scenarios and devices, which are parts of file names.
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
# Operations of devices are words for people.
_OPERATION = re.compile(r"[a-z][a-z0-9-]*")
#: Bounds in bytes: every IPv4 host accepts packets of 576 bytes (RFC 791, 3.1). The kernel's wires
#: accept 65,535, of which MACsec needs 32.
_LEAST_MTU_BYTES, _MOST_MTU_BYTES = 576, 65_503
#: Bounds of a wire's rate in bit/s. Below, a packet of 1500 bytes takes 12 s or more, longer than
#: any daemon waits (and the kernel treats less than 8 bit/s as no limit). Above, the kernel's
#: arithmetic overflows.
_LEAST_RATE_BPS, _MOST_RATE_BPS = 1000, 10 ** 12
#: Largest delay in ms: a supplicant gives up an authentication, a dozen or more exchanges, after
#: 60 s.
_MOST_DELAY_MS = 10_000
_MOST_BURST_PACKETS = 1000
_MOST_OVERHEAD_BYTES, _MOST_QUEUE_PACKETS = 65_535, 10 ** 6
_FIGURES = {
    "mtu_bytes": (_LEAST_MTU_BYTES, _MOST_MTU_BYTES), "rate_bps": (_LEAST_RATE_BPS, _MOST_RATE_BPS),
    "delay_ms": (0, _MOST_DELAY_MS), "overhead_bytes": (0, _MOST_OVERHEAD_BYTES),
    "queue_packets": (1, _MOST_QUEUE_PACKETS), "jitter_ms": (0, _MOST_DELAY_MS),
    "loss_burst_packets": (1, _MOST_BURST_PACKETS),
    "rate_back_bps": (_LEAST_RATE_BPS, _MOST_RATE_BPS)}
#: Largest factor, seconds and bytes per second of a device's work.
_MOST_FACTOR, _MOST_WORK_S, _MOST_BYTES_PER_S = 1e6, 1e4, 1e12


def check_medium(medium: Medium, place: YamlSource | Path | str) -> None:
    """Refuse zero rates and negative times of a medium, and fields that have no effect alone."""
    source = YamlSource.to_source(place)
    for field, value in vars(medium).items():
        minimum = 1 if field.endswith("rate_bps") else 0
        if isinstance(value, int | float) and not minimum <= value < math.inf:
            raise TopologyError(f"{source.at(field)}: {value}; write {minimum} or more")
    idle = [field for field, needs in (
        ("aggregate_bytes", medium.aggregate > 1),
        ("retries", medium.air == "dcf" or medium.loss_percent > 0),
        ("beacon_interval_ms", medium.beacon_bytes > 0), *(
            (field, medium.air == "dcf") for field in (
                "cw_max", "basic_rate_bps", "eifs", "wait_difs", "cca_us")))
        if not needs and getattr(medium, field) != _field_default(Medium, field)]
    if idle:
        needed = {"retries": "loss_percent", "aggregate_bytes": "aggregate above 1",
                  "beacon_interval_ms": "beacon_bytes"}.get(idle[0], "air: dcf")
        raise TopologyError(f"{source.at(idle[0])}: has an effect with {needed} alone; leave it "
                            f"out, or add {needed}")
    if medium.difs_us < medium.sifs_us:
        raise TopologyError(f"{source.at('difs_us')}: {medium.difs_us:g} is less than sifs_us, so "
                            "that data would go before acknowledgements; write more")


def check_wire(wire: Wire | Link, place: YamlSource | Path | str, name: str = "") -> None:
    """Refuse impossible values of a wire, fields without effect, and a file without a source."""
    source = YamlSource.to_source(place)

    def at(field: str) -> YamlPlace:
        return source.at(field, name=f"{name}: {field}" if name else field)

    for field, (least, most) in _FIGURES.items():
        value = getattr(wire, field, None)
        if value is not None and not least <= value <= most:
            raise TopologyError(f"{at(field)}: {value:g}; write {least} to {most}")
    if not 0 <= wire.loss_percent < 100:
        raise TopologyError(f"{at('loss_percent')}: {wire.loss_percent:g}; write 0 to below 100")
    for field in ("overhead_bytes", "queue_packets", "rate_back_bps"):
        if wire.rate_bps is None and getattr(wire, field) != _field_default(Wire, field):
            raise TopologyError(f"{at(field)}: has an effect with rate_bps alone; leave it out, or "
                                "add rate_bps")
    if wire.jitter_ms > wire.delay_ms:
        raise TopologyError(f"{at('jitter_ms')}: {wire.jitter_ms:g} is more than the delay, which "
                            f"is {wire.delay_ms:g} ms; write no more than delay_ms")
    _check_bursts(wire, at)
    if isinstance(wire, Wire) and not wire.source.strip():
        raise TopologyError(f"{at('source')}: nothing; say where its figures are from")


def _check_bursts(wire: Wire | Link, at: Callable[[str], YamlPlace]) -> None:
    """Refuse bursts of losses without losses, and losses that such bursts cannot make."""
    if wire.loss_burst_packets <= 1:
        return
    if not wire.loss_percent:
        raise TopologyError(f"{at('loss_burst_packets')}: has an effect with loss_percent alone; "
                            "leave it out, or add loss_percent")
    # Between two bursts at least one packet arrives.
    most_percent = 100 * wire.loss_burst_packets / (1 + wire.loss_burst_packets)
    if wire.loss_percent > most_percent:
        raise TopologyError(f"{at('loss_percent')}: {wire.loss_percent:g} is more than bursts of "
                            f"{wire.loss_burst_packets:g} packets can lose; write at most "
                            f"{most_percent:.4g}, or more in loss_burst_packets")


def _field_default(cls: type, field: str) -> object:
    return getattr(cls, field, None)


def check_device(device: Device, place: YamlSource | Path | str) -> None:
    """Refuse speeds of a device without a source, without a value, or that are not positive."""
    source = YamlSource.to_source(place)
    if not ID.fullmatch(device.name):
        raise TopologyError(
            f"{source.at('name')}: {device.name!r}; write up to 40 letters, digits, - and _")
    if device.processors < 1:
        raise TopologyError(f"{source.at('processors')}: {device.processors}; write 1 or more")
    if not device.work:
        raise TopologyError(f"{source.at('work')}: nothing; state at least one kind of work")
    for operation, work in device.work.items():
        _check_work(operation, work, source)


def _check_work(operation: str, work: Work, source: YamlSource) -> None:
    where = source.at("work", operation)
    if not work.source.strip():
        raise TopologyError(f"{where}: source: nothing; say where the figure is from")
    stated = {unit: value for unit in ("seconds", "bytes_per_s", "factor")
              if (value := getattr(work, unit)) is not None}
    if len(stated) != 1:
        raise TopologyError(f"{where}: {' and '.join(stated) or 'no value'}; write one of seconds, "
                            "bytes_per_s and factor")
    most = {"seconds": _MOST_WORK_S, "bytes_per_s": _MOST_BYTES_PER_S, "factor": _MOST_FACTOR}
    for unit, value in stated.items():
        if not value > 0:
            raise TopologyError(f"{where}: {unit}: {value:g}; write a number above 0")
        if value > most[unit]:
            raise TopologyError(f"{where}: {unit}: {value:g}; write {most[unit]:g} or less")
    if "factor" in stated and operation not in KINDS:
        raise TopologyError(f"{where}: factor: not for an operation; write it for one of "
                            f"{', '.join(KINDS)}, or seconds")
    if not _OPERATION.fullmatch(operation):
        raise TopologyError(f"{where}: no name for work; write lower case letters, digits and -")


# --- The graph of links ---

#: The interfaces of one link layer, as `NODE/INTERFACE`.
_Segment = frozenset[str]


def check_links(network: Network, source: YamlSource) -> None:
    """Refuse links that do not have two ends, and ends that are no interface."""
    ends = [end for link in network.links for end in link.ends]
    for number, link in enumerate(network.links):
        at = source.at("links", number, name="link")
        if len(link.ends) != 2:
            raise TopologyError(f"{at} {link.ends}: needs two ends; write NODE/INTERFACE")
        check_wire(link, source.part_at("links", number), name=f"link {link.ends[0]}")
        for end in link.ends:
            _check_end(end, network, at, is_twice=ends.count(end) > 1)
        if node_of(link.ends[0]) == node_of(link.ends[1]):
            raise TopologyError(f"{at} {link.ends}: both ends are on one node; lead it to another")


def _check_end(end: str, network: Network, at: YamlPlace, *, is_twice: bool) -> None:
    name, _, port = end.partition("/")
    if name not in network.nodes or port not in network.nodes[name].interfaces:
        raise TopologyError(f"{at} end {end!r} names no interface; write NODE/INTERFACE")
    node = network.nodes[name]
    if node.interfaces[port].radio:
        raise TopologyError(f"{at} end {end!r} is a radio; write an interface without")
    if port in [interface.bridge for interface in node.interfaces.values()]:
        raise TopologyError(f"{at} end {end!r} is a bridge; write one of its ports")
    if is_twice:
        raise TopologyError(f"{at} end {end!r} is used twice; give it one link")


def check_loops(network: Network, source: YamlSource) -> None:
    """Refuse loops of bridges, in which broadcasts would circulate forever."""
    joined: dict[str, str] = {}

    def root(place: str) -> str:
        while place in joined:
            place = joined[place]
        return place

    for number, link in enumerate(network.links):
        left, right = (root(_bridge_of(end, network)) for end in link.ends)
        if left == right:
            raise TopologyError(
                f"{source.at('links', number, name='link')} {link.ends}: closes a loop of bridges, "
                "in which broadcasts would go round for ever; leave one of its links out")
        joined[left] = right


def _bridge_of(end: str, network: Network) -> str:
    """Return the bridge that a link's end is a port of, or the end itself if it is no port."""
    name, _, port = end.partition("/")
    bridge = network.nodes[name].interfaces[port].bridge
    return f"{name}/{bridge}" if bridge else end


def find_segments(network: Network) -> list[_Segment]:
    """Return the interfaces of each network segment, which wires and bridges connect."""
    groups: dict[str, set[str]] = {}
    for name, node in network.nodes.items():
        for port in node.interfaces:
            groups[f"{name}/{port}"] = {f"{name}/{port}"}
    pairs: list[Iterable[str]] = [link.ends for link in network.links]
    pairs += [(f"{name}/{port}", f"{name}/{interface.bridge}")
              for name, node in network.nodes.items()
              for port, interface in node.interfaces.items() if interface.bridge]
    for left, right in pairs:
        together = groups[left] | groups[right]
        for member in together:
            groups[member] = together
    return list({id(group): frozenset(group) for group in groups.values()}.values())


def check_subnets(network: Network, source: YamlSource) -> None:
    """Refuse addresses of two subnets on one network segment."""
    for segment in find_segments(network):
        first: tuple[str, IPv4Network] | None = None
        for end in sorted(segment, key=lambda end: list(network.nodes).index(node_of(end))):
            name, _, port = end.partition("/")
            address = network.nodes[name].interfaces[port].address
            if not address or network.nodes[name].has_duty(STATION):
                continue
            subnet = IPv4Interface(address).network
            if first is not None and subnet != first[1]:
                at = source.at("nodes", name, "interfaces", port, "address", name=end)
                raise TopologyError(f"{at}: {address} is in another subnet than {first[0]} on the "
                                    f"same wire ({first[1]}); write an address in one subnet")
            first = first or (end, subnet)


def check_gateways(network: Network, source: YamlSource) -> None:
    """Refuse gateways that are not the address of a neighbour."""
    segment_of = {end: segment for segment in find_segments(network) for end in segment}
    for name, node in network.nodes.items():
        if node.gateway is None:
            continue
        ends = [f"{name}/{port}" for port in node.interfaces]
        if node.has_duty(STATION):  # over the air
            ends = [f"{cell}/{port}" for cell in network.of_duty(ACCESS_POINT)
                    for port in network.nodes[cell].interfaces
                    if network.nodes[cell].agent == node.agent]
        if not ends:  # reported for scenarios that need one
            continue
        neighbours = {other for end in ends for other in segment_of[end]}
        if node.gateway not in [_ip_of(other, network) for other in neighbours]:
            at = source.at("nodes", name, "gateway", name=f"{name}: gateway")
            raise TopologyError(f"{at}: no neighbour of {name} has the address "
                                f"{node.gateway}; write a neighbour's, or add the link to it")


def check_leases(network: Network, source: YamlSource) -> None:
    """Refuse a station with DHCP, unless exactly one server is behind its access points.

    The server's subnet must contain the station's address and its gateway. A server without such a
    station would have no effect, and is refused.
    """
    for name in network.of_duty(DHCP_SERVER):
        if not any(network.nodes[station].uses_dhcp for station in network.of_duty(STATION)):
            place = source.at("nodes", name, "duties", name=f"{name}: duties")
            raise TopologyError(f"{place}: {DHCP_SERVER}: no station gets its address by DHCP; "
                                "leave it out, or add dhcp: true to a station's radio")
    segment_of = {end: segment for segment in find_segments(network) for end in segment}
    for name in network.of_duty(STATION):
        node = network.nodes[name]
        if not node.uses_dhcp:
            continue
        port = node.radio_interface
        place = source.at("nodes", name, "interfaces", port, "dhcp", name=f"{name}/{port}: dhcp")
        cells = [cell for cell in network.of_duty(ACCESS_POINT)
                 if network.nodes[cell].agent == node.agent]
        for cell in cells:
            ends = segment_of[f"{cell}/{network.nodes[cell].radio_interface}"]
            servers = [end for end in ends if network.nodes[node_of(end)].has_duty(DHCP_SERVER)]
            if len(servers) != 1:
                raise TopologyError(f"{place}: {len(servers)} nodes of duty {DHCP_SERVER} on the "
                                    f"wire behind {cell}; give one node there the duty")
            _check_lease(node, network, servers[0], place)


def _check_lease(node: Node, network: Network, server: str, place: YamlPlace) -> None:
    """Refuse an address or a gateway outside of the subnet that a DHCP server serves."""
    address = network.nodes[node_of(server)].interfaces[server.partition("/")[2]].address
    if not address:
        raise TopologyError(f"{place}: the DHCP server {server} has no address; give it one")
    subnet = IPv4Interface(address).network
    for what, there in (("address", node.address), ("gateway", node.gateway or "")):
        if IPv4Address(there) not in subnet:
            raise TopologyError(f"{place}: the {what} {there} is outside of {subnet}, the subnet "
                                f"of the DHCP server {server}; write one inside")


def _ip_of(end: str, network: Network) -> str:
    name, _, port = end.partition("/")
    return network.nodes[name].interfaces[port].ip


def check_reach(scenario: Scenario, source: YamlSource) -> None:
    """Refuse a scenario whose peer, agent or access point cannot be reached over links."""
    network = scenario.network
    neighbours = _find_neighbours(network)
    inside = source.part_at("network")
    for cell in dict.fromkeys((scenario.home, scenario.access_point)):
        node, there = network.nodes[cell], _find_reached(cell, neighbours, network)
        for field, other in (("agent", node.agent or ""), ("radius_server", node.radius_server),
                             ("second_radius_server", node.second_radius_server)):
            if other is not None and other not in there:
                at = inside.at("nodes", cell, field, name=f"{cell}: {field}")
                raise TopologyError(f"{at}: no link leads to {other}; add one")
    place = source.at("roams_to" if scenario.roams_to else "network")
    reached = _find_reached(scenario.access_point, neighbours, network)
    if scenario.agent not in reached:
        raise TopologyError(f"{place}: no link leads from {scenario.access_point} to "
                            f"{scenario.agent}; add one, or its nodes")
    if scenario.peer not in reached:
        raise TopologyError(f"{source.at('peer')}: no link leads to {scenario.peer} from "
                            f"{scenario.access_point}; add one, or the nodes between")
    for name in scenario.companions:
        home = scenario.home_of(name)
        if network.nodes[name].agent not in _find_reached(home, neighbours, network):
            raise TopologyError(f"{inside.at('nodes', name, 'agent', name=f'{name}: agent')}: no "
                                f"link leads from {home} to it; add one")


def _find_neighbours(network: Network) -> Mapping[str, set[str]]:
    """Return the neighbours of each node, over wires and over the air at home."""
    neighbours: dict[str, set[str]] = {name: set() for name in network.nodes}
    pairs = [tuple(map(node_of, link.ends)) for link in network.links]
    pairs += [(name, cell) for name in network.of_duty(STATION)
              for cell in network.of_duty(ACCESS_POINT)
              if network.nodes[cell].agent == network.nodes[name].agent]
    for left, right in pairs:
        neighbours[left].add(right)
        neighbours[right].add(left)
    return neighbours


def _find_reached(start: str, neighbours: Mapping[str, set[str]], network: Network) -> set[str]:
    """Return the nodes that packets from a node can reach, through bridges and routers."""
    reached, waiting = {start}, [start]
    while waiting:
        name = waiting.pop()
        node = network.nodes[name]
        if name == start or node.forwarding or node.has_duty(ACCESS_POINT):
            new = neighbours[name] - reached
            reached |= new
            waiting += new
    return reached
