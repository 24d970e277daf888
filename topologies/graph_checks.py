"""Check a network's graph of links.

The checks are about ends of links, loops of bridges, subnets and reachability.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Interface, IPv4Network

from topologies.errors import TopologyError
from topologies.figure_checks import check_wire
from topologies.model import ACCESS_POINT, STATION, Network, Scenario, node_of
from topologies.source import YamlPlace, YamlSource

#: The interfaces of one link layer, as `NODE/INTERFACE`.
_Segment = frozenset[str]


def check_links(network: Network, source: YamlSource) -> None:
    """Refuse links without two ends, and ends that are no interface."""
    ends = [end for link in network.links for end in link.ends]
    for number, link in enumerate(network.links):
        at = source.at("links", number, name="link")
        if len(link.ends) != 2:
            raise TopologyError(f"{at} {link.ends}: needs two ends; write NODE/INTERFACE")
        check_wire(link, source.within("links", number), name=f"link {link.ends[0]}")
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
    """Return the bridge that a link's end is a port of.

    The result is the end itself if it is no port.
    """
    name, _, port = end.partition("/")
    bridge = network.nodes[name].interfaces[port].bridge
    return f"{name}/{bridge}" if bridge else end


def find_segments(network: Network) -> list[_Segment]:
    """Return the interfaces of each link layer, which wires and bridges connect."""
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
    """Refuse addresses of two subnets on one link layer."""
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
    """Refuse gateways that are not a neighbour's address."""
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


def _ip_of(end: str, network: Network) -> str:
    name, _, port = end.partition("/")
    return network.nodes[name].interfaces[port].ip


def check_reach(scenario: Scenario, source: YamlSource) -> None:
    """Refuse a peer, an agent or an access point that no chain of links reaches."""
    network = scenario.network
    neighbours = _find_neighbours(network)
    inside = source.within("network")
    for cell in dict.fromkeys((scenario.home, scenario.access_point)):
        agent = network.nodes[cell].agent or ""
        if agent not in _find_reached(cell, neighbours, network):
            at = inside.at("nodes", cell, "agent", name=f"{cell}: agent")
            raise TopologyError(f"{at}: no link leads to {agent}; add one")
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
    beside: dict[str, set[str]] = {name: set() for name in network.nodes}
    pairs = [tuple(map(node_of, link.ends)) for link in network.links]
    pairs += [(name, cell) for name in network.of_duty(STATION)
              for cell in network.of_duty(ACCESS_POINT)
              if network.nodes[cell].agent == network.nodes[name].agent]
    for left, right in pairs:
        beside[left].add(right)
        beside[right].add(left)
    return beside


def _find_reached(start: str, neighbours: Mapping[str, set[str]], network: Network) -> set[str]:
    """Return the nodes that packets from `start` reach, through bridges and forwarding nodes."""
    reached, waiting = {start}, [start]
    while waiting:
        name = waiting.pop()
        node = network.nodes[name]
        if name == start or node.forwarding or node.has_duty(ACCESS_POINT):
            new = neighbours[name] - reached
            reached |= new
            waiting += new
    return reached
