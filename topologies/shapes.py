"""Build the description of a network with a regular shape (chain, star).

`make_chain` takes a number of hops, and `make_star` the wires of the nodes. Both return a `Network`
with nodes, addresses and links, so that a study need not list them. `add_hosts_behind` adds hosts
behind a home agent. A wire is the rate, delay and loss of a link. `topologies.model` lists the
terms.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from topologies.model import ROUTER, Interface, Link, Network, Node, Wire

_HOP_LIMIT = 250
#: Name of the interface of each node of a star.
STAR_PORT = "wire"


def make_chain(hops: int, wire: Wire | None = None, *, first: str = "client", last: str = "server",
               name: str = "chain") -> Network:
    """Build a network of two hosts with `hops` links in a row, and a router at every joint.

    The duties of the two hosts are their names (`first`, `last`). The routers are r1, r2 and so on.
    Hop n has the subnet 10.0.n.0/24. Every link uses `wire`, or is a plain link if `wire` is None.

    Raises:
        ValueError: The number of hops is out of range.
    """
    if not 1 <= hops <= _HOP_LIMIT:
        raise ValueError(f"a chain of {hops} hops; there are chains of 1 to {_HOP_LIMIT}")
    names = [first, *(f"r{number}" for number in range(1, hops)), last]
    nodes = {node: _in_a_chain(number, hops, first if number == 0 else last if number == hops
                               else ROUTER) for number, node in enumerate(names)}
    links = [make_link(f"{names[number - 1]}/right", f"{names[number]}/left", wire)
             for number in range(1, hops + 1)]
    return Network(name, nodes, links)


def make_star(name: str, wires: Mapping[str, Wire | None],
              duties: Callable[[str], list[str]]) -> Network:
    """Build a network of a router with one node on each of its wires.

    Node n has the subnet 10.0.n.0/24.

    Args:
        name: Name of the network.
        wires: The wire of each node, by the node's name. Packets take no time if the wire is None.
        duties: Function that returns a node's duties (such as "server") from the node's name.
    """
    router = Node([ROUTER], {}, forwarding=True)
    nodes, links = {ROUTER: router}, []
    for number, (node, wire) in enumerate(wires.items(), 1):
        port = f"d{number}"
        router.interfaces[port] = Interface(f"10.0.{number}.1/24")
        nodes[node] = Node(duties(node), {STAR_PORT: Interface(f"10.0.{number}.2/24")},
                           gateway=f"10.0.{number}.1")
        links.append(make_link(f"{ROUTER}/{port}", f"{node}/{STAR_PORT}", wire))
    return Network(name, nodes, links)


def add_hosts_behind(network: Network, agent: str, hosts: Mapping[str, Sequence[str]]) -> Network:
    """Return a network with additional hosts, each on a plain wire at a home agent.

    `hosts` has the duties of each host, by the host's name. The hosts have the last subnets of the
    agent's prefix, so the agent's tunnels reach them, too.

    Raises:
        ValueError: The network has a node of one of these names.
    """
    taken = [host for host in hosts if host in network.nodes]
    if taken:
        raise ValueError(f"the network {network.name} has a node {taken[0]} already")
    gate = network.nodes[agent]
    subnets = list(ipaddress.IPv4Network(gate.serves or "10.0.0.0/16").subnets(new_prefix=24))
    ports, nodes, links = dict(gate.interfaces), dict[str, Node](), list(network.links)
    for (host, duties), subnet in zip(hosts.items(), reversed(subnets), strict=False):
        gateway, own = subnet[1], subnet[2]
        ports[f"to-{host}"] = Interface(f"{gateway}/24")
        nodes[host] = Node(list(duties), {STAR_PORT: Interface(f"{own}/24")}, gateway=str(gateway))
        links.append(make_link(f"{agent}/to-{host}", f"{host}/{STAR_PORT}"))
    return replace(network, nodes={**network.nodes, agent: replace(gate, interfaces=ports),
                                   **nodes}, links=links)


def make_link(left: str, right: str, wire: Wire | None = None) -> Link:
    """Return a link between two `node/interface` ends, with the rate and delay of a wire."""
    return Link([left, right], **(wire.effect if wire else {}))


def _in_a_chain(number: int, hops: int, duty: str) -> Node:
    """Return the host or router with a number in a chain of nodes.

    Hop `number` is on its left, the next hop on its right.
    """
    interfaces: dict[str, Interface] = {}
    routes: dict[str, str] = {}
    if number > 0:
        interfaces["left"] = Interface(address=f"10.0.{number}.2/24")
        routes |= {f"10.0.{hop}.0/24": f"10.0.{number}.1" for hop in range(1, number)}
    if number < hops:
        interfaces["right"] = Interface(address=f"10.0.{number + 1}.1/24")
        routes |= {f"10.0.{hop}.0/24": f"10.0.{number + 1}.2"
                   for hop in range(number + 2, hops + 1)}
    return Node([duty], interfaces, routes=routes, forwarding=0 < number < hops)
