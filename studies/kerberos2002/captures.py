"""Messages are read from captures: datagrams, and TCP streams put together, with their packets.

Nothing here is shared with the protocol's own programs: they are what is judged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import pcap

_IP_BYTES, _UDP_BYTES, _TCP, _UDP = 20, 8, 6, 17
_LENGTH_BYTES = 4
_SYN = 2


@dataclass(frozen=True)
class WireMessage:
    """A message as it passed a capture: its parties' addresses, when it began and was complete."""

    source: str
    target: str
    transport: str
    payload: bytes
    began_s: float
    ended_s: float


@dataclass
class Traffic:
    """All messages of a capture by time, its packets and bytes on the wire, and repeated ones."""

    messages: list[WireMessage] = field(default_factory=list)
    packets: list[tuple[float, int]] = field(default_factory=list)
    pairs: set[frozenset[str]] = field(default_factory=set)
    retransmitted: int = 0


@dataclass
class _Stream:
    """One direction of a connection: bytes by their place, and when each place was filled."""

    first: int | None = None
    data: bytearray = field(default_factory=bytearray)
    filled: list[tuple[int, float]] = field(default_factory=list)


def read(file: Path) -> Traffic:
    """Everything in a capture of Ethernet. Raises MeasureError."""
    traffic, streams = Traffic(), dict[tuple[str, str, int, int], _Stream]()
    ended: list[tuple[str, str, _Stream]] = []
    for frame in pcap.frames(file):
        at_s, ip = frame.at_s, frame.payload
        if len(ip) < _IP_BYTES or ip[9] not in (_TCP, _UDP):
            continue
        source, target = (".".join(map(str, ip[place:place + 4])) for place in (12, 16))
        length = int.from_bytes(ip[2:4], "big")
        segment = ip[(ip[0] & 15) * 4:length]
        traffic.packets.append((at_s, frame.wire_bytes))
        traffic.pairs.add(frozenset((source, target)))
        if ip[9] == _UDP:
            traffic.messages.append(WireMessage(source, target, "udp", segment[_UDP_BYTES:], at_s,
                                                at_s))
            continue
        ports = struct.unpack_from("!HH", segment)
        key = source, target, ports[0], ports[1]
        if key in streams and _begins_another(streams[key], segment):
            ended.append((source, target, streams.pop(key)))
        traffic.retransmitted += _take(streams.setdefault(key, _Stream()), segment, at_s)
    ended += [(source, target, stream) for (source, target, *_), stream in streams.items()]
    for source, target, stream in ended:
        traffic.messages += _messages(source, target, stream)
    traffic.messages.sort(key=lambda message: message.ended_s)
    return traffic


def _begins_another(stream: _Stream, segment: bytes) -> bool:
    """Whether ports are used again, by another connection."""
    first = (struct.unpack_from("!I", segment, 4)[0] + 1) & 0xFFFFFFFF
    return bool(segment[13] & _SYN) and stream.first not in (None, first)


def _take(stream: _Stream, segment: bytes, at_s: float) -> int:
    """Put a segment in its place; 1 if all of it was there before."""
    sequence, flags = struct.unpack_from("!I", segment, 4)[0], segment[13]
    payload = segment[(segment[12] >> 4) * 4:]
    if flags & _SYN:
        again = stream.first is not None
        stream.first = (sequence + 1) & 0xFFFFFFFF
        return int(again)
    if stream.first is None or not payload:
        return 0
    place = (sequence - stream.first) & 0xFFFFFFFF
    new = place + len(payload) - len(stream.data)
    if new <= 0:
        return 1
    if place <= len(stream.data):
        stream.data += payload[len(payload) - new:]
        stream.filled.append((len(stream.data), at_s))
    return 0


def _messages(source: str, target: str, stream: _Stream) -> Iterator[WireMessage]:
    """The messages of a stream, each after its length."""
    at = 0
    while at + _LENGTH_BYTES <= len(stream.data):
        size = int.from_bytes(stream.data[at:at + _LENGTH_BYTES], "big")
        end = at + _LENGTH_BYTES + size
        if end > len(stream.data):
            return
        yield WireMessage(source, target, "tcp", bytes(stream.data[at + _LENGTH_BYTES:end]),
                          _when(stream.filled, at + 1), _when(stream.filled, end))
        at = end


def _when(filled: Sequence[tuple[int, float]], place: int) -> float:
    """When so many bytes were there."""
    return next(at_s for upto, at_s in filled if upto >= place)
