"""Send ICMP echo requests from nodes, and wait for replies.

Measurements end with the first answered packet after a node has joined. Starting `ping` takes 10 ms
in a guest, and in real time every handoff would include that. So the service `EchoSockets` opens an
`EchoSocket` in every station's network namespace before anything is timed. Its method `is_answered`
takes an address and a time limit.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import struct
import time
from collections.abc import Sequence

from measure.agent.workload import Site
from topologies.mobile_ip.ipv4 import internet_checksum
from topologies.model import IPV4, IPV6, STATION
from topologies.namespaces import network_of

#: Interval of echo requests in s, and payload, as with `ping -i 0.2`.
AGAIN_S = 0.2
_PAYLOAD = bytes(range(56))
#: Types of echo requests and replies: ICMP's (RFC 792) and ICMPv6's (RFC 4443).
_TYPES = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
_HEADER = struct.Struct("!BBHHH")
#: Linux's filter of a raw ICMP socket, not defined in Python: message types to drop.
_SOL_RAW, _ICMP_FILTER = 255, 1
_ICMP6_FILTER, _ICMP6_TYPES = 1, 256


class EchoSocket:
    """A raw ICMP or ICMPv6 socket in one node's network namespace."""

    def __init__(self, pid: int, ip: int = IPV4) -> None:
        self._family = socket.AF_INET6 if ip == IPV6 else socket.AF_INET
        self._request, self._reply = _TYPES[self._family]
        protocol = socket.IPPROTO_ICMPV6 if ip == IPV6 else socket.IPPROTO_ICMP
        with network_of(pid):
            self._socket = socket.socket(self._family, socket.SOCK_RAW, protocol)
        if ip == IPV6:
            words = [~(1 << self._reply - first if first <= self._reply < first + 32 else 0)
                     & 0xffffffff for first in range(0, _ICMP6_TYPES, 32)]
            self._socket.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER,
                                    struct.pack(f"={len(words)}I", *words))
        else:
            self._socket.setsockopt(_SOL_RAW, _ICMP_FILTER,
                                    struct.pack("=I", ~(1 << self._reply) & 0xffffffff))
        self._socket.setblocking(False)  # noqa: FBT003 - signature of the standard library
        self._number = os.getpid() & 0xffff
        self._sequence = itertools.count(1)

    def close(self) -> None:
        """Close the ICMP socket, which frees the node's namespace."""
        self._socket.close()

    def is_answered(self, address: str, seconds: float, again_s: float = AGAIN_S) -> bool:
        """Send echo requests every `again_s`, and return whether a reply comes in time.

        Args:
            address: The peer's address.
            seconds: Time limit in s.
            again_s: Interval of requests in s.
        """
        until = time.monotonic() + seconds
        sent_numbers = set[int]()
        while (now := time.monotonic()) < until:
            sequence = next(self._sequence) & 0xffff
            sent_numbers.add(sequence)
            self._send_request(address, sequence)
            if self._await_reply(address, sent_numbers, min(until, now + again_s)):
                return True
        return False

    def _send_request(self, address: str, sequence: int) -> None:
        # The kernel adds the checksum of ICMPv6, which includes the addresses.
        unsummed = _HEADER.pack(self._request, 0, 0, self._number, sequence) + _PAYLOAD
        request = _HEADER.pack(self._request, 0, internet_checksum(unsummed), self._number,
                               sequence) + _PAYLOAD
        try:
            self._socket.sendto(request, (address, 0))
        except OSError:
            return  # no route yet: counts as lost

    def _await_reply(self, address: str, sequences: set[int], until: float) -> bool:
        while select.select([self._socket], [], [], max(0.0, until - time.monotonic()))[0]:
            packet, (sender, *_) = self._socket.recvfrom(1 << 12)
            if sender == address and self._parse_reply(packet) in sequences:
                return True
        return False

    def _parse_reply(self, packet: bytes) -> int | None:
        """Return the sequence number in an ICMP echo reply, or None for other packets."""
        # A raw socket of IPv6 gives no IP header.
        message = packet if self._family == socket.AF_INET6 else packet[(packet[0] & 0xf) * 4:]
        if len(message) < _HEADER.size:
            return None
        kind, _, _, number, sequence = _HEADER.unpack_from(message)
        return int(sequence) if (kind, number) == (self._reply, self._number) else None


# --- Service that opens the stations' echo sockets ---

class EchoSockets:
    """The service that opens an ICMP echo socket on every station."""

    name = "echoes"
    needs: Sequence[str] = ()

    def __init__(self, site: Site) -> None:
        self._site = site
        self.sockets: dict[str, EchoSocket] = {}

    def start(self) -> None:
        """Open an ICMP socket on every station."""
        for name in self._site.network.of_duty(STATION):
            self.sockets[name] = EchoSocket(self._site.testbed.node(name).pid,
                                            self._site.network.ip)

    def wait_ready(self) -> None:
        """Return at once: a socket is ready when it is open."""

    def stop(self) -> None:
        """Close the ICMP sockets, because open sockets keep the nodes' namespaces alive."""
        while self.sockets:
            self.sockets.popitem()[1].close()
