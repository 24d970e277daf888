"""Sockets: the radio side as packets with link-layer addresses, the wired side as UDP."""

from __future__ import annotations

import socket
import struct
import sys
from array import array

from topologies.mobile_ip import ipv4
from topologies.mobile_ip.effects import Datagram, Endpoint, SendMessage
from topologies.mobile_ip.ipv4 import ICMP, UDP, Ipv4Packet
from topologies.mobile_ip.packets import PORT, MessageError

_ETH_IP, _ETH_ARP = 0x0800, 0x0806
_SO_ATTACH_FILTER = 26
_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _PACKET_MR_MULTICAST, _PACKET_AUXDATA = 263, 1, 0, 8
_CHECKSUM_NOT_READY = 8
_IP_PKTINFO = 8
_PKTINFO = struct.Struct("=i4s4s")
_OTHER_HOST = 3
_LARGEST = 65536
_BROADCAST = b"\xff" * 6
# RFC 5944 section 2.3, RFC 1256: discovery never leaves the link.
_DISCOVERY_TTL = 1
# RFC 3024 section 4.1.1: by this a foreign agent knows its neighbours.
_REGISTRATION_TTL = 255


class Radio:
    """Discovery and registration on one interface; everything else never wakes the daemon."""

    def __init__(self, interface: str, icmp_type: int, udp_port: int,
                 group: str | None = None) -> None:
        self.interface = interface
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        _attach_filter(self._socket, _wanted(icmp_type, udp_port))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.bind((interface, _ETH_IP))
        self._socket.settimeout(0)
        if group is not None:
            # On the device only: joining by IP would put IGMP reports on the air.
            link = ipv4.multicast_link_address(group)
            member = struct.pack("=iHH8s", socket.if_nametoindex(interface),
                                 _PACKET_MR_MULTICAST, len(link), link)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, member)

    @property
    def link_address(self) -> bytes:
        """The interface's own."""
        return bytes(self._socket.getsockname()[4])

    def fileno(self) -> int:
        """For waiting."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def receive(self) -> tuple[Ipv4Packet, bytes] | None:
        """A packet and who sent it on the link; None if there is nothing of use."""
        try:
            data, ancillary, _, sender = self._socket.recvmsg(_LARGEST, 128)
            if sender[2] == _OTHER_HOST:
                return None
            # A virtual wire leaves UDP's checksum to hardware that is not there.
            status = next((int.from_bytes(value[:4], sys.byteorder)
                           for level, _, value in ancillary if level == _SOL_PACKET), 0)
            return ipv4.parse(data, udp_sum=not status & _CHECKSUM_NOT_READY), sender[4]
        except (OSError, MessageError):  # nothing more, or the interface has just gone down
            return None

    def send_icmp(self, message: bytes, source: str, destination: str, link: bytes) -> None:
        """Send a discovery message. Raises OSError."""
        self._send(Ipv4Packet(ICMP, source, destination, _DISCOVERY_TTL, message), link)

    def send_udp(self, effect: SendMessage, source_port: int) -> None:
        """Send a registration message to a neighbour. Raises OSError."""
        assert effect.to.link is not None
        self._send(Ipv4Packet(UDP, effect.source, effect.to.address, _REGISTRATION_TTL,
                              effect.payload, source_port, effect.to.port), effect.to.link)

    def claim(self, address: str, link: bytes) -> None:
        """Broadcast that an address is at a link-layer address. Raises OSError."""
        self._socket.sendto(ipv4.gratuitous_arp(address, link),
                            (self.interface, _ETH_ARP, 0, 0, _BROADCAST))

    def _send(self, packet: Ipv4Packet, link: bytes) -> None:
        self._socket.sendto(packet.encode(), (self.interface, _ETH_IP, 0, 0, link))


class UdpRegistration:
    """Registration over the node's ordinary UDP, from every side but the radio's.

    The port is taken on all interfaces, also to keep the kernel from answering what came to the
    radio side with "port unreachable".
    """

    def __init__(self, port: int = PORT, ignored_interface: str | None = None) -> None:
        self._ignored = socket.if_nametoindex(ignored_interface) if ignored_interface else 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        self._socket.bind(("0.0.0.0", port))  # noqa: S104 - in a namespace of its own
        self._socket.settimeout(0)

    @property
    def port(self) -> int:
        """The local port."""
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        """For waiting."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def receive(self) -> Datagram | None:
        """A datagram and the address it came to; None if there is nothing of use."""
        try:
            data, ancillary, _, (address, port) = self._socket.recvmsg(_LARGEST, 128)
        except BlockingIOError:
            return None
        interface, _, destination = next(_PKTINFO.unpack(value) for _, kind, value in ancillary
                                         if kind == _IP_PKTINFO)
        if interface == self._ignored:
            return None
        return Datagram(data, Endpoint(address, port), socket.inet_ntoa(destination))

    def send(self, effect: SendMessage) -> None:
        """Send a message from one of the node's addresses. Raises OSError."""
        info = _PKTINFO.pack(0, socket.inet_aton(effect.source), bytes(4))
        self._socket.sendmsg([effect.payload], [(socket.IPPROTO_IP, _IP_PKTINFO, info)], 0,
                             (effect.to.address, effect.to.port))


def _wanted(icmp_type: int, udp_port: int) -> list[tuple[int, int, int, int]]:
    """A classic BPF program: this ICMP type, or unfragmented UDP to this port."""
    return [
        (0x30, 0, 0, 9),              # protocol
        (0x15, 0, 3, ICMP),           # ICMP, or on to UDP
        (0xB1, 0, 0, 0),              # length of the IP header
        (0x50, 0, 0, 0),              # type
        (0x15, 6, 7, icmp_type),
        (0x15, 0, 6, UDP),
        (0x28, 0, 0, 6),              # fragment offset
        (0x45, 4, 0, 0x1FFF),
        (0xB1, 0, 0, 0),
        (0x48, 0, 0, 2),              # destination port
        (0x15, 0, 1, udp_port),
        (0x06, 0, 0, _LARGEST),       # take it
        (0x06, 0, 0, 0),              # leave it
    ]


def _attach_filter(target: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    address, _ = (buffer := array("B", code)).buffer_info()
    # struct sock_fprog, with the compiler's padding between its two members.
    target.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER,
                      struct.pack("@HP", len(program), address))
    del buffer  # the kernel has its own copy now
