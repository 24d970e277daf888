"""Send and receive the messages of Mobile IP: by packet sockets on radios, by UDP on wires.

`Radio` sends and receives agent discovery and registration on one radio interface, with link-layer
addresses. `UdpRegistration` sends and receives registration messages on the other interfaces. The
programs `agent` and `node` use them.
"""

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
# RFC 3024 section 4.1.1: a foreign agent recognises its neighbours by this TTL.
_REGISTRATION_TTL = 255


class Radio:
    """A packet socket for agent discovery and registration on one interface.

    A filter drops all other packets, so they never wake the daemon.
    """

    def __init__(self, interface: str, icmp_type: int, udp_port: int,
                 group: str | None = None) -> None:
        self.interface = interface
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        _attach_filter(self._socket, _filter_program(icmp_type, udp_port))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.bind((interface, _ETH_IP))
        self._socket.settimeout(0)
        if group is not None:
            # Join on the device only: joining by IP would send IGMP reports over the air.
            link = ipv4.multicast_link_address(group)
            member = struct.pack("=iHH8s", socket.if_nametoindex(interface),
                                 _PACKET_MR_MULTICAST, len(link), link)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, member)

    @property
    def link_address(self) -> bytes:
        """Return the interface's own link-layer address."""
        return bytes(self._socket.getsockname()[4])

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def receive(self) -> tuple[Ipv4Packet, bytes] | None:
        """Return a received packet and its sender's link-layer address.

        The result is None if there is no valid packet.
        """
        try:
            data, ancillary, _, sender = self._socket.recvmsg(_LARGEST, 128)
            if sender[2] == _OTHER_HOST:
                return None
            # A virtual wire leaves UDP's checksum to hardware that does not exist.
            status = next((int.from_bytes(value[:4], sys.byteorder)
                           for level, _, value in ancillary if level == _SOL_PACKET), 0)
            return ipv4.parse_packet(data, udp_sum=not status & _CHECKSUM_NOT_READY), sender[4]
        except (OSError, MessageError):  # no more packets, or the interface has just gone down
            return None

    def send_icmp(self, message: bytes, source: str, destination: str, link: bytes) -> None:
        """Send an agent discovery message (ICMP).

        Raises:
            OSError: The message cannot be sent.
        """
        self._send_packet(Ipv4Packet(ICMP, source, destination, _DISCOVERY_TTL, message), link)

    def send_udp(self, effect: SendMessage, source_port: int) -> None:
        """Send a registration message to a neighbour.

        Raises:
            OSError: The message cannot be sent.
        """
        assert effect.to.link is not None
        self._send_packet(Ipv4Packet(UDP, effect.source, effect.to.address, _REGISTRATION_TTL,
                                     effect.payload, source_port, effect.to.port), effect.to.link)

    def claim_address(self, address: str, link: bytes) -> None:
        """Broadcast the link-layer address of an IP address (gratuitous ARP).

        Raises:
            OSError: The message cannot be sent.
        """
        self._socket.sendto(ipv4.gratuitous_arp(address, link),
                            (self.interface, _ETH_ARP, 0, 0, _BROADCAST))

    def _send_packet(self, packet: Ipv4Packet, link: bytes) -> None:
        self._socket.sendto(packet.encode(), (self.interface, _ETH_IP, 0, 0, link))


class UdpRegistration:
    """A UDP socket for registration messages, on every interface but the radio's.

    The port is bound on all interfaces. So the kernel does not answer messages on the radio side
    with "port unreachable".
    """

    def __init__(self, port: int = PORT, ignored_interface: str | None = None) -> None:
        self._ignored = socket.if_nametoindex(ignored_interface) if ignored_interface else 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        self._socket.bind(("0.0.0.0", port))  # noqa: S104 - in a namespace of its own
        self._socket.settimeout(0)

    @property
    def port(self) -> int:
        """Return the local UDP port."""
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def receive(self) -> Datagram | None:
        """Return the next datagram with its destination address, or None without one."""
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
        """Send a registration message from one of the node's addresses.

        Raises:
            OSError: The message cannot be sent.
        """
        info = _PKTINFO.pack(0, socket.inet_aton(effect.source), bytes(4))
        self._socket.sendmsg([effect.payload], [(socket.IPPROTO_IP, _IP_PKTINFO, info)], 0,
                             (effect.to.address, effect.to.port))


def _filter_program(icmp_type: int, udp_port: int) -> list[tuple[int, int, int, int]]:
    """Return a BPF program that accepts an ICMP type, and unfragmented UDP to a port."""
    return [
        (0x30, 0, 0, 9),              # protocol
        (0x15, 0, 3, ICMP),  # ICMP, else go on to UDP
        (0xB1, 0, 0, 0),              # length of the IP header
        (0x50, 0, 0, 0),              # type
        (0x15, 6, 7, icmp_type),
        (0x15, 0, 6, UDP),
        (0x28, 0, 0, 6),              # fragment offset
        (0x45, 4, 0, 0x1FFF),
        (0xB1, 0, 0, 0),
        (0x48, 0, 0, 2),              # destination port
        (0x15, 0, 1, udp_port),
        (0x06, 0, 0, _LARGEST),  # accept
        (0x06, 0, 0, 0),  # drop
    ]


def _attach_filter(target: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    address, _ = (buffer := array("B", code)).buffer_info()
    # struct sock_fprog, with the compiler's padding between its two members.
    target.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER,
                      struct.pack("@HP", len(program), address))
    del buffer  # the kernel has its own copy now
