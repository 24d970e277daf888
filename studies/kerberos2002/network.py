"""Network of the study: nodes of two realms, each on a wire to a router.

For a mobile client on the air, the realms are at its home network.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import mobile
from studies.kerberos2002.places import SERVERS
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import Network, Scenario

#: Wires of the nodes. Servers of the remote realm are behind the Internet where a wire is slow, and
#: behind a wide area network for mobile clients.
NODES: Mapping[str, str] = {
    "client": "lan-10m", "client-2g": "gprs-2g", "client-3g": "umts-3g", "workstation": "lan-10m",
    "kdc-l": "lan-10m", "kdc-r": "lan-10m", "kdc-r-slow": "slow-internet", "proxy": "lan-10m",
    **{f"{server}{path}": wire for server in SERVERS for path, wire in (
        ("", "lan-10m"), ("-slow", "slow-internet"), ("-wan", "wide-area"))}}
#: Nodes that a client sends requests to, wherever it is.
HOSTS = ("kdc-l", "kdc-r", "proxy", *SERVERS)


def role_of(node: str) -> str:
    """Return which of the study's devices a node has: mobile, workstation or server."""
    if node.startswith("client"):
        return "mobile"
    return "workstation" if node == "workstation" else "server"


def build_realms() -> Network:
    """Build the network of all nodes, of which a cell uses some."""
    return shapes.make_star("two-realms", {node: load_wire(wire) for node, wire in NODES.items()},
                            lambda node: [node.partition("-")[0].rstrip("0123456789")])


def with_realms_at_home(scenario: Scenario) -> Scenario:
    """Return the scenario with both realms at home, and its mobile node as client."""
    return mobile.served_at_home(scenario, {host: ["realm_host"] for host in HOSTS},
                                 peer=HOSTS[0])
