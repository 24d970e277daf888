"""One network with all places of the paper: two realms' nodes, each on a wire to a router.

Or the realms at home, for a mobile client on the air.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import mobile
from studies.kerberos2002.places import SERVERS
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import Network, Scenario

#: Nodes by what they are on. Servers of the remote realm are behind the Internet where a wire is
#: slow, and behind a wide area for mobile clients.
NODES: Mapping[str, str] = {
    "client": "lan-10m", "client-2g": "gprs-2g", "client-3g": "umts-3g", "workstation": "lan-10m",
    "kdc-l": "lan-10m", "kdc-r": "lan-10m", "kdc-r-slow": "slow-internet", "proxy": "lan-10m",
    **{f"{server}{path}": wire for server in SERVERS for path, wire in (
        ("", "lan-10m"), ("-slow", "slow-internet"), ("-wan", "wide-area"))}}
#: Whom a client asks, wherever it is.
HOSTS = ("kdc-l", "kdc-r", "proxy", *SERVERS)


def role(node: str) -> str:
    """Which of the study's devices a node has: a mobile client's, a workstation's or a server's."""
    if node.startswith("client"):
        return "mobile"
    return "workstation" if node == "workstation" else "server"


def realms() -> Network:
    """All nodes; parties of a cell are at some of them."""
    return shapes.star("two-realms", {node: load_wire(wire) for node, wire in NODES.items()},
                       lambda node: [node.partition("-")[0].rstrip("0123456789")])


def at_home(scenario: Scenario) -> Scenario:
    """A scenario whose mobile node is the client of realms behind its home agent."""
    return mobile.served_at_home(scenario, {host: ["realm_host"] for host in HOSTS},
                                 peer=HOSTS[0])
