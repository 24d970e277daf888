"""Read Multipath TCP (RFC 8684) from captures: connections, subflows that join them, and data.

`read_segments` takes a capture, and returns a `MptcpSegment` for each TCP segment of the tunnel's
port. `find_connections` returns the connections that were opened in it, with the keys of both ends.
`find_joins` returns the subflows that joined a connection, and whether their HMACs are right.
`reassemble_data` joins the data of one direction by its data sequence numbers, over all subflows.
All values are computed from packets alone.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure.capture import pcap
from measure.capture.pcap import CapturedFrame

#: TCP port of the tunnel.
MPTCP_PORT = 4434
TCP = 6
#: Headers of IPv4 and TCP without options, in bytes.
_IP_BYTES, _TCP_BYTES = 20, 20
_SYN, _RST, _ACK = 0x02, 0x04, 0x10
#: TCP option kinds: end, no operation, MPTCP.
_END, _NO_OPERATION, _MPTCP = 0, 1, 30
#: Subtypes of the MPTCP option (RFC 8684, 8.2).
_CAPABLE, _JOIN, _DSS = 0, 1, 2
_VERSION = 1
#: Flags of DSS: the fields that follow, and their lengths.
_HAS_ACK, _LONG_ACK, _HAS_MAP, _LONG_MAP = 1, 2, 4, 8
#: Length of MP_CAPABLE with both keys and the length of data.
_CAPABLE_WITH_DATA = 22
_KEY_BYTES, _NONCE_BYTES, _TOKEN_BYTES = 8, 4, 4
#: Length of MP_JOIN in SYN, SYN/ACK and ACK, and of the HMACs in the last two.
_JOIN_LENGTHS = {"syn": 12, "syn_ack": 16, "ack": 24}
_SHORT_HMAC, _LONG_HMAC = 8, 20
_SEQUENCES = 1 << 32
Endpoint = tuple[str, int]


@dataclass(frozen=True)
class Mapping:
    """A mapping of a subflow's bytes to data sequence numbers.

    `data` is None for the first bytes of a connection, which MP_CAPABLE maps. `subflow` counts from
    the subflow's initial sequence number.
    """

    data: int | None
    subflow: int
    length: int


@dataclass(frozen=True)
class MptcpSegment:
    """A TCP segment with its MPTCP options.

    - `source`, `target`: address and port
    - `payload`: the captured payload, of `payload_bytes` in all
    - `keys`: keys in MP_CAPABLE of version 1, None without this option
    - `join`: MP_JOIN without its first two bytes, b"" without this option
    """

    time_s: float
    source: Endpoint
    target: Endpoint
    flags: int
    sequence: int
    payload: bytes
    payload_bytes: int
    keys: tuple[bytes, ...] | None
    join: bytes
    mapping: Mapping | None

    @property
    def is_syn(self) -> bool:
        """Return whether the segment asks for a connection or a subflow."""
        return self.flags & (_SYN | _ACK) == _SYN

    @property
    def is_syn_ack(self) -> bool:
        """Return whether the segment accepts a connection or a subflow."""
        return self.flags & (_SYN | _ACK) == _SYN | _ACK


def read_segments(capture: Path) -> list[MptcpSegment]:
    """Return every TCP segment of the tunnel's port in a capture, in order.

    Raises:
        MeasureError: The file is no capture of Ethernet frames.
    """
    return [segment for frame in pcap.read_frames(capture)
            if (segment := parse_segment(frame)) is not None
            and MPTCP_PORT in (segment.source[1], segment.target[1])]


def parse_segment(frame: CapturedFrame) -> MptcpSegment | None:
    """Parse the TCP segment in a frame, which may be truncated after the headers, else None."""
    packet = frame.payload
    if frame.kind != pcap.IPV4 or len(packet) < _IP_BYTES or packet[9] != TCP or int.from_bytes(
            packet[6:8], "big") & pcap.FRAGMENT_OFFSET:
        return None
    start = (packet[0] & 15) * 4
    if len(packet) < start + _TCP_BYTES:
        return None
    source_port, target_port, sequence = struct.unpack_from("!HHI", packet, start)
    end = start + (packet[start + 12] >> 4) * 4
    size = int.from_bytes(packet[2:4], "big")
    source, target = (str(ipaddress.IPv4Address(packet[at:at + 4])) for at in (12, 16))
    keys: tuple[bytes, ...] | None = None
    join, mapping = b"", None
    for body in _mptcp_options(packet[start + _TCP_BYTES:end]):
        kind = body[0] >> 4
        if kind == _CAPABLE and body[0] & 15 == _VERSION:
            keys = tuple(body[at:at + _KEY_BYTES] for at in (2, 10)
                         if len(body) >= at + _KEY_BYTES)
            if len(body) + 2 >= _CAPABLE_WITH_DATA:
                mapping = Mapping(None, 1, int.from_bytes(body[18:20], "big"))
        elif kind == _JOIN:
            join = body
        elif kind == _DSS:
            mapping = _parse_mapping(body)
    return MptcpSegment(frame.at_s, (source, source_port), (target, target_port),
                        packet[start + 13], sequence, packet[end:size], max(0, size - end), keys,
                        join, mapping)


def _mptcp_options(options: bytes) -> Iterator[bytes]:
    """Yield the body of each MPTCP option, after kind and length."""
    at = 0
    while at < len(options) and options[at] != _END:
        if options[at] == _NO_OPERATION:
            at += 1
            continue
        length = options[at + 1] if at + 1 < len(options) else 0
        if length < 2 or at + length > len(options):
            return  # not whole
        if options[at] == _MPTCP and length > 2:
            yield options[at + 2:at + length]
        at += length


def _parse_mapping(body: bytes) -> Mapping | None:
    """Parse the mapping in a DSS option, None without one. Numbers of 4 bytes are not extended."""
    flags = body[1]
    if not flags & _HAS_MAP:
        return None
    at = 2 + (0 if not flags & _HAS_ACK else 8 if flags & _LONG_ACK else 4)
    size = 8 if flags & _LONG_MAP else 4
    if len(body) < at + size + 6:
        return None
    subflow, length = struct.unpack_from("!IH", body, at + size)
    return Mapping(int.from_bytes(body[at:at + size], "big"), subflow, length)


# --- Connections and subflows ---

@dataclass(frozen=True)
class MptcpConnection:
    """A connection that was opened in a capture, with the keys of both ends.

    - `opener`, `listener`: address and port of its ends
    - `opener_key`, `listener_key`: the ends' keys
    """

    time_s: float
    opener: Endpoint
    listener: Endpoint
    opener_key: bytes
    listener_key: bytes


def token_of(key: bytes) -> int:
    """Return the token of a connection at the end that has this key (RFC 8684, 3.1)."""
    return int.from_bytes(hashlib.sha256(key).digest()[:_TOKEN_BYTES], "big")


def first_number(key: bytes) -> int:
    """Return the data sequence number of the first byte from the end that has this key."""
    return (int.from_bytes(hashlib.sha256(key).digest()[-8:], "big") + 1) % (1 << 64)


def find_connections(segments: Sequence[MptcpSegment]) -> list[MptcpConnection]:
    """Return the connections whose ends exchanged keys: in SYN, SYN/ACK and ACK (RFC 8684, 3.1)."""
    found = []
    for syn in {(each.source, each.target): each for each in segments
                if each.is_syn and each.keys is not None}.values():
        answer = next((each for each in segments if each.is_syn_ack and each.keys
                       and (each.source, each.target) == (syn.target, syn.source)), None)
        final = next((each for each in segments if each.keys and len(each.keys) > 1
                      and (each.source, each.target) == (syn.source, syn.target)), None)
        if answer and answer.keys and final and final.keys and final.keys[1] == answer.keys[0]:
            found.append(MptcpConnection(syn.time_s, syn.source, syn.target, *final.keys))
    return found


@dataclass(frozen=True)
class MptcpJoin:
    """A subflow that asked to join a connection.

    - `opener`, `listener`: address and port of its ends
    - `has_token`: whether it has the token of the connection
    - `has_listener_hmac`, `has_opener_hmac`: whether the HMAC in SYN/ACK, and that in ACK, is of
      both keys and both nonces
    - `is_accepted`: whether the listener has answered the ACK, and no end has reset the subflow
    """

    time_s: float
    opener: Endpoint
    listener: Endpoint
    has_token: bool
    has_listener_hmac: bool
    has_opener_hmac: bool
    is_accepted: bool

    @property
    def is_authentic(self) -> bool:
        """Return whether both ends have shown that they have the keys, and use the subflow."""
        return (self.has_token and self.has_listener_hmac and self.has_opener_hmac
                and self.is_accepted)


def find_joins(segments: Sequence[MptcpSegment], connection: MptcpConnection) -> list[MptcpJoin]:
    """Return each subflow that asked to join, and what it proves about a connection."""
    found = []
    for syn in {(each.source, each.target): each for each in segments
                if each.is_syn and len(each.join) + 2 == _JOIN_LENGTHS["syn"]}.values():
        of_subflow = [each for each in segments if {each.source, each.target}
                      == {syn.source, syn.target}]
        answer = next((each.join for each in of_subflow if each.is_syn_ack
                       and len(each.join) + 2 == _JOIN_LENGTHS["syn_ack"]), b"")
        final = next((each.join for each in of_subflow
                      if len(each.join) + 2 == _JOIN_LENGTHS["ack"]), b"")
        is_used = any(each.source == syn.target and not each.flags & _SYN for each in of_subflow)
        nonce, other = syn.join[6:10], answer[10:14]
        a_key, b_key = connection.opener_key, connection.listener_key
        found.append(MptcpJoin(
            syn.time_s, syn.source, syn.target,
            int.from_bytes(syn.join[2:6], "big") == token_of(b_key),
            answer[2:10] == hmac.digest(b_key + a_key, other + nonce, "sha256")[:_SHORT_HMAC],
            bool(other) and final[2:] == hmac.digest(
                a_key + b_key, nonce + other, "sha256")[:_LONG_HMAC],
            is_used and not any(each.flags & _RST for each in of_subflow)))
    return found


# --- Data, over all subflows of a connection ---

@dataclass
class DataStream:
    """The data of one direction of a connection.

    - `data`: bytes from the first one of the connection on, up to the first that is missing
    - `missing`: number of bytes that no segment has, of those before the last
    - `differing`: number of bytes that two segments have with different values
    - `unmapped`: number of payload bytes without a mapping
    - `ends`: data sequence number of the first byte, and of that after the last, by subflow
    """

    data: bytes = b""
    missing: int = 0
    differing: int = 0
    unmapped: int = 0
    ends: dict[frozenset[Endpoint], tuple[int, int]] = field(default_factory=dict)


def reassemble_data(segments: Sequence[MptcpSegment], subflows: Iterable[tuple[Endpoint, Endpoint]],
                    key: bytes) -> DataStream:
    """Reassemble the data that one end of a connection sent on its subflows.

    Args:
        segments: The segments of a capture, each of them whole.
        subflows: The sending end and the other end of each subflow.
        key: The sender's key, from which its first data sequence number follows.
    """
    stream, begin = DataStream(), first_number(key)
    payloads: list[tuple[int, bytes]] = []
    for source, target in subflows:
        sent = [each for each in segments if (each.source, each.target) == (source, target)]
        initial = next((each.sequence for each in sent if each.flags & _SYN), None)
        mappings = [each.mapping for each in sent if each.mapping]
        numbers = []
        for segment in sent:
            if not segment.payload_bytes or segment.flags & _SYN:
                continue
            number = _number_of(segment, initial, mappings, begin)
            if number is None or len(segment.payload) != segment.payload_bytes:
                stream.unmapped += segment.payload_bytes
                continue
            payloads.append((number, segment.payload))
            numbers.append((number, number + segment.payload_bytes))
        if numbers:
            stream.ends[frozenset((source, target))] = (
                min(first for first, _ in numbers), max(last for _, last in numbers))
    _join_payloads(stream, sorted(payloads), begin)
    return stream


def _number_of(segment: MptcpSegment, initial: int | None, mappings: Sequence[Mapping],
               begin: int) -> int | None:
    """Return the data sequence number of a segment's first byte, None if nothing maps it."""
    if initial is None:
        return None
    at = (segment.sequence - initial) % _SEQUENCES
    own = [segment.mapping] if segment.mapping else []
    for mapping in itertools.chain(own, reversed(mappings)):
        offset = at - mapping.subflow
        if offset >= 0 and offset + segment.payload_bytes <= mapping.length:
            return (begin if mapping.data is None else mapping.data) + offset
    return None


def _join_payloads(stream: DataStream, payloads: Sequence[tuple[int, bytes]], begin: int) -> None:
    data, at = bytearray(), begin
    for number, payload in payloads:
        if number > at:
            stream.missing += number - at
            data += bytes(number - at)
            at = number
        start = number - begin
        known = max(0, min(len(payload), at - number))
        stream.differing += sum(a != b for a, b in zip(
            data[max(0, start):start + known], payload[:known], strict=False))
        data += payload[known:]
        at = max(at, number + len(payload))
    stream.data = bytes(data)
