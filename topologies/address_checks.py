"""Check the addresses of radios and interfaces, and of gateways, routes and served prefixes."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from topologies.errors import TopologyError
from topologies.model import HOME_AGENT, STATION, Network, Node
from topologies.source import YamlPlace, YamlSource

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
            _check_radio(interface.radio,
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
    """Refuse an address of two interfaces, and overlapping prefixes of two agents."""
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


def _check_radio(address: str, at: YamlPlace) -> None:
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
