"""Refuse topology files that match the schema but cannot work, with one line for the user.

Errors in single values are reported before errors in the whole.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

from topologies import address_checks, graph_checks
from topologies.errors import TopologyError
from topologies.figure_checks import ID, check_device, check_medium, check_wire
from topologies.model import ACCESS_POINT, HOME_AGENT, STATION, Interface, Network, Node, Scenario
from topologies.source import YamlPlace, YamlSource

__all__ = ["TopologyError", "check_device", "check_medium", "check_network", "check_scenario",
           "check_whole_network", "check_wire"]

# Duties are groups of Ansible's inventory, which reserves two names; node names are its hosts.
_DUTY = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED_DUTIES = ("all", "ungrouped")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
#: Name that means every node where devices are assigned to nodes.
_EVERY_NODE = "all"
# Linux limits interface names to IFNAMSIZ - 1; some are taken, by interfaces or by sysctl.
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
_TAKEN_INTERFACES = ("lo", "all", "default", "hwsim0")
#: Channels of the 2.4 GHz band that an access point may use outside of Japan.
FIRST_CHANNEL, LAST_CHANNEL = 1, 13
_SSID_BYTES = 32


def check_network(network: Network, place: YamlSource | Path | str) -> None:
    """Refuse impossible links, addresses outside their subnets and radios without an agent.

    Args:
        network: The network. It may be a part of another network: links to nodes that take no part
            are no fault.
        place: The file, or a text that says where the network comes from.

    Raises:
        TopologyError: A check fails.
    """
    source = YamlSource.to_source(place)
    for name, node in network.nodes.items():
        _check_node(name, node, source)
    graph_checks.check_links(network, source)
    address_checks.check_network_addresses(network, source)
    _check_radios(network, source)
    _interfaces_of_access_points(network, source)
    graph_checks.check_loops(network, source)
    graph_checks.check_subnets(network, source)


def check_whole_network(network: Network, place: YamlSource | Path | str) -> None:
    """Refuse what `check_network` refuses, and interfaces and gateways that lead nowhere.

    The network must contain all of its nodes.
    """
    source = YamlSource.to_source(place)
    check_network(network, source)
    graph_checks.check_gateways(network, source)
    for name, node in network.nodes.items():
        for port, interface in node.interfaces.items():
            bridges = [other.bridge for other in node.interfaces.values()]
            if interface == Interface() and port not in bridges and not any(
                    f"{name}/{port}" in link.ends for link in network.links):
                raise TopologyError(f"{source.at('nodes', name, 'interfaces', port)}: has neither "
                                    "address, radio, bridge nor link; leave it out")


def check_scenario(scenario: Scenario, place: YamlSource | Path | str) -> None:
    """Refuse unknown names, roles that nodes cannot have, and faults of the network."""
    source, network_ = YamlSource.to_source(place), scenario.network
    if not ID.fullmatch(scenario.id):
        raise TopologyError(
            f"{source.at('id')}: {scenario.id!r}; write up to 40 letters, digits, - "
                            "and _")
    for role in ("mobile_node", "peer", "roams_to"):
        name = getattr(scenario, role)
        if name is not None and name not in network_.nodes:
            raise TopologyError(f"{source.at(role)}: no node {name!r} in network {network_.name}; "
                                f"it has {', '.join(network_.nodes) or 'none'}")
    inside = source.within("network")
    _check_roles(scenario, source, inside)
    check_network(network_, inside)
    _check_places(scenario, source)
    _check_moves(scenario, source)
    if scenario.peer == scenario.mobile_node:
        raise TopologyError(f"{source.at('peer')}: {scenario.peer} is the mobile node itself; name "
                            "another node")
    if not any(i.address for i in network_.nodes[scenario.peer].interfaces.values()):
        raise TopologyError(f"{source.at('peer')}: {scenario.peer} has no address; give it one")
    graph_checks.check_reach(scenario, source)


def _check_node(name: str, node: Node, source: YamlSource) -> None:
    """Refuse invalid names, fields of other duties, and addresses out of reach."""
    place = source.within("nodes", name)
    if not _NODE.fullmatch(name) or name == _EVERY_NODE:
        raise TopologyError(f"{place.at()}: no name for a node; write up to 40 letters, digits, ., "
                            f"- and _, and not {_EVERY_NODE!r}")
    for number, duty in enumerate(node.duties):
        if not _DUTY.fullmatch(duty) or duty in _RESERVED_DUTIES:
            raise TopologyError(f"{place.at('duties', number, name=f'{name}: duties')}: {duty!r}; "
                                "write lower case letters, digits and _")
    for port, interface in node.interfaces.items():
        _check_interface(name, port, interface, node, place)
    _check_radio(name, node, place)
    address_checks.check_node_addresses(name, node, place)
    _check_duty_fields(name, node, place)
    _check_position(node.position, place.at("position", name=f"{name}: position"))
    if node.device is not None:
        check_device(node.device, place.within("device"))


def _check_interface(node_name: str, port: str, interface: Interface, node: Node,
                     place: YamlSource) -> None:
    where = place.at("interfaces", port, name=f"{node_name}/{port}")
    if not _INTERFACE.fullmatch(port):
        raise TopologyError(f"{where}: no name that Linux takes; write up to 15 letters, digits, "
                            "., - and _")
    if port in _TAKEN_INTERFACES:
        raise TopologyError(f"{where}: Linux has an interface or a setting of that name; write "
                            "another")
    if interface.bridge is None:
        return
    at = place.at("interfaces", port, "bridge", name=f"{node_name}/{port}: bridge")
    if interface.bridge not in node.interfaces:
        raise TopologyError(f"{at}: {node_name} has no interface {interface.bridge!r}; add it, "
                            "with the bridge's address")
    bridge = node.interfaces[interface.bridge]
    if bridge.bridge is not None or bridge.radio is not None:
        raise TopologyError(f"{at}: {interface.bridge} is a port or a radio itself; name an "
                            "interface that is the bridge alone")
    if interface.address is not None:
        raise TopologyError(f"{at}: a port of a bridge has no address of its own; give it to "
                            f"{interface.bridge}")


def _check_radio(name: str, node: Node, place: YamlSource) -> None:
    """Refuse a radio on a node without a wireless duty, and a missing or second radio."""
    with_radio = [duty for duty in (STATION, ACCESS_POINT) if node.has_duty(duty)]
    radios = [port for port, interface in node.interfaces.items() if interface.radio]
    if with_radio and not radios:
        raise TopologyError(f"{place.at(name=name)}: a {with_radio[0]} without a radio; give it an "
                            "interface with one")
    if radios and len(with_radio) != 1:
        raise TopologyError(f"{place.at(name=name)}: a radio, and {len(with_radio)} of the duties "
                            f"{STATION} and {ACCESS_POINT}; give it one of them")
    if len(radios) > 1:
        raise TopologyError(f"{place.at('interfaces', radios[1], name=f'{name}/{radios[1]}')}: a "
                            f"second radio beside {radios[0]}, which nothing uses; leave it out")
    for port in radios:
        has_bridge = node.interfaces[port].bridge is not None
        at = place.at("interfaces", port, name=f"{name}/{port}")
        if has_bridge and not node.has_duty(ACCESS_POINT):
            raise TopologyError(f"{at}: a station's radio is in no bridge; leave bridge out")
        if not has_bridge and node.has_duty(ACCESS_POINT):
            raise TopologyError(f"{at}: an access point's radio is in a bridge; add bridge")


def _check_duty_fields(name: str, node: Node, place: YamlSource) -> None:
    """Refuse fields that belong to other duties, and missing fields that a duty needs."""
    if node.has_duty(ACCESS_POINT):
        _check_ssid(name, node, place)
        at = place.at("channel", name=f"{name}: channel")
        if node.channel is None:
            raise TopologyError(f"{at}: is missing; write {FIRST_CHANNEL} to {LAST_CHANNEL}")
        if not FIRST_CHANNEL <= node.channel <= LAST_CHANNEL:
            raise TopologyError(f"{at}: {node.channel} is no channel of the 2.4 GHz band that an "
                                f"access point may open; write {FIRST_CHANNEL} to {LAST_CHANNEL}")
        bridge = next(i.bridge for i in node.interfaces.values() if i.radio)
        if not node.interfaces[bridge or ""].address:
            raise TopologyError(f"{place.at('interfaces', bridge or '', name=f'{name}/{bridge}')}: "
                                "an access point's bridge has no address; give it one")
    if node.has_duty(STATION) and not node.gateway:
        raise TopologyError(f"{place.at('gateway', name=f'{name}: gateway')}: is missing; a "
                            "station reaches all others by it")
    if node.has_duty(STATION) and not node.interfaces[node.radio_interface].address:
        raise TopologyError(f"{place.at('interfaces', node.radio_interface)}: a station's radio "
                            "has no address; give it one")
    for field, duty in (("ssid", ACCESS_POINT), ("channel", ACCESS_POINT), ("serves", HOME_AGENT)):
        if getattr(node, field) is not None and not node.has_duty(duty):
            raise TopologyError(f"{place.at(field, name=f'{name}: {field}')}: has an effect on "
                                f"nodes of the duty {duty} alone; leave it out")
    if node.position is not None and not (node.has_duty(STATION) or node.has_duty(ACCESS_POINT)):
        raise TopologyError(f"{place.at('position', name=f'{name}: position')}: has an effect on "
                            "nodes with a radio alone; leave it out")


def _check_ssid(name: str, node: Node, place: YamlSource) -> None:
    at = place.at("ssid", name=f"{name}: ssid")
    if node.ssid is None:
        raise TopologyError(f"{at}: is missing; write the network's name")
    length = len(node.ssid.encode("utf-8", "surrogatepass"))
    if not 1 <= length <= _SSID_BYTES:
        raise TopologyError(f"{at}: {length} bytes; write 1 to {_SSID_BYTES}")
    if not node.ssid.isprintable():
        raise TopologyError(f"{at}: {node.ssid!r} has a character that cannot be shown; write "
                            "letters, digits, signs and spaces")
    if node.ssid != node.ssid.strip():
        raise TopologyError(f"{at}: {node.ssid!r} begins or ends with a space; leave the space out")


def _check_radios(network_: Network, source: YamlSource) -> None:
    radios = Counter(i.radio for node in network_.nodes.values() for i in node.interfaces.values()
                     if i.radio)
    for name, node in network_.nodes.items():
        for port, interface in node.interfaces.items():
            if interface.radio and radios[interface.radio] > 1:
                at = source.at("nodes", name, "interfaces", port, "radio", name=f"{name}/{port}")
                raise TopologyError(f"{at}: radio {interface.radio} is there "
                                    f"{radios[interface.radio]} times; give each another")


def _interfaces_of_access_points(network_: Network, source: YamlSource) -> None:
    """Refuse interfaces with the same name on two access points, which share a namespace."""
    taken: dict[str, str] = {}
    for name in network_.of_duty(ACCESS_POINT):
        for port in network_.nodes[name].interfaces:
            if port in taken:
                at = source.at("nodes", name, "interfaces", port, name=f"{name}/{port}")
                raise TopologyError(f"{at}: {taken[port]} has an interface of that name, too, and "
                                    "access points share a namespace; name them apart")
            taken[port] = name


def _check_roles(scenario: Scenario, source: YamlSource, inside: YamlSource) -> None:
    """Refuse a mobile node without agent or access point, and a visit at home."""
    nodes = scenario.network.nodes
    cells = scenario.network.of_duty(ACCESS_POINT)
    for name, node in nodes.items():
        if node.has_duty(STATION) or node.has_duty(ACCESS_POINT):
            _check_agent(node, scenario.network,
                         inside.at("nodes", name, "agent", name=f"{name}: agent"))
    at = source.at("mobile_node")
    if not nodes[scenario.mobile_node].has_duty(STATION):
        raise TopologyError(f"{at}: {scenario.mobile_node} is not a station; name one that is")
    if scenario.roams_to is None:
        return
    at = source.at("roams_to")
    if scenario.roams_to not in cells:
        raise TopologyError(f"{at}: {scenario.roams_to} is not an access point; name one that is")
    if scenario.roams_to == scenario.home:
        raise TopologyError(f"{at}: {scenario.roams_to} is at home; leave it out or name another "
                            "access point")
    if nodes[scenario.roams_to].ssid != nodes[scenario.home].ssid:
        raise TopologyError(
            f"{at}: {scenario.roams_to} has another ssid than {scenario.home}, so that a "
                            "station does not move there; give both one")


def _check_agent(node: Node, network_: Network, at: YamlPlace) -> None:
    """Refuse an agent that is no home agent, or that no access point has."""
    if node.agent not in network_.nodes:
        raise TopologyError(f"{at}: no node {node.agent!r} here; name a home agent that takes part")
    if not any(network_.nodes[cell].agent == node.agent for cell in network_.of_duty(ACCESS_POINT)):
        raise TopologyError(f"{at}: no access point has agent {node.agent!r}; add one")
    if not network_.nodes[node.agent].has_duty(HOME_AGENT):
        raise TopologyError(f"{at}: {node.agent} is no home agent; name one that is")


def _check_moves(scenario: Scenario, source: YamlSource) -> None:
    """Refuse settings without effect: the move does not happen, or is fixed."""
    if scenario.moves_on and scenario.roams_to is None:
        raise TopologyError(f"{source.at('moves_on')}: the mobile node does not move, so that it "
                            "would change nothing; leave it out, or add roams_to")
    if scenario.moves_on and scenario.foreign_agent is None:
        raise TopologyError(f"{source.at('moves_on')}: {scenario.roams_to} is in the mobile node's "
                            "own subnet, where it moves on in any case; leave it out")


def _check_places(scenario: Scenario, source: YamlSource) -> None:
    """Refuse a drive without start or end, or past nodes without a position."""
    places = {name: node.position for name, node in scenario.network.nodes.items() if node.position}
    drive = scenario.mobility
    if drive is None:
        return
    _check_position(drive.to, source.at("mobility", "to"))
    if not 0 <= drive.start_s < drive.stop_s:
        raise TopologyError(f"{source.at('mobility')}: from {drive.start_s} s to {drive.stop_s} s; "
                            "start at 0 or later and stop after that")
    # A signal's strength follows from the positions of both ends.
    for name in (scenario.mobile_node, *scenario.network.of_duty(ACCESS_POINT)):
        if name not in places:
            raise TopologyError(f"{source.at('mobility')}: {name} has no position; give it one in "
                                "the network")


def _check_position(position: list[float] | None, where: YamlPlace) -> None:
    if position is not None and not (len(position) in (2, 3) and all(map(math.isfinite, position))):
        raise TopologyError(f"{where}: {position}; write [x, y] or [x, y, z] in metres")


