"""Echoes are asked for and answered through a socket that was opened before anything is timed.

To start `ping` instead takes 10 ms in a guest, which were in every handoff that real time measured.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import struct
import time

from topologies.mobile_ip.ipv4 import checksum
from topologies.namespaces import network_of

#: As `ping -i` had it, and as much in a packet.
AGAIN_S = 0.2
_PAYLOAD = bytes(range(56))
_REQUEST, _REPLY = 8, 0
_HEADER = struct.Struct("!BBHHH")
#: Linux's filter of a raw ICMP socket, for which Python has no names: types that do not come.
_SOL_RAW, _ICMP_FILTER = 255, 1


class EchoSocket:
    """What one node asks for echoes with, in its network namespace."""

    def __init__(self, pid: int) -> None:
        with network_of(pid):
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.setsockopt(_SOL_RAW, _ICMP_FILTER,
                                struct.pack("=I", ~(1 << _REPLY) & 0xffffffff))
        self._socket.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._number = os.getpid() & 0xffff
        self._sequence = itertools.count(1)

    def close(self) -> None:
        """Let go of the node's namespace."""
        self._socket.close()

    def answered(self, address: str, seconds: float, again_s: float = AGAIN_S) -> bool:
        """Whether an echo from an address comes in time; it is asked for again every `again_s`."""
        until = time.monotonic() + seconds
        asked = set[int]()
        while (now := time.monotonic()) < until:
            sequence = next(self._sequence) & 0xffff
            asked.add(sequence)
            self._ask(address, sequence)
            if self._heard(address, asked, min(until, now + again_s)):
                return True
        return False

    def _ask(self, address: str, sequence: int) -> None:
        unsummed = _HEADER.pack(_REQUEST, 0, 0, self._number, sequence) + _PAYLOAD
        request = _HEADER.pack(_REQUEST, 0, checksum(unsummed), self._number, sequence) + _PAYLOAD
        try:
            self._socket.sendto(request, (address, 0))
        except OSError:
            return  # no way there yet: as if it were lost

    def _heard(self, address: str, asked: set[int], until: float) -> bool:
        while select.select([self._socket], [], [], max(0.0, until - time.monotonic()))[0]:
            packet, (sender, _) = self._socket.recvfrom(1 << 12)
            if sender == address and self._answer(packet) in asked:
                return True
        return False

    def _answer(self, packet: bytes) -> int | None:
        """The number of the request that a packet answers; None where it is another's."""
        message = packet[(packet[0] & 0xf) * 4:]
        if len(message) < _HEADER.size:
            return None
        kind, _, _, number, sequence = _HEADER.unpack_from(message)
        return int(sequence) if (kind, number) == (_REPLY, self._number) else None
