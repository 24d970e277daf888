"""Network of the study: a star of three realms' KDCs and the clients' wires.

For a policy on the air, the realms are in the home network instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from studies import mobile
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import Network, Scenario

#: Client nodes by the level of the factor `wire`.
CLIENTS: Mapping[str, str] = {
    "none": "client-bare", "lan": "client", "wan": "client-wan", "slow": "client-slow",
    "3g": "client-3g", "2g": "client-2g"}
#: Wires by node; only the client's wire delays packets between client and KDCs.
_WIRES: Mapping[str, str] = {
    "client": "lan-10m", "client-wan": "wide-area", "client-slow": "slow-internet",
    "client-3g": "umts-3g", "client-2g": "gprs-2g", "client-bare": "", "local": "", "remote": "",
    "app": ""}
#: Duties by node. Files are rendered for one client node only, because the client is the same on
#: every wire.
_DUTIES: Mapping[str, list[str]] = {
    "client": ["kerberos_client"], "local": ["kerberos_kdc"], "remote": ["kerberos_kdc"],
    "app": ["kerberos_kdc", "kerberos_server"]}
#: Duties of the servers, wherever the client is.
SERVERS: Mapping[str, list[str]] = {name: _DUTIES[name] for name in ("local", "remote", "app")}


def build_realms() -> Network:
    """Return the star of all realms and client nodes."""
    made = shapes.make_star("realms", {node: load_wire(wire) if wire else None
                                  for node, wire in _WIRES.items()},
                       lambda node: _DUTIES.get(node, ["place_of_client"]))
    nodes = {name: replace(node, agent="local") if node.has_duty("kerberos_client") else node
             for name, node in made.nodes.items()}
    return replace(made, nodes=nodes)


def at_home(scenario: Scenario) -> Scenario:
    """Return a scenario whose mobile node logs in to realms behind its home agent."""
    return mobile.served_at_home(scenario, SERVERS, peer="local", duties=["kerberos_client"])
