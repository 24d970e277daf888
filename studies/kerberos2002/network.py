"""One network with all places of the paper: two realms' nodes, each on a wire to a router."""

from __future__ import annotations

from collections.abc import Mapping

from studies.kerberos2002.places import PORT
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import ROUTER, Interface, Network, Node

#: Nodes by what they are on. Servers of the remote realm are behind the Internet where a wire is
#: slow, and behind a wide area for mobile clients.
NODES: Mapping[str, str] = {
    "client": "lan-10m", "client-2g": "gprs-2g", "client-3g": "umts-3g", "kdc-l": "lan-10m",
    "kdc-r": "lan-10m", "proxy": "lan-10m", "app1": "lan-10m", "app2": "lan-10m",
    "app3": "lan-10m", "app4": "lan-10m", "kdc-r-slow": "slow-internet",
    "app1-slow": "slow-internet", "app1-wan": "wide-area", "workstation": "lan-10m"}


def role(node: str) -> str:
    """Which of the study's devices a node has: a mobile client's, a workstation's or a server's."""
    if node.startswith("client"):
        return "mobile"
    return "workstation" if node == "workstation" else "server"


def realms() -> Network:
    """All nodes; parties of a cell are at some of them."""
    router = Node([ROUTER], {}, forwarding=True)
    nodes, links = {ROUTER: router}, []
    for number, (name, wire) in enumerate(NODES.items(), 1):
        port = f"d{number}"
        router.interfaces[port] = Interface(f"10.0.{number}.1/24")
        duty = name.partition("-")[0].rstrip("0123456789")
        nodes[name] = Node([duty], {PORT: Interface(f"10.0.{number}.2/24")},
                           gateway=f"10.0.{number}.1")
        links.append(shapes.link(f"{ROUTER}/{port}", f"{name}/{PORT}", load_wire(wire)))
    return Network("two-realms", nodes, links)
