"""Refuse networks and scenarios that have a valid format but cannot work.

A network has nodes and links. A scenario says which mobile node talks to which peer.
`check_network` and `check_scenario` take what was read from YAML files. They raise `TopologyError`
with one line for the user: the place in the file, what is wrong, and what to do. Checked are
addresses, nodes, their duties (such as access point) and roles. `link_checks` has the checks of
links and radio media.

Errors in single values are reported before errors in the whole. `topologies.model` lists the terms.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from topologies import link_checks
from topologies.errors import TopologyError
from topologies.link_checks import ID, check_device, check_medium, check_wire
from topologies.model import (
    ACCESS_POINT,
    GATEWAY,
    HOME_AGENT,
    IPV4,
    IPV6,
    RADIUS_SERVER,
    STATION,
    Interface,
    Network,
    Node,
    Roaming,
    Scenario,
)
from topologies.yaml_reader import YamlPlace, YamlSource

# --- Addresses of radios and interfaces, gateways, routes and served prefixes ---

# Captures show MAC addresses in lower case.
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NO_MAC = "00:00:00:00:00:00"
#: Longest prefix length with a network address and a broadcast address.
_LAST_WITH_BROADCAST = 30


def check_node_addresses(name: str, node: Node, place: YamlSource) -> None:
    """Refuse impossible addresses of a node, and gateways and routes out of its reach."""
    subnets = []
    for port, interface in node.interfaces.items():
        if interface.radio is not None:
            _check_radio_address(interface.radio,
                                 place.at("interfaces", port, "radio", name=f"{name}/{port}"))
        if interface.address is not None:
            at = place.at("interfaces", port, "address", name=f"{name}/{port}")
            subnets.append(_parse_interface(interface.address, at).network)
    if node.gateway is not None:
        at = place.at("gateway", name=f"{name}: gateway")
        gateway = _parse_host(node.gateway, at)
        if node.gateway in [interface.ip for interface in node.interfaces.values()]:
            raise TopologyError(f"{at}: {node.gateway} is an address of the node itself; write "
                                "another node's")
        # A station reaches its agent over the air, whatever its own prefix.
        if not node.has_duty(STATION) and not any(gateway in subnet for subnet in subnets):
            raise TopologyError(f"{at}: {node.gateway} is in no subnet of the node; write an "
                                "address that is")
    for prefix, hop in node.routes.items():
        at = place.at("routes", prefix, name=f"{name}: routes: {prefix}")
        _parse_prefix(prefix, at)
        reached = _parse_host(hop, at)
        if hop != node.gateway and not any(reached in subnet for subnet in subnets):
            raise TopologyError(f"{at}: {hop} is in no subnet of the node; write an address that "
                                f"is")
    if node.serves is not None:
        _parse_prefix(node.serves, place.at("serves", name=f"{name}: serves"))


def check_network_addresses(network: Network, source: YamlSource) -> None:
    """Refuse an address on two interfaces, and overlapping prefixes of two home agents."""
    owners: dict[str, str] = {}
    for name, node in network.nodes.items():
        for port, interface in node.interfaces.items():
            if not interface.ip:
                continue
            if interface.ip in owners:
                at = source.at("nodes", name, "interfaces", port, "address", name=f"{name}/{port}")
                raise TopologyError(f"{at}: {owners[interface.ip]} has the address {interface.ip}, "
                                    "too; give each another")
            owners[interface.ip] = f"{name}/{port}"
    served: list[tuple[str, IPv4Network]] = []
    for name in network.of_duty(HOME_AGENT):
        if prefix := network.nodes[name].serves:
            here = IPv4Network(prefix)
            at = source.at("nodes", name, "serves", name=f"{name}: serves")
            for other, there in served:
                if here.overlaps(there):
                    raise TopologyError(f"{at}: {prefix} is in part what {other} serves ({there}); "
                                        "give each a prefix of its own")
            served.append((name, here))


def _check_radio_address(address: str, at: YamlPlace) -> None:
    if not _MAC.fullmatch(address):
        raise TopologyError(f"{at}: {address!r}; write a radio's MAC address in lower case, "
                            "02:00:00:00:00:00")
    if address == _NO_MAC or int(address[:2], 16) & 1:
        what = "no address" if address == _NO_MAC else "a group's address"
        raise TopologyError(f"{at}: {address} is {what}, which no radio has; write one with an "
                            "even first octet, as 02:00:00:00:a2:00")


def _parse_interface(address: str, at: YamlPlace) -> IPv4Interface:
    if "/" not in address:
        raise TopologyError(f"{at}: {address} has no prefix length; write ADDRESS/PREFIX, as "
                            "10.1.0.1/24")
    try:
        interface = IPv4Interface(address)
    except ValueError:
        raise TopologyError(f"{at}: {address} is no IPv4 address with its prefix length; write "
                            "ADDRESS/PREFIX, as 10.1.0.1/24") from None
    _refuse_special(interface.ip, at)
    subnet = interface.network
    if subnet.prefixlen == 0:
        raise TopologyError(f"{at}: {address} has every address in its subnet; write a longer "
                            "prefix")
    if subnet.prefixlen <= _LAST_WITH_BROADCAST:
        for what, special in (("network", subnet.network_address),
                              ("broadcast", subnet.broadcast_address)):
            if interface.ip == special:
                raise TopologyError(f"{at}: {interface.ip} is the {what} address of {subnet}; "
                                    "write a host's")
    return interface


def _parse_host(address: str, at: YamlPlace) -> IPv4Address:
    try:
        host = IPv4Address(address)
    except ValueError:
        raise TopologyError(f"{at}: {address!r} is no IPv4 address; write one, as 10.1.0.1") \
            from None
    _refuse_special(host, at)
    return host


def _parse_prefix(prefix: str, at: YamlPlace) -> IPv4Network:
    try:
        # A prefix without a length would be a single address.
        return IPv4Network(prefix if "/" in prefix else "")
    except ValueError:
        raise TopologyError(f"{at}: {prefix!r} is no IPv4 prefix; write its first address and its "
                            "length, as 10.1.0.0/16") from None


def _refuse_special(address: IPv4Address, at: YamlPlace) -> None:
    for is_special, what in (
            (address.is_unspecified, "no host's"), (address.is_loopback, "a loopback address"),
            (address.is_multicast, "a multicast address"),
            (address == IPv4Address("255.255.255.255"), "the broadcast address"),
            (address.is_reserved, "a reserved address"), (address in IPv4Network("0.0.0.0/8"),
                                                          "an address of no network")):
        if is_special:
            raise TopologyError(f"{at}: {address} is {what}; write a host's, as 10.1.0.1")


__all__ = [
    "TopologyError",
    "check_complete_network",
    "check_device",
    "check_medium",
    "check_network",
    "check_scenario",
    "check_wire",
]

# --- Networks and scenarios: nodes, duties and roles ---

#: Method of background scans, and thresholds of the signal from any to none that is received.
BGSCAN, THRESHOLDS_DBM = "simple", (-100, -1)
#: Seconds without packets after which routers delete a mapping of UDP.
UDP_TIMEOUTS_S = (5, 3600)

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
#: Channels of the 5 and 6 GHz bands. In the latter, those below are numbers of other bands, too.
FIVE_GHZ_CHANNELS = (*range(36, 65, 4), *range(100, 145, 4), *range(149, 178, 4))
SIX_GHZ_CHANNELS = tuple(range(17, 234, 4))
#: Media of qop in these bands. Their files name the channels.
MEDIA_IN_5_GHZ = ("802.11n-ht40", "802.11ac", "802.11ax")
MEDIA_IN_6_GHZ = ("802.11ax-6ghz",)
_SSID_BYTES = 32
#: Every link takes IPv6 packets of this length (RFC 8200, 5).
_LEAST_IPV6_BYTES = 1280


def check_network(network: Network, place: YamlSource | Path | str) -> None:
    """Refuse impossible links, addresses outside their subnets and radios without an agent.

    An agent is a station's router at home (Mobile IP).

    Args:
        network: The network. It may be a part of another network, so links may lead to nodes that
            are not in it.
        place: The file, or a text that says where the network comes from.

    Raises:
        TopologyError: A check fails.
    """
    source = YamlSource.to_source(place)
    if network.ip not in (IPV4, IPV6):
        raise TopologyError(f"{source.at('ip')}: {network.ip}; write {IPV4} or {IPV6}")
    for name, node in network.nodes.items():
        _check_node(name, node, source)
    link_checks.check_links(network, source)
    check_network_addresses(network, source)
    _check_radios(network, source)
    _interfaces_of_access_points(network, source)
    link_checks.check_loops(network, source)
    link_checks.check_subnets(network, source)


def check_complete_network(network: Network, place: YamlSource | Path | str) -> None:
    """Refuse all that `check_network` refuses, and mistakes that show only in a whole network.

    These are gateways that no neighbour has, missing services, and interfaces without address,
    radio, bridge and link. `network` must be whole: a part of a network has links to nodes that are
    not in it.
    """
    source = YamlSource.to_source(place)
    check_network(network, source)
    link_checks.check_gateways(network, source)
    _check_services(network, source)
    for name, node in network.nodes.items():
        for port, interface in node.interfaces.items():
            bridges = [other.bridge for other in node.interfaces.values()]
            if interface == Interface() and port not in bridges and not any(
                    f"{name}/{port}" in link.ends for link in network.links):
                raise TopologyError(f"{source.at('nodes', name, 'interfaces', port)}: has neither "
                                    "address, radio, bridge nor link; leave it out")


def _check_services(network: Network, source: YamlSource) -> None:
    link_checks.check_leases(network, source)
    for name in network.of_duty(ACCESS_POINT):
        _check_radius_server(name, network, source)


def check_scenario(scenario: Scenario, place: YamlSource | Path | str) -> None:
    """Refuse a scenario with unknown names, impossible roles, or mistakes in its network."""
    source, network_ = YamlSource.to_source(place), scenario.network
    if not ID.fullmatch(scenario.id):
        raise TopologyError(
            f"{source.at('id')}: {scenario.id!r}; write up to 40 letters, digits, - and _")
    for role in ("mobile_node", "peer", "roams_to"):
        name = getattr(scenario, role)
        if name is not None and name not in network_.nodes:
            raise TopologyError(f"{source.at(role)}: no node {name!r} in network {network_.name}; "
                                f"it has {', '.join(network_.nodes) or 'none'}")
    inside = source.part_at("network")
    _check_roles(scenario, source, inside)
    check_network(network_, inside)
    _check_services(network_, inside)
    _check_places(scenario, source)
    _check_moves(scenario, source)
    _check_drive(scenario, source)
    if scenario.peer == scenario.mobile_node:
        raise TopologyError(f"{source.at('peer')}: {scenario.peer} is the mobile node itself; name "
                            "another node")
    if not any(i.address for i in network_.nodes[scenario.peer].interfaces.values()):
        raise TopologyError(f"{source.at('peer')}: {scenario.peer} has no address; give it one")
    link_checks.check_reach(scenario, source)
    if network_.ip == IPV6:
        _check_ipv6(scenario, inside)


def _check_ipv6(scenario: Scenario, inside: YamlSource) -> None:
    """Refuse `ip: 6` with moves to another subnet, DHCP and drives, which are measured by IPv4."""
    narrow = next((link for link in scenario.network.links
                   if link.mtu_bytes < _LEAST_IPV6_BYTES), None)
    leased = [name for name, node in scenario.network.nodes.items() if node.uses_dhcp]
    why = (f"Mobile IPv4 cannot forward IPv6 packets to another subnet, that of "
           f"{scenario.roams_to}; leave ip out, or name an access point of its own subnet"
           if scenario.foreign_agent is not None else
           f"{leased[0]} gets its address by DHCP for IPv4, and by router advertisements for IPv6; "
           "leave dhcp out, or ip" if leased else
           "a drive is measured by IPv4; leave ip out" if scenario.is_drive else
           f"the link {' to '.join(narrow.ends)} takes {narrow.mtu_bytes} bytes, and IPv6 needs "
           f"{_LEAST_IPV6_BYTES}; write more there, or leave ip out" if narrow else "")
    if why:
        raise TopologyError(f"{inside.at('ip', name='ip')}: {why}")


def _check_node(name: str, node: Node, source: YamlSource) -> None:
    """Refuse invalid names of a node, fields that its duties lack, and addresses out of reach."""
    place = source.part_at("nodes", name)
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
    check_node_addresses(name, node, place)
    _check_duty_fields(name, node, place)
    _check_position(node.position, place.at("position", name=f"{name}: position"))
    if node.device is not None:
        check_device(node.device, place.part_at("device"))


def _check_interface(node_name: str, port: str, interface: Interface, node: Node,
                     place: YamlSource) -> None:
    where = place.at("interfaces", port, name=f"{node_name}/{port}")
    if not _INTERFACE.fullmatch(port):
        raise TopologyError(f"{where}: no name that Linux takes; write up to 15 letters, digits, "
                            "., - and _")
    if port in _TAKEN_INTERFACES:
        raise TopologyError(f"{where}: Linux has an interface or a setting of that name; write "
                            "another")
    if interface.dhcp and not (interface.radio and node.has_duty(STATION)):
        raise TopologyError(f"{place.at('interfaces', port, 'dhcp', name=f'{node_name}/{port}')}: "
                            "has an effect on a station's radio alone; leave it out")
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


def _advise_medium(channel: int) -> str:
    """Return advice on the media that put access points on channels like one in 5 or 6 GHz."""
    if channel not in FIVE_GHZ_CHANNELS and channel not in SIX_GHZ_CHANNELS:
        return ""
    band, media = (5, MEDIA_IN_5_GHZ) if channel in FIVE_GHZ_CHANNELS else (6, MEDIA_IN_6_GHZ)
    *others, last = media
    names = f"{', '.join(others)} or {last}" if others else last
    return (f": a network has channels of 2.4 GHz, and a medium of {band} GHz replaces them by its "
            f"own (--medium {names})")


def _check_duty_fields(name: str, node: Node, place: YamlSource) -> None:
    """Refuse fields that a node's duties do not allow, and missing fields that they require."""
    if node.has_duty(ACCESS_POINT):
        _check_ssid(name, node, place)
        at = place.at("channel", name=f"{name}: channel")
        if node.channel is None:
            raise TopologyError(f"{at}: is missing; write {FIRST_CHANNEL} to {LAST_CHANNEL}")
        if not FIRST_CHANNEL <= node.channel <= LAST_CHANNEL:
            raise TopologyError(f"{at}: {node.channel} is no channel of the 2.4 GHz band that an "
                                f"access point may open; write {FIRST_CHANNEL} to {LAST_CHANNEL}"
                                + _advise_medium(node.channel))
        bridge = node.radio_bridge
        if not node.interfaces[bridge].address:
            raise TopologyError(f"{place.at('interfaces', bridge, name=f'{name}/{bridge}')}: "
                                "an access point's bridge has no address; give it one")
    if node.has_duty(STATION):
        _check_station(name, node, place)
    _check_roaming(node.roaming, place.part_at("roaming"))
    _check_nat(name, node, place.part_at("nat"))
    if node.has_duty(HOME_AGENT) and node.has_duty(GATEWAY):
        raise TopologyError(f"{place.at('duties', name=f'{name}: duties')}: a {HOME_AGENT} is the "
                            f"gateway of its subnet; leave {GATEWAY} out")
    for field, duty in (("ssid", ACCESS_POINT), ("channel", ACCESS_POINT), ("serves", HOME_AGENT),
                        ("radius_server", ACCESS_POINT), ("second_radius_server", ACCESS_POINT),
                        ("is_down", RADIUS_SERVER), ("roaming", STATION)):
        if getattr(node, field) not in (None, False) and not node.has_duty(duty):
            raise TopologyError(f"{place.at(field, name=f'{name}: {field}')}: has an effect on "
                                f"nodes of the duty {duty} alone; leave it out")
    if node.position is not None and not (node.has_duty(STATION) or node.has_duty(ACCESS_POINT)):
        raise TopologyError(f"{place.at('position', name=f'{name}: position')}: has an effect on "
                            "nodes with a radio alone; leave it out")


def _check_roaming(roaming: Roaming | None, place: YamlSource) -> None:
    """Refuse background scans that are not measured, or that make no sense."""
    if roaming is None:
        return
    if roaming.bgscan != BGSCAN:
        raise TopologyError(f"{place.at('bgscan')}: {roaming.bgscan!r} is not measured here; write "
                            f"{BGSCAN}")
    least, most = THRESHOLDS_DBM
    if not least <= roaming.threshold_dbm <= most:
        raise TopologyError(f"{place.at('threshold_dbm')}: {roaming.threshold_dbm}; write a signal "
                            f"in dBm, {least} to {most}")
    if not 1 <= roaming.short_s <= roaming.long_s:
        raise TopologyError(f"{place.at('short_s')}: scans every {roaming.short_s} s below the "
                            f"threshold and every {roaming.long_s} s above; write 1 or more, and "
                            "no more than long_s")


def _check_nat(name: str, node: Node, place: YamlSource) -> None:
    """Refuse address translation by a node that is no gateway, or without an outside."""
    if node.nat is None:
        return
    if not ((node.has_duty(HOME_AGENT) or node.has_duty(GATEWAY)) and node.forwarding):
        raise TopologyError(f"{place.at(name=f'{name}: nat')}: has an effect on a gateway of a "
                            f"subnet alone; give {name} the duty {GATEWAY} and forwarding: true, "
                            "or leave it out")
    at = place.at("outside", name=f"{name}: nat: outside")
    outside = node.interfaces.get(node.nat.outside)
    if outside is None or not outside.address:
        raise TopologyError(f"{at}: {name} has no interface {node.nat.outside!r} with an address; "
                            "name the one towards other networks")
    if node.gateway is None or IPv4Address(node.gateway) not in IPv4Interface(
            outside.address).network:
        raise TopologyError(f"{at}: the gateway of {name} is not behind {node.nat.outside}, so "
                            "that no packet leaves by it; name the interface towards the gateway")
    least, most = UDP_TIMEOUTS_S
    if not least <= node.nat.udp_timeout_s <= most:
        raise TopologyError(f"{place.at('udp_timeout_s', name=f'{name}: nat: udp_timeout_s')}: "
                            f"{node.nat.udp_timeout_s}; write seconds, {least} to {most}")


def _check_station(name: str, node: Node, place: YamlSource) -> None:
    """Refuse a station without gateway or address, and routes that DHCP would not set."""
    if not node.gateway:
        raise TopologyError(f"{place.at('gateway', name=f'{name}: gateway')}: is missing; a "
                            "station reaches all others by it")
    if not node.interfaces[node.radio_interface].address:
        raise TopologyError(f"{place.at('interfaces', node.radio_interface)}: a station's radio "
                            "has no address; give it one" + (
                                ", which the DHCP server reserves for it" if node.uses_dhcp
                                else ""))
    if node.routes and node.uses_dhcp:
        raise TopologyError(f"{place.at('routes', name=f'{name}: routes')}: the DHCP server leases "
                            "an address and the gateway alone; leave routes out, or dhcp")


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
    """Refuse interfaces with the same name on two access points, which are in one namespace."""
    taken: dict[str, str] = {}
    for name in network_.of_duty(ACCESS_POINT):
        for port in network_.nodes[name].interfaces:
            if port in taken:
                at = source.at("nodes", name, "interfaces", port, name=f"{name}/{port}")
                raise TopologyError(f"{at}: {taken[port]} has an interface of that name, too, and "
                                    "access points share a namespace; name them apart")
            taken[port] = name


def _check_roles(scenario: Scenario, source: YamlSource, inside: YamlSource) -> None:
    """Refuse a mobile node without home agent or access point, and a visit to its own subnet."""
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
    _check_visit(scenario, at)
    if nodes[scenario.roams_to].ssid != nodes[scenario.home].ssid:
        raise TopologyError(
            f"{at}: {scenario.roams_to} has another ssid than {scenario.home}, so that a station "
            "does not move there; give both one")


def _check_visit(scenario: Scenario, at: YamlPlace) -> None:
    """Refuse a move to another subnet where no home agent forwards, or with a leased address."""
    if scenario.foreign_agent is None:
        return
    nodes = scenario.network.nodes
    for agent in (scenario.agent, scenario.foreign_agent):
        # Behind a router with NAT a tunnel follows the node, without Mobile IP.
        if not nodes[agent].has_duty(HOME_AGENT) and nodes[agent].nat is None:
            raise TopologyError(f"{at}: {scenario.roams_to} is in another subnet, and {agent} is "
                                f"no {HOME_AGENT}, so that no packet would follow the mobile node; "
                                f"give both subnets one, or name an access point of its own subnet")
    if scenario.uses_dhcp:
        raise TopologyError(f"{at}: {scenario.roams_to} is in another subnet, and the address of "
                            f"{scenario.mobile_node} is leased in its own; leave dhcp out, or name "
                            "an access point of its own subnet")


def _check_agent(node: Node, network_: Network, at: YamlPlace) -> None:
    """Refuse an agent that is no home agent or gateway, or that no access point is connected to."""
    if node.agent not in network_.nodes:
        raise TopologyError(f"{at}: no node {node.agent!r} here; name a home agent or gateway that "
                            "takes part")
    if not any(network_.nodes[cell].agent == node.agent for cell in network_.of_duty(ACCESS_POINT)):
        raise TopologyError(f"{at}: no access point has agent {node.agent!r}; add one")
    if node.agent not in network_.subnet_gateways:
        raise TopologyError(f"{at}: {node.agent} is neither {HOME_AGENT} nor {GATEWAY}; name one "
                            "that is")


def _check_radius_server(name: str, network_: Network, source: YamlSource) -> None:
    """Refuse the RADIUS servers of an access point if they cannot serve it.

    A named node may have no RADIUS server or no address, both servers may be the same node, or all
    servers may be down.
    """
    node = network_.nodes[name]
    for field in ("radius_server", "second_radius_server"):
        server = getattr(node, field)
        at = source.at("nodes", name, field, name=f"{name}: {field}")
        if server is not None:
            _check_server_node(name, server, network_, at)
    at = source.at("nodes", name, "second_radius_server", name=f"{name}: second_radius_server")
    if node.second_radius_server and node.second_radius_server == node.radius_server:
        raise TopologyError(f"{at}: is the first one, too; name another node")
    if node.second_radius_server and node.radius_server is None:
        raise TopologyError(f"{at}: there is no radius_server before it; add one")
    servers = network_.radius_servers_of(name) if node.radius_server else []
    if servers and all(network_.nodes[server].is_down for server in servers):
        raise TopologyError(f"{source.at('nodes', name, 'radius_server', name=name)}: none of its "
                            "RADIUS servers runs; leave is_down out of one, or add "
                            "second_radius_server")


def _check_server_node(name: str, server: str, network_: Network, at: YamlPlace) -> None:
    """Refuse a node as RADIUS server if it is not one, or if an access point cannot address it."""
    node = network_.nodes[name]
    if server not in network_.nodes:
        raise TopologyError(f"{at}: no node {server!r} here; name one that takes part")
    if not network_.nodes[server].has_duty(RADIUS_SERVER):
        raise TopologyError(f"{at}: {server} has no duty {RADIUS_SERVER}; add it there, or name "
                            "another node")
    if not any(interface.address for interface in network_.nodes[server].interfaces.values()):
        raise TopologyError(f"{at}: {server} has no address; give it one")
    subnet = IPv4Interface(node.interfaces[node.radio_bridge].address or "").network
    if node.gateway is None and IPv4Address(network_.nodes[server].address) not in subnet:
        raise TopologyError(f"{at}: {server} is in another subnet, and {name} has no gateway; give "
                            f"{name} one")


def _check_moves(scenario: Scenario, source: YamlSource) -> None:
    """Refuse `moves_on` in a scenario in which it has no effect.

    It has none without a move, and none within a subnet, where the mobile node always moves on.
    """
    if scenario.moves_on and scenario.roams_to is None:
        raise TopologyError(f"{source.at('moves_on')}: the mobile node does not move, so that it "
                            "would change nothing; leave it out, or add roams_to")
    if scenario.moves_on and scenario.foreign_agent is None:
        raise TopologyError(f"{source.at('moves_on')}: {scenario.roams_to} is in the mobile node's "
                            "own subnet, where it moves on in any case; leave it out")
    for name, node in scenario.network.nodes.items():
        if node.nat is not None and not (scenario.moves_on and name == scenario.foreign_agent):
            at = source.part_at("network").at("nodes", name, "nat", name=f"{name}: nat")
            raise TopologyError(f"{at}: has an effect on the subnet that the mobile node moves to; "
                                f"leave it out, or let {scenario.mobile_node} move there with "
                                "roams_to and moves_on")


def _check_drive(scenario: Scenario, source: YamlSource) -> None:
    """Refuse a station that roams by itself, and a scenario that cannot make it do so."""
    if not scenario.is_drive:
        return
    at = source.at("roaming")
    if scenario.mobility is None:
        raise TopologyError(f"{at}: {scenario.mobile_node} does not move, so that its signal stays "
                            "the same; add mobility")
    if scenario.roams_to is not None:
        raise TopologyError(f"{source.at('roams_to')}: the signal decides where "
                            f"{scenario.mobile_node} roams to, by its roaming; leave one of them "
                            "out")
    nodes = scenario.network.nodes
    cells = {name: nodes[name] for name in scenario.network.of_duty(ACCESS_POINT)}
    if len(cells) < 2:
        raise TopologyError(f"{at}: there is one access point, so that no other can be better; add "
                            "another")
    home = cells[scenario.home]
    for name, cell in cells.items():
        if (cell.ssid, cell.agent) != (home.ssid, home.agent):
            raise TopologyError(f"{at}: {name} has another ssid or agent than {scenario.home}, so "
                                "that the station's address does not work there; give both one")


def _check_places(scenario: Scenario, source: YamlSource) -> None:
    """Refuse a mobile node's drive without start or end, or past nodes without a position."""
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
