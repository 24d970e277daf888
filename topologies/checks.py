"""What a scenario or medium must hold beyond its shape; one line for the user if it does not."""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from pathlib import Path

from topologies.model import Medium, Network, Node, Scenario

# A scenario's id is part of file names; captures show MAC addresses in lower case.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


class TopologyError(ValueError):
    """A topology file that cannot be used; the text is one line for the user."""


def medium(found: Medium, path: Path) -> None:
    """Refuse rates of zero and times below zero."""
    for field, value in vars(found).items():
        least = 1 if field.endswith("rate_bps") else 0
        if isinstance(value, (int, float)) and value < least:
            raise TopologyError(f"{path}: {field}: {value}; write {least} or more")


def scenario(found: Scenario, path: Path) -> None:
    """Refuse dangling names, impossible links and addresses outside their subnets."""
    network = found.network
    if not _ID.fullmatch(found.id):
        raise TopologyError(f"{path}: id: {found.id!r}; write up to 40 letters, digits, - and _")
    for role in ("mobile_node", "peer", "roams_to"):
        name = getattr(found, role)
        if name is not None and name not in network.nodes:
            raise TopologyError(f"{path}: {role}: no node {name!r} in network {network.name}; "
                                f"it has {', '.join(network.nodes)}")
    _duties(found, path)
    _links(network, path)
    for name, node in network.nodes.items():
        _node(name, node, path)
    _radios(network, path)
    _places(found, path)
    if not any(i.address for i in network.nodes[found.peer].interfaces.values()):
        raise TopologyError(f"{path}: peer: {found.peer} has no address; give it one")


def _links(network: Network, path: Path) -> None:
    ends = [end for link in network.links for end in link.ends]
    for link in network.links:
        if len(link.ends) != 2:
            raise TopologyError(f"{path}: link {link.ends}: needs two ends; write NODE/INTERFACE")
    for end in ends:
        node, _, interface = end.partition("/")
        if node not in network.nodes or interface not in network.nodes[node].interfaces:
            raise TopologyError(f"{path}: link end {end!r} names no interface; "
                                "write NODE/INTERFACE")
        if ends.count(end) > 1:
            raise TopologyError(f"{path}: link end {end!r} is used twice; give it one link")


def _radios(network: Network, path: Path) -> None:
    radios = Counter(i.radio for node in network.nodes.values() for i in node.interfaces.values()
                     if i.radio)
    for radio, count in radios.items():
        if count > 1:
            raise TopologyError(f"{path}: radio {radio} is there {count} times; give each another")


def _places(found: Scenario, path: Path) -> None:
    """Refuse positions that are none, and a drive without a beginning or an end."""
    places = {name: node.position for name, node in found.network.nodes.items() if node.position}
    for name, node in found.network.nodes.items():
        _position(node.position, f"{path}: {name}: position")
    drive = found.mobility
    if drive is None:
        return
    _position(drive.to, f"{path}: mobility.to")
    if not 0 <= drive.start_s < drive.stop_s:
        raise TopologyError(f"{path}: mobility: from {drive.start_s} s to {drive.stop_s} s; "
                            "start at 0 or later and stop after that")
    # The strength of a signal follows from both ends' places.
    for name in (found.mobile_node, *found.network.of_kind("access_point")):
        if name not in places:
            raise TopologyError(f"{path}: mobility: {name} has no position; give it one in the "
                                "network")


def _position(position: list[float] | None, where: str) -> None:
    if position is not None and not (len(position) in (2, 3) and all(map(math.isfinite, position))):
        raise TopologyError(f"{where}: {position}; write [x, y] or [x, y, z] in metres")


def _node(name: str, node: Node, path: Path) -> None:
    """Refuse addresses that are none or out of reach, and stations and cells without a radio."""
    subnets = []
    for interface, settings in node.interfaces.items():
        if settings.radio and not _MAC.fullmatch(settings.radio):
            raise TopologyError(f"{path}: {name}/{interface}: {settings.radio!r}; write a radio's "
                                "MAC address in lower case, 02:00:00:00:00:00")
        if settings.address:
            subnets.append(_subnet(settings.address, f"{path}: {name}/{interface}"))
    if node.kind in ("station", "access_point") and not any(
            settings.radio for settings in node.interfaces.values()):
        raise TopologyError(f"{path}: {name}: a {node.kind} without a radio; give it an interface "
                            "with one")
    if node.gateway:
        gateway = _subnet(f"{node.gateway}/32", f"{path}: {name}: gateway").network_address
        # A station reaches its agent over the air, whatever its own prefix.
        if node.kind != "station" and not any(gateway in subnet for subnet in subnets):
            raise TopologyError(f"{path}: {name}: gateway: {node.gateway} is in no subnet of the "
                                "node; write an address that is")


def _subnet(address: str, where: str) -> ipaddress.IPv4Network:
    if "/" not in address:
        raise TopologyError(f"{where}: {address} has no prefix length; write ADDRESS/PREFIX")
    try:
        return ipaddress.IPv4Interface(address).network
    except ValueError as error:
        raise TopologyError(f"{where}: {error}; write ADDRESS/PREFIX") from None


def _duties(found: Scenario, path: Path) -> None:
    """Refuse a mobile node without agent or access point, and a visit that is none."""
    nodes = found.network.nodes
    for name in found.network.of_kind("station"):
        agent = nodes[name].agent
        if agent not in nodes:
            raise TopologyError(f"{path}: {name}: agent: no node {agent!r}; name a home agent")
        if not any(nodes[cell].agent == agent for cell in found.network.of_kind("access_point")):
            raise TopologyError(f"{path}: {name}: no access point has agent {agent!r}; add one")
    if nodes[found.mobile_node].kind != "station":
        raise TopologyError(f"{path}: mobile_node: {found.mobile_node} is no station; "
                            "name one that is")
    if found.roams_to and found.roams_to not in found.network.of_kind("access_point"):
        raise TopologyError(f"{path}: roams_to: {found.roams_to} is no access point; "
                            "name one that is")
    if found.roams_to == found.home:
        raise TopologyError(f"{path}: roams_to: {found.roams_to} is at home; leave it out or "
                            "name another access point")
