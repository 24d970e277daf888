"""Read messages from captures: UDP datagrams, and length-prefixed messages in TCP streams.

This module shares no code with the programs of the judged protocols.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import pcap
from measure.tcp_stream import TcpStream, stream_offset

_IP_BYTES, _VERSION, _UDP_BYTES, _TCP, _UDP = 20, 4, 8, 6, 17
_LENGTH_BYTES = 4
_SYN, _ACK = 2, 16
#: Prefix of points at hosts that show a client's packets in clear, outside its tunnel.
ASKED = "asked-"


@dataclass(frozen=True)
class WireMessage:
    """A captured message: addresses, start and end time (s), and payload.

    `lead` is the bytes before its length, if there are any (see `read_traffic`).
    """

    source: str
    target: str
    transport: str
    payload: bytes
    began_s: float
    ended_s: float
    ports: tuple[int, int] = (0, 0)
    lead: bytes = b""


@dataclass
class Traffic:
    """All messages of a capture by time, its packets with wire lengths, and retransmissions.

    `opened_s` has the time of each TCP connection's first SYN. `pairs` has the address pairs of
    packets of any protocol. All other fields are of TCP and UDP.
    """

    messages: list[WireMessage] = field(default_factory=list)
    packets: list[tuple[float, int]] = field(default_factory=list)
    pairs: set[frozenset[str]] = field(default_factory=set)
    retransmitted: int = 0
    opened_s: list[float] = field(default_factory=list)


@dataclass
class _Stream:
    """The bytes of one direction of a connection, from its first byte on."""

    first: int | None = None
    bytes: TcpStream = field(default_factory=TcpStream)


@dataclass
class _Datagram:
    """The fragments of an IP packet so far, by offset.

    `size` is None until the last fragment is there.
    """

    began_s: float
    size: int | None = None
    parts: dict[int, bytes] = field(default_factory=dict)


def read_traffic(file: Path, leads: Mapping[int, int] | None = None) -> Traffic:
    """Read all traffic of an Ethernet capture.

    Args:
        file: The capture file.
        leads: Number of bytes before each message's length, by the port of a TCP server.

    Raises:
        MeasureError: The file cannot be read.
    """
    traffic, streams = Traffic(), dict[tuple[str, str, int, int], _Stream]()
    fragments = dict[bytes, _Datagram]()
    ended: list[tuple[tuple[str, str, int, int], _Stream]] = []
    for frame in pcap.read_frames(file):
        at_s, ip = frame.at_s, frame.payload
        if len(ip) < _IP_BYTES or ip[0] >> 4 != _VERSION:
            continue
        source, target = (".".join(map(str, ip[place:place + 4])) for place in (12, 16))
        traffic.pairs.add(frozenset((source, target)))
        if ip[9] not in (_TCP, _UDP):
            continue
        segment = ip[(ip[0] & 15) * 4:int.from_bytes(ip[2:4], "big")]
        traffic.packets.append((at_s, frame.wire_bytes))
        whole, began_s = _reassemble(fragments, ip, segment, at_s)
        if whole is None:
            continue
        ports: tuple[int, int] = struct.unpack_from("!HH", whole)
        if ip[9] == _UDP:
            traffic.messages.append(WireMessage(source, target, "udp", whole[_UDP_BYTES:], began_s,
                                                at_s, ports))
            continue
        key = source, target, *ports
        if key in streams and _begins_another(streams[key], whole):
            ended.append((key, streams.pop(key)))
        if whole[13] & (_SYN | _ACK) == _SYN and key not in streams:
            traffic.opened_s.append(at_s)
        traffic.retransmitted += _add_segment(streams.setdefault(key, _Stream()), whole, at_s)
    ended += streams.items()
    for key, stream in ended:
        traffic.messages += _split_messages(key, stream, leads or {})
    traffic.messages.sort(key=lambda message: message.ended_s)
    return traffic


def read_by_point(captures: Iterable[Mapping[str, Any]], out: Path, client: str,
                  leads: Mapping[int, int] | None = None) -> dict[str, Traffic]:
    """Read captures by their points, the client's first.

    Captures at hosts (ASKED) show the client's packets in clear, so they replace the client's own
    capture.

    Args:
        captures: Summaries of a repetition's captures.
        out: Folder of the captures.
        client: Name of the client's point.
        leads: As for `read_traffic`.

    Raises:
        MeasureError: A file cannot be read.
    """
    every = {capture["point"]: read_traffic(out / capture["file"], leads) for capture in captures}
    asked = [traffic for point, traffic in every.items() if point.startswith(ASKED)]
    at_client = merge_traffic(asked) if asked else every[client]
    return {client: at_client, **{point: traffic for point, traffic in every.items()
                                  if point != client and not point.startswith(ASKED)}}


def merge_traffic(parts: Iterable[Traffic]) -> Traffic:
    """Merge captures of different packets into one."""
    whole = Traffic()
    for part in parts:
        for name in ("messages", "packets", "opened_s"):
            getattr(whole, name).extend(getattr(part, name))
        whole.pairs |= part.pairs
        whole.retransmitted += part.retransmitted
    whole.messages.sort(key=lambda message: message.ended_s)
    whole.packets.sort()
    whole.opened_s.sort()
    return whole


def _reassemble(fragments: dict[bytes, _Datagram], ip: bytes, segment: bytes,
                at_s: float) -> tuple[bytes | None, float]:
    """Return the payload of an IP packet and its start time.

    The payload is None until all fragments are there.
    """
    where = int.from_bytes(ip[6:8], "big")
    if not where & (pcap.MORE_FRAGMENTS | pcap.FRAGMENT_OFFSET):
        return segment, at_s
    key = ip[4:6] + ip[9:10] + ip[12:20]
    datagram = fragments.setdefault(key, _Datagram(at_s))
    place = (where & pcap.FRAGMENT_OFFSET) * 8
    datagram.parts[place] = segment
    if not where & pcap.MORE_FRAGMENTS:
        datagram.size = place + len(segment)
    if datagram.size is None or sum(map(len, datagram.parts.values())) < datagram.size:
        return None, at_s
    del fragments[key]
    return b"".join(part for _, part in sorted(datagram.parts.items())), datagram.began_s


def _begins_another(stream: _Stream, segment: bytes) -> bool:
    """Return whether a SYN starts another connection on the same ports."""
    first = (struct.unpack_from("!I", segment, 4)[0] + 1) & 0xFFFFFFFF
    return bool(segment[13] & _SYN) and stream.first not in (None, first)


def _add_segment(stream: _Stream, segment: bytes, at_s: float) -> int:
    """Insert a segment into its stream and return 1 if it has no new byte."""
    sequence, flags = struct.unpack_from("!I", segment, 4)[0], segment[13]
    payload = segment[(segment[12] >> 4) * 4:]
    if flags & _SYN:
        again = stream.first is not None
        stream.first = (sequence + 1) & 0xFFFFFFFF
        return int(again)
    if stream.first is None or not payload:
        return 0
    return int(not stream.bytes.add_segment(stream_offset(sequence, stream.first), payload, at_s))


def _split_messages(key: tuple[str, str, int, int], stream: _Stream,
                    leads: Mapping[int, int]) -> Iterator[WireMessage]:
    """Yield the messages of a stream up to its first missing byte."""
    source, target, *ports = key
    lead = max(leads.get(port, 0) for port in ports)
    piece = next((piece for piece in stream.bytes.contiguous_parts() if piece.place == 0), None)
    at, data = 0, piece.data if piece else b""
    while piece and at + lead + _LENGTH_BYTES <= len(data):
        first = at + lead + _LENGTH_BYTES
        end = first + int.from_bytes(data[at + lead:first], "big")
        if end > len(data):
            return
        yield WireMessage(source, target, "tcp", data[first:end], piece.reached_s(at + 1),
                          piece.reached_s(end), (ports[0], ports[1]), data[at:at + lead])
        at = end
