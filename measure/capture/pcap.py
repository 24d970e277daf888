"""Read and write the frames of pcap files as bytes, without tshark.

Checks that need only a few fields use it in place of a dissection. `read_frames` yields Ethernet or
other frames with their capture times, `read_wlan_frames` yields 802.11 frames. Other functions
reassemble IPv4 fragments, select UDP datagrams and EAPOL frames, and find the end of 802.11
headers. `write_frames` writes a file, and `merge_captures` makes one of several.
"""

from __future__ import annotations

import heapq
import ipaddress
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.agent.errors import MeasureError

_HEAD_BYTES, _RECORD, _MAGIC = 24, struct.Struct("<IIII"), 0xA1B2C3D4
#: Link types: Ethernet, and 802.11 frames with and without a radiotap header.
ETHERNET, RADIOTAP, IEEE802_11_ALONE = 1, 127, 105
IEEE802_11 = (RADIOTAP, IEEE802_11_ALONE)
_LINKS = {(ETHERNET,): "Ethernet", IEEE802_11: "802.11", (RADIOTAP,): "802.11"}
_FILE_HEAD, _SNAP_BYTES = struct.Struct("<IHHiIII"), 4096
_ETHERNET_BYTES, _UDP_BYTES = 14, 8
#: Protocol numbers of UDP and ESP.
UDP, _ESP = 17, 50
#: UDP port of IPsec behind NAT, and the bytes by which IKE differs from ESP there (RFC 3948, 2.2).
IPSEC_NAT_PORT, _NON_ESP_MARKER = 4500, bytes(4)
#: EtherTypes of IPv4, IPv6 and EAPOL.
IPV4, IPV6, EAPOL = 0x0800, 0x86DD, 0x888E
#: Longest time in s between two captures of a frame. A frame that is sent again has the Retry bit.
_EQUAL_WITHIN_S = 0.01
#: Type bits of an 802.11 frame, and the type of control frames, which have no sequence number.
_TYPE_BITS, _CONTROL = 0x0C, 0x04
_IP_BYTES, _IPV6_BYTES = 20, 40
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
        """Return the EtherType of the frame."""
        return int.from_bytes(self.data[12:14], "big")

    @property
    def payload(self) -> bytes:
        """Return the bytes of the frame after the Ethernet header."""
        return self.data[_ETHERNET_BYTES:]


@dataclass(frozen=True)
class UdpFrame:
    """A captured UDP datagram over IPv4, complete or truncated."""

    at_s: float
    source: str
    source_port: int
    target_port: int
    payload: bytes


def read_link_type(file: Path) -> int | None:
    """Return the link type in a pcap file's header, or None if the file is too short."""
    with file.open("rb") as head:
        data = head.read(_HEAD_BYTES)
    return struct.unpack_from("<I", data, 20)[0] if len(data) == _HEAD_BYTES else None


def read_frames(file: Path, links: tuple[int, ...] = (ETHERNET,)) -> Iterator[CapturedFrame]:
    """Yield all frames of a pcap file in order.

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
    """Write frames to a pcap file."""
    records = (pack_record(round(frame.at_s * 1e6), frame.data, frame.wire_bytes)
               for frame in captured)
    file.write_bytes(_FILE_HEAD.pack(_MAGIC, 2, 4, 0, 0, _SNAP_BYTES, link)
                     + b"".join(records))


def merge_captures(files: Sequence[Path], target: Path) -> int:
    """Merge captures of 802.11 frames with radiotap into one file, in order of time.

    Each capture hears one channel. Of a frame that several captures have, the first copy is kept.

    Returns:
        The number of frames in the file.

    Raises:
        MeasureError: A file is no such capture.
    """
    def read_source(source: int) -> Iterator[tuple[float, int, CapturedFrame]]:
        for frame in read_frames(files[source], (RADIOTAP,)):
            yield frame.at_s, source, frame

    kept: list[CapturedFrame] = []
    heard: dict[bytes, tuple[float, int]] = {}
    for at_s, source, frame in heapq.merge(*map(read_source, range(len(files))),
                                           key=lambda each: each[:2]):
        body = frame.data[int.from_bytes(frame.data[2:4], "little"):]
        if body and body[0] & _TYPE_BITS != _CONTROL:
            first_s, first_source = heard.get(body, (at_s, source))
            if first_source != source and at_s - first_s <= _EQUAL_WITHIN_S:
                continue
            heard[body] = (at_s, source)
        kept.append(frame)
    write_frames(target, kept, RADIOTAP)
    return len(kept)


def pack_record(at_us: int, data: bytes, wire_bytes: int) -> bytes:
    """Return the record of a frame in a pcap file. Its time is in microseconds since 1970."""
    return _RECORD.pack(*divmod(at_us, 1_000_000), len(data), wire_bytes) + data


@dataclass(frozen=True)
class IpPacket:
    """A complete IPv4 packet, reassembled if necessary, with its last fragment's time in s."""

    at_s: float
    source: str
    payload: bytes


def ip_packets(captured: Iterable[CapturedFrame], protocol: int) -> Iterator[IpPacket]:
    """Yield all complete IPv4 packets of one IP protocol, after reassembly.

    Fragments must be in order, as they are on a wire.
    """
    for _, last, data in _reassemble_ip(captured, protocol):
        yield IpPacket(last.at_s, str(ipaddress.IPv4Address(last.payload[12:16])), data)


def join_fragments(captured: Iterable[CapturedFrame], protocol: int) -> list[CapturedFrame]:
    """Return frames in order, in which the fragments of an IP protocol's packets are reassembled.

    The reassembled frame stands at the place of the first fragment. Truncated and incomplete
    packets stay as they are.
    """
    frames = list(captured)
    taken: dict[int, CapturedFrame | None] = {}
    for places, last, data in _reassemble_ip(frames, protocol):
        is_whole = len(last.payload) >= int.from_bytes(last.payload[2:4], "big")
        if len(places) == 1 or not is_whole:
            continue
        first = frames[places[0]]
        header = bytearray(first.payload[:(first.payload[0] & 15) * 4])
        header[2:4], header[6:8] = (len(header) + len(data)).to_bytes(2, "big"), b"\0\0"
        taken |= dict.fromkeys(places) | {places[0]: CapturedFrame(
            first.at_s, first.data[:_ETHERNET_BYTES] + bytes(header) + data,
            sum(frames[at].wire_bytes for at in places))}
    placed = (taken.get(place, frame) for place, frame in enumerate(frames))
    return [frame for frame in placed if frame is not None]


def unwrap_esp(packet: bytes) -> bytes:
    """Return an IPv4 packet with ESP in UDP as one with ESP in IP (RFC 3948, 2.1).

    IKE messages, NAT keepalives and all other packets stay as they are.
    """
    start = (packet[0] & 15) * 4 if packet else 0
    body = packet[start + _UDP_BYTES:]
    if len(packet) < _IP_BYTES or packet[9] != UDP or len(body) <= len(_NON_ESP_MARKER) or (
            int.from_bytes(packet[6:8], "big") & FRAGMENT_OFFSET) or body.startswith(
            _NON_ESP_MARKER) or IPSEC_NAT_PORT not in (
            int.from_bytes(packet[at:at + 2], "big") for at in (start, start + 2)):
        return packet
    length = int.from_bytes(packet[2:4], "big") - _UDP_BYTES
    return (packet[:2] + length.to_bytes(2, "big") + packet[4:9] + bytes((_ESP,))
            + packet[10:start] + body)


def _reassemble_ip(captured: Iterable[CapturedFrame],
                   protocol: int) -> Iterator[tuple[list[int], CapturedFrame, bytes]]:
    """Yield each complete IPv4 packet: indexes of its frames, its last frame, its IP payload."""
    begun: dict[bytes, tuple[list[int], bytes]] = {}
    for place, frame in enumerate(captured):
        packet = frame.payload
        if frame.kind != IPV4 or len(packet) < _IP_BYTES or packet[9] != protocol:
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
class UdpHeader:
    """The addresses and ports of a UDP datagram, and the length of its IP packet."""

    source: str
    target: str
    source_port: int
    target_port: int
    ip_bytes: int


def parse_udp_header(frame: CapturedFrame) -> UdpHeader | None:
    """Parse the UDP header in a frame. Return None if it has none, as a later fragment.

    In IPv6, it is found if it follows the header at once.
    """
    packet = frame.payload
    if frame.kind == IPV6 and len(packet) >= _IPV6_BYTES + _UDP_BYTES and packet[6] == UDP:
        source, target = (str(ipaddress.IPv6Address(packet[at:at + 16])) for at in (8, 24))
        source_port, target_port = struct.unpack_from("!HH", packet, _IPV6_BYTES)
        return UdpHeader(source, target, source_port, target_port,
                         _IPV6_BYTES + int.from_bytes(packet[4:6], "big"))
    if frame.kind != IPV4 or len(packet) < _IP_BYTES or packet[9] != UDP:
        return None
    start = (packet[0] & 15) * 4
    if int.from_bytes(packet[6:8], "big") & FRAGMENT_OFFSET or len(packet) < start + _UDP_BYTES:
        return None
    source, target = (str(ipaddress.IPv4Address(packet[at:at + 4])) for at in (12, 16))
    source_port, target_port = struct.unpack_from("!HH", packet, start)
    return UdpHeader(source, target, source_port, target_port, int.from_bytes(packet[2:4], "big"))


def udp_datagrams(file: Path) -> Iterator[UdpFrame]:
    """Yield all UDP datagrams over IPv4 in a capture, as far as their start was captured.

    Complete fragmented datagrams are reassembled.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    for frame in join_fragments(read_frames(file), UDP):
        head, packet = parse_udp_header(frame), frame.payload
        if head is None or frame.kind != IPV4 or (
                int.from_bytes(packet[6:8], "big") & MORE_FRAGMENTS):
            continue
        start = (packet[0] & 15) * 4
        length = int.from_bytes(packet[start + 4:start + 6], "big")
        yield UdpFrame(frame.at_s, head.source, head.source_port, head.target_port,
                       packet[start + _UDP_BYTES:start + length])


def udp_payloads(file: Path, port: int) -> list[tuple[float, bytes]]:
    """Return time and payload of each UDP datagram to or from a port.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    return [(datagram.at_s, datagram.payload) for datagram in udp_datagrams(file)
            if port in (datagram.source_port, datagram.target_port)]


def eapol_frames(file: Path) -> list[tuple[float, bytes]]:
    """Return time and content of each EAPOL frame in a capture, from its version byte on.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    return [(frame.at_s, frame.payload) for frame in read_frames(file) if frame.kind == EAPOL]


# --- 802.11 headers as bytes (IEEE 802.11-2020, 9.2.4) ---

#: Bits of the first byte: the frame's type, null frame, QoS.
TYPE, DATA, NULL, QOS = 0x0C, 0x08, 0x40, 0x80
#: Bits of the second byte: To DS, From DS, protected, and (with QoS) HT Control present.
TO_DS, FROM_DS, PROTECTED, ORDER = 0x01, 0x02, 0x40, 0x80
#: Header with three addresses and no further fields.
MAC_HEADER_BYTES = 24
_BETWEEN, _ADDRESS_BYTES, _QOS_BYTES, _HT_BYTES = TO_DS | FROM_DS, 6, 2, 4


def read_wlan_frames(file: Path) -> Iterator[bytes]:
    """Yield the 802.11 frames of a capture of the air from their MAC header on, in order.

    Frames that end with the MAC header are left out.

    Raises:
        MeasureError: The file is no capture of the air.
    """
    has_radio = read_link_type(file) == RADIOTAP
    for frame in read_frames(file, IEEE802_11):
        data = frame.data[int.from_bytes(frame.data[2:4], "little") if has_radio else 0:]
        if len(data) > MAC_HEADER_BYTES:
            yield data


#: Fields of radiotap before a frame's channel, by their bits: time, flags, and rate (bytes each).
_RADIOTAP_FIELDS = ((1 << 0, 8), (1 << 1, 1), (1 << 2, 1))
_RADIOTAP_CHANNEL, _RADIOTAP_EXTENDED, _RADIOTAP_BYTES = 1 << 3, 1 << 31, 8


def read_frequencies(file: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the 802.11 frames of a capture of the air, each with its frequency in MHz.

    Frames without a frequency in their radiotap header are left out.

    Raises:
        MeasureError: The file is no capture with radiotap headers.
    """
    for frame in read_frames(file, (RADIOTAP,)):
        size, present = struct.unpack_from("<xxHI", frame.data)
        if not present & _RADIOTAP_CHANNEL or present & _RADIOTAP_EXTENDED:
            continue
        at = _RADIOTAP_BYTES + sum(length for bit, length in _RADIOTAP_FIELDS if present & bit)
        at += at % 2
        if len(frame.data) > size + MAC_HEADER_BYTES:
            yield frame.data[size:], int.from_bytes(frame.data[at:at + 2], "little")


def split_elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the elements in the body of an 802.11 frame.

    Args:
        data: The body behind its fixed fields. The content of a last element that is cut short is
            what is there.
    """
    at = 0
    while at + 2 <= len(data):
        end = at + 2 + data[at + 1]
        yield data[at], data[at + 2:end]
        at = end


def addresses_end(data: bytes) -> int:
    """Return the offset at which the three or four addresses in an 802.11 data frame end."""
    return MAC_HEADER_BYTES + _ADDRESS_BYTES * (data[1] & _BETWEEN == _BETWEEN)


def header_bytes(data: bytes) -> int:
    """Return the length of an 802.11 data frame's header."""
    has_qos = bool(data[0] & QOS)
    return (addresses_end(data) + _QOS_BYTES * has_qos
            + _HT_BYTES * (has_qos and bool(data[1] & ORDER)))
