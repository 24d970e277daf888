"""Checks refuse topology files that fit their shape and cannot work, in one line for the user."""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from pathlib import Path

from topologies.device import KINDS, Device, Work
from topologies.model import (
    ACCESS_POINT,
    STATION,
    Interface,
    Link,
    Medium,
    Network,
    Node,
    Scenario,
    Wire,
)

# A scenario's id is part of file names; captures show MAC addresses in lower case.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
# Duties are groups of Ansible's inventory; operations of devices are words for people.
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_OPERATION = re.compile(r"[a-z][a-z0-9-]*")
# An interface's name ends at Linux's IFNAMSIZ.
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


class TopologyError(ValueError):
    """A topology file that cannot be used; the text is one line for the user."""


def medium(given: Medium, path: Path | str) -> None:
    """Refuse rates of zero and times below zero."""
    _numbers(given, str(path))


def wire(given: Wire | Link, path: Path | str, where: str = "") -> None:
    """Refuse rates of zero, times below zero, losses that are none, and a preset without source."""
    place = f"{path}{where}"
    _numbers(given, place)
    if given.loss_percent > 100:
        raise TopologyError(f"{place}: loss_percent: {given.loss_percent:g}; write 100 or less")
    if given.queue_packets < 1:
        raise TopologyError(f"{place}: queue_packets: {given.queue_packets}; write 1 or more")
    if isinstance(given, Wire) and not given.source.strip():
        raise TopologyError(f"{place}: source: nothing; say where its figures are from")


def device(given: Device, path: Path | str) -> None:
    """Refuse figures without a source, without a value, or with one that is not above zero."""
    if not _ID.fullmatch(given.name):
        raise TopologyError(f"{path}: name: {given.name!r}; write up to 40 letters, digits, - "
                            "and _")
    if given.processors < 1:
        raise TopologyError(f"{path}: processors: {given.processors}; write 1 or more")
    if not given.work:
        raise TopologyError(f"{path}: work: nothing; state at least one kind of work")
    for operation, work in given.work.items():
        _work(operation, work, f"{path}: work.{operation}")


def _work(operation: str, work: Work, where: str) -> None:
    if not work.source.strip():
        raise TopologyError(f"{where}: source: nothing; say where the figure is from")
    stated = {unit: value for unit in ("seconds", "bytes_per_s", "factor")
              if (value := getattr(work, unit)) is not None}
    if len(stated) != 1:
        raise TopologyError(f"{where}: {' and '.join(stated) or 'no value'}; write one of seconds, "
                            "bytes_per_s and factor")
    for unit, value in stated.items():
        if not 0 < value < math.inf:
            raise TopologyError(f"{where}: {unit}: {value:g}; write a number above 0")
    if "factor" in stated and operation not in KINDS:
        raise TopologyError(f"{where}: factor: not for an operation; write it for one of "
                            f"{', '.join(KINDS)}, or seconds")
    if not _OPERATION.fullmatch(operation):
        raise TopologyError(f"{where}: no name for work; write lower case letters, digits and -")


def _numbers(given: Medium | Wire | Link, where: str) -> None:
    for field, value in vars(given).items():
        minimum = 1 if field.endswith("rate_bps") else 0
        if isinstance(value, (int, float)) and not minimum <= value < math.inf:
            raise TopologyError(f"{where}: {field}: {value}; write {minimum} or more")


def network(given: Network, path: Path | str) -> None:
    """Refuse impossible links, addresses outside their subnets, radios that nobody serves.

    `path` is the file, or other words for where the network comes from.
    """
    _links(given, path)
    for name, node in given.nodes.items():
        _node(name, node, path)
        _position(node.position, f"{path}: {name}: position")
        if node.device is not None:
            device(node.device, path)
    _radios(given, path)


def scenario(given: Scenario, path: Path | str) -> None:
    """Refuse dangling names, and what holds for no network."""
    network_ = given.network
    if not _ID.fullmatch(given.id):
        raise TopologyError(f"{path}: id: {given.id!r}; write up to 40 letters, digits, - and _")
    for role in ("mobile_node", "peer", "roams_to"):
        name = getattr(given, role)
        if name is not None and name not in network_.nodes:
            raise TopologyError(f"{path}: {role}: no node {name!r} in network {network_.name}; "
                                f"it has {', '.join(network_.nodes)}")
    _roles(given, path)
    network(network_, path)
    _places(given, path)
    if not any(i.address for i in network_.nodes[given.peer].interfaces.values()):
        raise TopologyError(f"{path}: peer: {given.peer} has no address; give it one")


def _links(network: Network, path: Path | str) -> None:
    ends = [end for link in network.links for end in link.ends]
    for link in network.links:
        if len(link.ends) != 2:
            raise TopologyError(f"{path}: link {link.ends}: needs two ends; write NODE/INTERFACE")
        wire(link, path, f": link {link.ends[0]}")
    for end in ends:
        node, _, interface = end.partition("/")
        if node not in network.nodes or interface not in network.nodes[node].interfaces:
            raise TopologyError(f"{path}: link end {end!r} names no interface; "
                                "write NODE/INTERFACE")
        if ends.count(end) > 1:
            raise TopologyError(f"{path}: link end {end!r} is used twice; give it one link")


def _radios(network: Network, path: Path | str) -> None:
    radios = Counter(i.radio for node in network.nodes.values() for i in node.interfaces.values()
                     if i.radio)
    for radio, count in radios.items():
        if count > 1:
            raise TopologyError(f"{path}: radio {radio} is there {count} times; give each another")


def _places(given: Scenario, path: Path | str) -> None:
    """Refuse a drive without a beginning or an end, or past nodes that stand nowhere."""
    places = {name: node.position for name, node in given.network.nodes.items() if node.position}
    drive = given.mobility
    if drive is None:
        return
    _position(drive.to, f"{path}: mobility.to")
    if not 0 <= drive.start_s < drive.stop_s:
        raise TopologyError(f"{path}: mobility: from {drive.start_s} s to {drive.stop_s} s; "
                            "start at 0 or later and stop after that")
    # The strength of a signal follows from both ends' places.
    for name in (given.mobile_node, *given.network.of_duty(ACCESS_POINT)):
        if name not in places:
            raise TopologyError(f"{path}: mobility: {name} has no position; give it one in the "
                                "network")


def _position(position: list[float] | None, where: str) -> None:
    if position is not None and not (len(position) in (2, 3) and all(map(math.isfinite, position))):
        raise TopologyError(f"{where}: {position}; write [x, y] or [x, y, z] in metres")


def _node(name: str, node: Node, path: Path | str) -> None:
    """Refuse names that are none, radios out of place, and addresses out of reach."""
    for duty in node.duties:
        if not _WORD.fullmatch(duty):
            raise TopologyError(f"{path}: {name}: duties: {duty!r}; write lower case letters, "
                                "digits and _")
    subnets = []
    for interface, settings in node.interfaces.items():
        _interface(interface, settings, f"{path}: {name}/{interface}")
        if settings.address:
            subnets.append(_subnet(settings.address, f"{path}: {name}/{interface}"))
    _radio(node, f"{path}: {name}")
    if node.gateway:
        gateway = _subnet(f"{node.gateway}/32", f"{path}: {name}: gateway").network_address
        # A station reaches its agent over the air, whatever its own prefix.
        if not node.has(STATION) and not any(gateway in subnet for subnet in subnets):
            raise TopologyError(f"{path}: {name}: gateway: {node.gateway} is in no subnet of the "
                                "node; write an address that is")


def _interface(name: str, settings: Interface, where: str) -> None:
    if not _INTERFACE.fullmatch(name):
        raise TopologyError(f"{where}: no name that Linux takes; write up to 15 letters, digits, "
                            "., - and _")
    if settings.radio and not _MAC.fullmatch(settings.radio):
        raise TopologyError(f"{where}: {settings.radio!r}; write a radio's MAC address in lower "
                            "case, 02:00:00:00:00:00")


def _radio(node: Node, where: str) -> None:
    """Refuse a radio where none belongs, and none where one does."""
    with_radio = [duty for duty in (STATION, ACCESS_POINT) if node.has(duty)]
    has_radio = any(settings.radio for settings in node.interfaces.values())
    if with_radio and not has_radio:
        raise TopologyError(f"{where}: a {with_radio[0]} without a radio; give it an interface "
                            "with one")
    if has_radio and len(with_radio) != 1:
        raise TopologyError(f"{where}: a radio, and {len(with_radio)} of the duties {STATION} and "
                            f"{ACCESS_POINT}; give it one of them")


def _subnet(address: str, where: str) -> ipaddress.IPv4Network:
    if "/" not in address:
        raise TopologyError(f"{where}: {address} has no prefix length; write ADDRESS/PREFIX")
    try:
        return ipaddress.IPv4Interface(address).network
    except ValueError as error:
        raise TopologyError(f"{where}: {error}; write ADDRESS/PREFIX") from None


def _roles(given: Scenario, path: Path | str) -> None:
    """Refuse a mobile node without agent or access point, and a visit that is none."""
    nodes = given.network.nodes
    for name in given.network.of_duty(STATION):
        agent = nodes[name].agent
        if agent not in nodes:
            raise TopologyError(f"{path}: {name}: agent: no node {agent!r}; name a home agent")
        if not any(nodes[cell].agent == agent for cell in given.network.of_duty(ACCESS_POINT)):
            raise TopologyError(f"{path}: {name}: no access point has agent {agent!r}; add one")
    if not nodes[given.mobile_node].has(STATION):
        raise TopologyError(f"{path}: mobile_node: {given.mobile_node} is not a station; "
                            "name one that is")
    if given.roams_to and given.roams_to not in given.network.of_duty(ACCESS_POINT):
        raise TopologyError(f"{path}: roams_to: {given.roams_to} is not an access point; "
                            "name one that is")
    if given.roams_to == given.home:
        raise TopologyError(f"{path}: roams_to: {given.roams_to} is at home; leave it out or "
                            "name another access point")
