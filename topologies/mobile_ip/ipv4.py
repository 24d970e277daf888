"""Encode and parse IPv4, UDP and ARP packets for the packet sockets of Mobile IP.

On the radio side, agents and mobile nodes send registration and discovery through packet sockets
(`link`). There are two reasons. A visitor's link-layer address must not be resolved by ARP (RFC
5944 section 4.6). No route, filter or IPsec policy of the node may block a registration. All
functions are pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from socket import inet_aton, inet_ntoa

from topologies.mobile_ip.packets import MessageError

ICMP = 1
UDP = 17
_IP = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_MORE_FRAGMENTS_AND_OFFSET = 0x3FFF


@dataclass(frozen=True)
class Ipv4Packet:
    """An IPv4 packet. Ports are 0 for protocols without ports."""

    protocol: int
    source: str
    destination: str
    ttl: int
    payload: bytes
    source_port: int = 0
    destination_port: int = 0

    def encode(self) -> bytes:
        """Return the bytes of the packet with checksums. A UDP payload gets its UDP header."""
        body = self.payload
        addresses = inet_aton(self.source) + inet_aton(self.destination)
        if self.protocol == UDP:
            length = _UDP.size + len(body)
            pseudo = addresses + struct.pack("!BBH", 0, UDP, length)
            ports = self.source_port, self.destination_port
            # 0 would mean "no checksum" (RFC 768).
            total = internet_checksum(pseudo + _UDP.pack(*ports, length, 0) + body) or 0xFFFF
            body = _UDP.pack(*ports, length, total) + body
        head = _IP.pack(0x45, 0, _IP.size + len(body), 0, 0, self.ttl, self.protocol, 0,
                        addresses[:4], addresses[4:])
        return head[:10] + struct.pack("!H", internet_checksum(head)) + head[12:] + body


def parse_packet(data: bytes, *, udp_sum: bool = True) -> Ipv4Packet:
    """Parse an unfragmented IPv4 packet.

    Args:
        data: The packet.
        udp_sum: Whether UDP's checksum has been filled in.

    Raises:
        MessageError: The data is anything else.
    """
    if len(data) < _IP.size or data[0] >> 4 != 4:
        raise MessageError("no IPv4 packet")
    size = (data[0] & 15) * 4
    _, _, length, _, fragment, ttl, protocol, _, source, destination = _IP.unpack_from(data)
    if size < _IP.size or not size <= length <= len(data):
        raise MessageError("IPv4 lengths contradict each other")
    if internet_checksum(data[:size]):
        raise MessageError("IPv4 checksum is wrong")
    if fragment & _MORE_FRAGMENTS_AND_OFFSET:
        raise MessageError("fragment")
    packet = Ipv4Packet(protocol, inet_ntoa(source), inet_ntoa(destination), ttl, data[size:length])
    return _parse_udp(packet, udp_sum=udp_sum) if protocol == UDP else packet


def _parse_udp(packet: Ipv4Packet, *, udp_sum: bool) -> Ipv4Packet:
    data = packet.payload
    if len(data) < _UDP.size:
        raise MessageError("UDP header is cut short")
    source_port, destination_port, length, total = _UDP.unpack_from(data)
    if not _UDP.size <= length <= len(data):
        raise MessageError("UDP lengths contradict each other")
    pseudo = inet_aton(packet.source) + inet_aton(packet.destination)
    pseudo += struct.pack("!BBH", 0, UDP, length)
    # RFC 5944 sections 3.6.2.1, 3.7.2.1, 3.8.2.1: a wrong sum other than zero is silently
    # discarded.
    if udp_sum and total and internet_checksum(pseudo + data[:length]):
        raise MessageError("UDP checksum is wrong")
    return Ipv4Packet(UDP, packet.source, packet.destination, packet.ttl, data[_UDP.size:length],
                      source_port, destination_port)


def internet_checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071).

    The result is 0 for octets that include their checksum.
    """
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def gratuitous_arp(address: str, link_address: bytes) -> bytes:
    """Return a gratuitous ARP request, which claims an address (RFC 5944 section 4.6)."""
    own = inet_aton(address)
    return _ARP.pack(1, 0x0800, 6, 4, 1, link_address, own, bytes(6), own)


def multicast_link_address(group: str) -> bytes:
    """Return the Ethernet address of an IPv4 multicast group or of the broadcast address.

    RFC 1112 section 6.4.
    """
    packed = inet_aton(group)
    if group == "255.255.255.255":
        return b"\xff" * 6
    return b"\x01\x00\x5e" + bytes((packed[1] & 0x7F,)) + packed[2:]
