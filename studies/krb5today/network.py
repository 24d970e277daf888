"""One star of all places: three realms' KDCs, and the client on each wire; or realms at home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from studies import mobile
from topologies import shapes
from topologies.loader import load_wire
from topologies.model import Network, Scenario

#: The client's nodes by the level of the factor wire, and the wires that they are on.
CLIENTS: Mapping[str, str] = {
    "none": "client-bare", "lan": "client", "wan": "client-wan", "slow": "client-slow",
    "3g": "client-3g", "2g": "client-2g"}
#: All that is between client and KDCs is the client's wire.
_WIRES: Mapping[str, str] = {
    "client": "lan-10m", "client-wan": "wide-area", "client-slow": "slow-internet",
    "client-3g": "umts-3g", "client-2g": "gprs-2g", "client-bare": "", "local": "", "remote": "",
    "app": ""}
#: Only one of the client's nodes has files rendered: wherever it is, it is the same one.
_DUTIES: Mapping[str, list[str]] = {
    "client": ["kerberos_client"], "local": ["kerberos_kdc"], "remote": ["kerberos_kdc"],
    "app": ["kerberos_kdc", "kerberos_server"]}
#: The duties of those whom a client asks, wherever it is.
SERVERS: Mapping[str, list[str]] = {name: _DUTIES[name] for name in ("local", "remote", "app")}


def realms() -> Network:
    """All nodes."""
    made = shapes.make_star("realms", {node: load_wire(wire) if wire else None
                                       for node, wire in _WIRES.items()},
                            lambda node: _DUTIES.get(node, ["place_of_client"]))
    nodes = {name: replace(node, agent="local") if node.has_duty("kerberos_client") else node
             for name, node in made.nodes.items()}
    return replace(made, nodes=nodes)


def at_home(scenario: Scenario) -> Scenario:
    """A scenario whose mobile node logs in to realms behind its home agent, wherever it is."""
    return mobile.served_at_home(scenario, SERVERS, peer="local", duties=["kerberos_client"])
