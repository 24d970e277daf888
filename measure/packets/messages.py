"""Read the messages of an application from captures: UDP datagrams, and messages in TCP streams.

`read_messages` takes a capture file, and returns all messages with addresses, times and payload
(`CapturedMessages`). It reassembles IP fragments and TCP streams, where a length precedes each
message, as in Kerberos. Checks of studies with protocols of their own use it, and share no code
with the checked programs. The checks of RadSec (RADIUS in TLS) use `TcpStream` and
`split_messages`, which splits TLS handshake messages.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from measure.capture import pcap

# --- Reassembly of one direction of a TCP connection ---
# Segments may be repeated, late, split differently, or missing.

_HALF, _ALL = 1 << 31, 1 << 32


def stream_offset(number: int, first: int) -> int:
    """Return a byte's offset in a TCP stream, from its sequence number and the first one's.

    Sequence numbers wrap at 2^32.
    """
    return (number - first + _HALF) % _ALL - _HALF


@dataclass(frozen=True)
class TcpSegment:
    """A contiguous part of a TCP stream: offset, bytes, and when each byte was complete."""

    place: int
    data: bytes
    #: In order: a length of `data`, and the time (s) since which all bytes before it were captured.
    filled: Sequence[tuple[int, float]]

    def reached_s(self, size: int) -> float:
        """Return when the first `size` bytes of this part of the stream were complete, in s."""
        return self.filled[bisect_right(self.filled, size - 1, key=lambda part: part[0])][1]


@dataclass
class TcpStream:
    """The captured bytes of one direction of a TCP connection, by offset.

    If a byte was captured several times, the first copy counts.
    """

    #: Parts without overlaps, by offset: offset, time (s) and bytes.
    _parts: list[tuple[int, float, bytes]] = field(default_factory=list)

    def add_segment(self, place: int, data: bytes, at_s: float) -> bool:
        """Add a segment to the stream, and return whether it contains new bytes."""
        end, is_new = place + len(data), False
        at = bisect_right(self._parts, place, key=lambda part: part[0])
        free = place if at == 0 else max(place, _end_offset(self._parts[at - 1]))
        while free < end:
            until = self._parts[at][0] if at < len(self._parts) else end
            if free < until:
                self._parts.insert(at, (free, at_s, data[free - place:min(until, end) - place]))
                is_new = True
                at += 1
            if at >= len(self._parts):
                break
            free = max(free, _end_offset(self._parts[at]))
            at += 1
        return is_new

    def contiguous_parts(self) -> list[TcpSegment]:
        """Return the parts of the TCP stream between gaps."""
        runs: list[list[tuple[int, float, bytes]]] = []
        for part in self._parts:
            if runs and _end_offset(runs[-1][-1]) == part[0]:
                runs[-1].append(part)
            else:
                runs.append([part])
        return [_join_parts(run) for run in runs]


def _end_offset(part: tuple[int, float, bytes]) -> int:
    return part[0] + len(part[2])


def _join_parts(run: Sequence[tuple[int, float, bytes]]) -> TcpSegment:
    first, filled, latest_s = run[0][0], list[tuple[int, float]](), float("-inf")
    for part in run:
        latest_s = max(latest_s, part[1])
        filled.append((_end_offset(part) - first, latest_s))
    return TcpSegment(first, b"".join(data for _, _, data in run), filled)


# --- Messages of a capture, over UDP and TCP ---

_IP_BYTES, _VERSION, _UDP_BYTES, _TCP, _UDP = 20, 4, 8, 6, 17
_LENGTH_BYTES = 4
_SYN, _ACK = 2, 16
#: Prefix of points at hosts that show a client's packets in clear, outside its tunnel.
HOST_POINT_PREFIX = "asked-"


@dataclass(frozen=True)
class WireMessage:
    """A captured message of an application: addresses, start and end time (s), and payload.

    `lead` is the bytes before its length, if there are any (see `read_messages`).
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
class CapturedMessages:
    """The contents of a capture: all messages by time, packet lengths, and retransmissions.

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
    """The captured bytes of one direction of a TCP connection, from its first byte on."""

    first: int | None = None
    bytes: TcpStream = field(default_factory=TcpStream)


@dataclass
class _Datagram:
    """The fragments of an IP packet that were captured so far, by offset.

    `size` is None until the last fragment is there.
    """

    began_s: float
    size: int | None = None
    parts: dict[int, bytes] = field(default_factory=dict)


def read_messages(file: Path, leads: Mapping[int, int] | None = None) -> CapturedMessages:
    """Read all TCP and UDP messages of an Ethernet capture.

    Args:
        file: The capture file.
        leads: Number of bytes before each message's length, by the port of a TCP server.

    Raises:
        MeasureError: The file cannot be read.
    """
    traffic, streams = CapturedMessages(), dict[tuple[str, str, int, int], _Stream]()
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
        whole, began_s = _reassemble_stream(fragments, ip, segment, at_s)
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


def read_messages_by_point(captures: Iterable[Mapping[str, Any]], out: Path, client: str,
                           leads: Mapping[int, int] | None = None) -> dict[str, CapturedMessages]:
    """Read the messages of a repetition's captures by capture point, the client's first.

    Captures at hosts (`HOST_POINT_PREFIX`) show the client's packets unencrypted, so they replace
    the client's own capture.

    Args:
        captures: Summaries of a repetition's captures.
        out: Folder of the captures.
        client: Name of the client's point.
        leads: As for `read_messages`.

    Raises:
        MeasureError: A file cannot be read.
    """
    by_point = {capture["point"]: read_messages(out / capture["file"], leads)
                for capture in captures}
    at_hosts = [traffic for point, traffic in by_point.items()
                if point.startswith(HOST_POINT_PREFIX)]
    at_client = merge_messages(at_hosts) if at_hosts else by_point[client]
    return {client: at_client, **{point: traffic for point, traffic in by_point.items()
                                  if point != client and not point.startswith(HOST_POINT_PREFIX)}}


def merge_messages(parts: Iterable[CapturedMessages]) -> CapturedMessages:
    """Merge the messages of captures that show different packets."""
    merged = CapturedMessages()
    for part in parts:
        for name in ("messages", "packets", "opened_s"):
            getattr(merged, name).extend(getattr(part, name))
        merged.pairs |= part.pairs
        merged.retransmitted += part.retransmitted
    merged.messages.sort(key=lambda message: message.ended_s)
    merged.packets.sort()
    merged.opened_s.sort()
    return merged


def _reassemble_stream(fragments: dict[bytes, _Datagram], ip: bytes, segment: bytes,
                at_s: float) -> tuple[bytes | None, float]:
    """Return the payload of an IP packet, and the time of its first fragment.

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
    """Return whether a SYN starts a new TCP connection on ports that were used before."""
    first = (struct.unpack_from("!I", segment, 4)[0] + 1) & 0xFFFFFFFF
    return bool(segment[13] & _SYN) and stream.first not in (None, first)


def _add_segment(stream: _Stream, segment: bytes, at_s: float) -> int:
    """Add a TCP segment to its stream. Return 1 if it has no new byte (a retransmission)."""
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
    """Yield the messages of a TCP stream up to its first missing byte."""
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


# --- TLS handshake messages in the content of one side's records ---

_HEAD_BYTES, _RECORD_HEAD_BYTES = 4, 5
#: Type of records with handshake messages.
HANDSHAKE = 22
#: Numbers of groups by name in a policy (IANA, TLS Supported Groups).
TLS_GROUPS = {"p-256": 23, "x25519": 29, "mlkem768": 0x0201, "mlkem1024": 0x0202,
              "secp256r1mlkem768": 0x11EB, "x25519mlkem768": 0x11EC, "secp384r1mlkem1024": 0x11ED}


def split_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each TLS handshake message (RFC 8446, 4).

    The last message may be incomplete.
    """
    place = 0
    while place + _HEAD_BYTES <= len(data):
        size = int.from_bytes(data[place + 1:place + _HEAD_BYTES], "big")
        yield data[place], data[place + _HEAD_BYTES:place + _HEAD_BYTES + size]
        place += _HEAD_BYTES + size


def split_records(flight: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of TLS records (RFC 8446, 5.1). The last record may be incomplete."""
    place = 0
    while place + _RECORD_HEAD_BYTES <= len(flight):
        size = int.from_bytes(flight[place + 3:place + _RECORD_HEAD_BYTES], "big")
        yield flight[place], flight[place + _RECORD_HEAD_BYTES:place + _RECORD_HEAD_BYTES + size]
        place += _RECORD_HEAD_BYTES + size


def clear_messages(flight: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each TLS handshake message before the first record of another type.

    Handshake messages that follow are encrypted.
    """
    return split_messages(b"".join(body for _, body in takewhile(
        lambda record: record[0] == HANDSHAKE, split_records(flight))))
