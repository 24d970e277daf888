"""Derive the IPv6 addresses of a network from its IPv4 addresses.

A network with `ip: 6` has both. Each IPv4 subnet gets an IPv6 subnet with unique local addresses
(RFC 4193): the prefix `PREFIX`, then the 32 bits of the IPv4 subnet. So 10.1.0.0/24 becomes
fd71:6f70:a01::/64, and the host 10.1.0.1 in it fd71:6f70:a01::1. Stations take the addresses that
SLAAC makes of their MAC addresses. Standard library only: the guest needs it, too.
"""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network, IPv6Address

#: First 32 bits of all addresses. The last 24 of them are "qop" in ASCII.
PREFIX = IPv6Address("fd71:6f70::")
_PREFIX_BITS, _SUBNET_BITS = 32, 64
#: Least mask of a host's number in its subnet, for IPv4 addresses that are their own subnet.
_LEAST_HOST_MASK = 0xFFFF
#: Bit of a MAC address that EUI-64 inverts (RFC 4291, appendix A).
_UNIVERSAL = 0x02


def ipv6_prefix(prefix: str) -> str:
    """Return the IPv6 prefix for an IPv4 prefix, ::/0 for 0.0.0.0/0."""
    network = IPv4Network(prefix)
    if not network.prefixlen:
        return "::/0"
    return f"{_place_in(network, 0)}/{_PREFIX_BITS + network.prefixlen}"


def ipv6_interface(address: str) -> str:
    """Return the IPv6 address with its prefix length for an IPv4 address with its own."""
    own = IPv4Interface(address)
    host = int(own.ip) & max(int(own.hostmask), _LEAST_HOST_MASK * (own.network.prefixlen > 30))
    return f"{_place_in(own.network, host)}/{_SUBNET_BITS}"


def ipv6_address(address: str) -> str:
    """Return the IPv6 address for an IPv4 address with its prefix length."""
    return ipv6_interface(address).partition("/")[0]


def ipv6_subnet(address: str) -> str:
    """Return the first address of the IPv6 subnet for an IPv4 address with its prefix length."""
    return str(_place_in(IPv4Interface(address).network, 0))


def slaac_address(mac: str, subnet: str) -> str:
    """Return the IPv6 address that SLAAC makes of a MAC address (RFC 4862, RFC 4291).

    Args:
        mac: The MAC address.
        subnet: An IPv4 address of the subnet, with its prefix length.
    """
    octets = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes((octets[0] ^ _UNIVERSAL,)) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return str(_place_in(IPv4Interface(subnet).network, int.from_bytes(identifier, "big")))


def _place_in(network: IPv4Network, host: int) -> IPv6Address:
    return IPv6Address(int(PREFIX) | int(network.network_address) << _SUBNET_BITS | host)
