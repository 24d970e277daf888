"""Reassemble datagrams between two hosts from captured IP fragments.

Frames of a tunnel come already decrypted. Only the head of a datagram and whether it is complete
are kept.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from measure.pcap import FRAGMENT_OFFSET, MORE_FRAGMENTS, CapturedFrame

_IPV4, _ESP = 0x0800, 50


@dataclass
class HostDatagram:
    """An IP datagram with its time, its addresses and its first bytes.

    `at_s` is the time of its first fragment. `bytes` counts the received bytes after the IP
    headers. `length` is the full number of these bytes, 0 while the last fragment is missing.
    """

    at_s: float
    source: str
    target: str
    protocol: int
    number: int
    head: bytes = b""
    bytes: int = 0
    length: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether all fragments were captured."""
        return bool(self.length) and self.bytes == self.length

    @property
    def ports(self) -> tuple[int, int]:
        """Return the source and destination port of UDP or TCP."""
        return int.from_bytes(self.head[:2]), int.from_bytes(self.head[2:4])


def find_datagrams(frames: Iterable[CapturedFrame],
                   hosts: Mapping[str, str]) -> Iterator[HostDatagram]:
    """Yield all datagrams between the hosts in either direction.

    Args:
        frames: Captured frames, in order of time.
        hosts: IPv4 addresses of the two hosts, by name.
    """
    made: dict[bytes, HostDatagram] = {}
    ends = {ipaddress.IPv4Address(address).packed for address in hosts.values()}
    for frame in frames:
        packet = frame.payload
        if frame.kind != _IPV4 or packet[9] == _ESP or {packet[12:16], packet[16:20]} != ends:
            continue
        key = packet[4:6] + packet[9:10] + packet[12:20]
        place = int.from_bytes(packet[6:8])
        # An IP identification is reused only long after the earlier datagram is complete.
        if not place & FRAGMENT_OFFSET and (key not in made or made[key].head):
            if key in made:
                yield made.pop(key)
            made[key] = HostDatagram(frame.at_s, _format_address(packet[12:16]),
                                     _format_address(packet[16:20]),
                                     packet[9], int.from_bytes(packet[4:6]))
        if key in made:
            _add_fragment(made[key], packet, place)
    yield from made.values()


def _add_fragment(datagram: HostDatagram, packet: bytes, place: int) -> None:
    start, offset = (packet[0] & 15) * 4, 8 * (place & FRAGMENT_OFFSET)
    size = int.from_bytes(packet[2:4]) - start
    datagram.bytes += size
    if not offset:
        datagram.head = packet[start:]
    if not place & MORE_FRAGMENTS:
        datagram.length = offset + size


def _format_address(address: bytes) -> str:
    return str(ipaddress.IPv4Address(address))
