"""Read and write the frames of capture files as bytes with times, without a dissector."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from measure.errors import MeasureError

_HEAD_BYTES, _RECORD, _MAGIC = 24, struct.Struct("<IIII"), 0xA1B2C3D4
#: Link types: Ethernet, and 802.11 frames with and without a radiotap header.
ETHERNET, RADIOTAP, IEEE802_11_ALONE = 1, 127, 105
IEEE802_11 = (RADIOTAP, IEEE802_11_ALONE)
_LINKS = {(ETHERNET,): "Ethernet", IEEE802_11: "802.11"}
_FILE_HEAD, _SNAP_BYTES = struct.Struct("<IHHiIII"), 4096
_ETHERNET_BYTES, _UDP_BYTES = 14, 8
#: Protocol number of UDP.
UDP = 17
_IPV4, _EAPOL = 0x0800, 0x888E
_IP_BYTES = 20
#: Bits of an IPv4 header's flags and fragment offset: more fragments; the offset divided by 8.
MORE_FRAGMENTS, FRAGMENT_OFFSET = 0x2000, 0x1FFF


@dataclass(frozen=True)
class CapturedFrame:
    """An Ethernet frame or its first bytes, with its wall-clock capture time in s."""

    at_s: float
    data: bytes
    #: Length on the wire.
    wire_bytes: int

    @property
    def kind(self) -> int:
        """Return the EtherType."""
        return int.from_bytes(self.data[12:14], "big")

    @property
    def payload(self) -> bytes:
        """Return the bytes after the Ethernet header."""
        return self.data[_ETHERNET_BYTES:]


@dataclass(frozen=True)
class UdpFrame:
    """A UDP datagram over IPv4, whole or truncated by the capture."""

    at_s: float
    source: str
    source_port: int
    target_port: int
    payload: bytes


def read_link_type(file: Path) -> int | None:
    """Return a capture's link type, or None if the file is too short."""
    with file.open("rb") as head:
        data = head.read(_HEAD_BYTES)
    return struct.unpack_from("<I", data, 20)[0] if len(data) == _HEAD_BYTES else None


def read_frames(file: Path, links: tuple[int, ...] = (ETHERNET,)) -> Iterator[CapturedFrame]:
    """Yield all frames of a capture in order.

    Args:
        file: The capture file, in little-endian pcap format with microseconds.
        links: The accepted link types.

    Raises:
        MeasureError: The file is no such capture.
    """
    data = file.read_bytes()
    if len(data) < _HEAD_BYTES or struct.unpack_from("<I", data)[0] != _MAGIC or (
            struct.unpack_from("<I", data, 20)[0] not in links):
        raise MeasureError("data", f"{file.name} is not a capture of {_LINKS[links]} frames")
    place = _HEAD_BYTES
    while place + _RECORD.size <= len(data):
        seconds, micros, size, wire_bytes = _RECORD.unpack_from(data, place)
        place += _RECORD.size
        if place + size > len(data):
            return  # the writer was cut off
        yield CapturedFrame(seconds + micros / 1e6, data[place:place + size], wire_bytes)
        place += size


def write_frames(file: Path, captured: Iterable[CapturedFrame], link: int = ETHERNET) -> None:
    """Write frames to a capture file."""
    records = (_RECORD.pack(*divmod(round(frame.at_s * 1e6), 1_000_000),
                            len(frame.data), frame.wire_bytes) + frame.data for frame in captured)
    file.write_bytes(_FILE_HEAD.pack(_MAGIC, 2, 4, 0, 0, _SNAP_BYTES, link)
                     + b"".join(records))


@dataclass(frozen=True)
class IpPacket:
    """A complete, possibly reassembled IPv4 packet with its last fragment's time in s."""

    at_s: float
    source: str
    payload: bytes


def ip_packets(captured: Iterable[CapturedFrame], protocol: int) -> Iterator[IpPacket]:
    """Yield all complete IPv4 packets of a protocol.

    Fragments must be in order, as they are on a wire.
    """
    for _, last, data in _reassemble(captured, protocol):
        yield IpPacket(last.at_s, str(ipaddress.IPv4Address(last.payload[12:16])), data)


def join_fragments(captured: Iterable[CapturedFrame], protocol: int) -> list[CapturedFrame]:
    """Return frames in order, with the fragments of a protocol's packets reassembled.

    The reassembled frame stands at the place of the first fragment. Truncated and incomplete
    packets stay as they are.
    """
    there = list(captured)
    taken: dict[int, CapturedFrame | None] = {}
    for places, last, data in _reassemble(there, protocol):
        is_whole = len(last.payload) >= int.from_bytes(last.payload[2:4], "big")
        if len(places) == 1 or not is_whole:
            continue
        first = there[places[0]]
        header = bytearray(first.payload[:(first.payload[0] & 15) * 4])
        header[2:4], header[6:8] = (len(header) + len(data)).to_bytes(2, "big"), b"\0\0"
        taken |= dict.fromkeys(places) | {places[0]: CapturedFrame(
            first.at_s, first.data[:_ETHERNET_BYTES] + bytes(header) + data,
            sum(there[at].wire_bytes for at in places))}
    placed = (taken.get(place, frame) for place, frame in enumerate(there))
    return [frame for frame in placed if frame is not None]


def _reassemble(captured: Iterable[CapturedFrame],
                protocol: int) -> Iterator[tuple[list[int], CapturedFrame, bytes]]:
    """Yield complete packets: places of their frames, the last frame, and the IP payload."""
    begun: dict[bytes, tuple[list[int], bytes]] = {}
    for place, frame in enumerate(captured):
        packet = frame.payload
        if frame.kind != _IPV4 or len(packet) < _IP_BYTES or packet[9] != protocol:
            continue
        data = packet[(packet[0] & 15) * 4:int.from_bytes(packet[2:4], "big")]
        flags = int.from_bytes(packet[6:8], "big")
        key, offset = packet[4:6] + packet[12:20], (flags & FRAGMENT_OFFSET) * 8
        places, so_far = begun.pop(key, ([], b"")) if offset else ([], b"")
        if len(so_far) != offset:
            continue  # an earlier fragment is missing
        places.append(place)
        if flags & MORE_FRAGMENTS:
            begun[key] = places, so_far + data
        else:
            yield places, frame, so_far + data


@dataclass(frozen=True)
class UdpHead:
    """Addresses, ports, and IPv4 packet length of a UDP datagram."""

    source: str
    target: str
    source_port: int
    target_port: int
    ip_bytes: int


def parse_udp_header(frame: CapturedFrame) -> UdpHead | None:
    """Parse the UDP header of a frame, or return None.

    A first fragment counts, later fragments do not.
    """
    packet = frame.payload
    if frame.kind != _IPV4 or len(packet) < _IP_BYTES or packet[9] != UDP:
        return None
    start = (packet[0] & 15) * 4
    if int.from_bytes(packet[6:8], "big") & FRAGMENT_OFFSET or len(packet) < start + _UDP_BYTES:
        return None
    source, target = (str(ipaddress.IPv4Address(packet[at:at + 4])) for at in (12, 16))
    source_port, target_port = struct.unpack_from("!HH", packet, start)
    return UdpHead(source, target, source_port, target_port, int.from_bytes(packet[2:4], "big"))


def udp_datagrams(file: Path) -> Iterator[UdpFrame]:
    """Yield all UDP datagrams over IPv4 whose start is captured.

    Complete fragmented datagrams are reassembled.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    for frame in join_fragments(read_frames(file), UDP):
        head, packet = parse_udp_header(frame), frame.payload
        if head is None or int.from_bytes(packet[6:8], "big") & MORE_FRAGMENTS:
            continue
        start = (packet[0] & 15) * 4
        length = int.from_bytes(packet[start + 4:start + 6], "big")
        yield UdpFrame(frame.at_s, head.source, head.source_port, head.target_port,
                       packet[start + _UDP_BYTES:start + length])


def udp_payloads(file: Path, port: int) -> list[tuple[float, bytes]]:
    """Return time and payload of each datagram to or from a port.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    return [(datagram.at_s, datagram.payload) for datagram in udp_datagrams(file)
            if port in (datagram.source_port, datagram.target_port)]


def eapol_frames(file: Path) -> list[tuple[float, bytes]]:
    """Return time and content of each EAPOL frame, from its version byte on.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    return [(frame.at_s, frame.payload) for frame in read_frames(file) if frame.kind == _EAPOL]
