"""Decrypt TLS 1.3 between two TCP ports in a capture with a server's key log.

A capture may begin long after the connection. Then no dissector knows the number of earlier
records, from which each record's nonce follows. Here that number is searched (RFC 8446, 5.3 and
7.3).
"""

from __future__ import annotations

import hmac
import ipaddress
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from measure import pcap, tls_messages
from measure.tcp_stream import TcpStream, stream_offset

HANDSHAKE, APPLICATION_DATA = 22, 23
_CHANGE_CIPHER_SPEC = 20
_IPV4, _TCP, _IP_BYTES, _TCP_BYTES = 0x0800, 6, 20, 20
_SYN, _ACK = 0x02, 0x10
_RECORD = struct.Struct("!BHH")
#: Content types of records, and the most bytes of a record (RFC 8446, 5.2).
_KINDS, _LARGEST_BYTES = range(20, 24), (1 << 14) + 256
#: Start of an application data record: type, and the legacy version (5.1).
_DATA_HEAD = bytes((APPLICATION_DATA, 3, 3))
#: Kind of a partial record, whose rest is not captured.
_CUT = -1
#: Upper limit of the number of records before the first captured one.
_MOST_BEFORE = 1 << 14
#: Labels of a key log by side; the handshake's secrets come first.
_OF_CLIENT = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0")
_OF_SERVER = ("SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0")
#: By the length of a secret: hash, key length and cipher of possible suites.
_SUITES: dict[int, list[tuple[str, str, int, type[AESGCM] | type[ChaCha20Poly1305]]]] = {
    48: [("AES-256-GCM", "sha384", 32, AESGCM)],
    32: [("AES-128-GCM", "sha256", 16, AESGCM),
         ("ChaCha20-Poly1305", "sha256", 32, ChaCha20Poly1305)]}


@dataclass(frozen=True)
class TlsRecord:
    """A TLS record: content type, content, and the suite that decrypted it.

    `suite` is "" if the record was not decrypted, and "clear" if it was not encrypted.
    """

    at_s: float
    #: "ADDRESS:PORT to ADDRESS:PORT".
    ends: str
    is_servers: bool
    kind: int
    content: bytes
    suite: str


def read_records(file: Path, port: int, keys: Iterable[str]) -> list[TlsRecord]:
    """Return all records to and from a server's port, by time.

    Bytes that are no record, or are missing in the capture, form a record of kind 0 that is not
    decrypted. A record that is cut off at the capture's start or end is left out, if others of its
    flow decrypt.

    Args:
        file: The capture file.
        port: The server's TCP port.
        keys: Lines of a key log.

    Raises:
        MeasureError: The file cannot be read.
    """
    secrets = [_parse_secret(line) for line in dict.fromkeys(keys) if line.count(" ") == 2]
    records: list[TlsRecord] = []
    for (ends, is_servers), flow in _read_flows(file, port).items():
        names = _OF_SERVER if is_servers else _OF_CLIENT
        opener = _Opener([secret for name in names for of, secret in secrets if of == name])
        of_flow = [(TlsRecord(at_s, ends, is_servers, *opener.decrypt(kind, data)), kind)
                   for at_s, kind, data in _split_records(flow)]
        is_tls = any(record.suite for record, _ in of_flow)
        records += [record for record, kind in of_flow if not (is_tls and kind == _CUT)]
    return sorted(records, key=lambda record: record.at_s)


def handshake_messages(records: Iterable[TlsRecord]) -> list[tuple[int, bytes]]:
    """Return type and body of each handshake message in one side's records, in order."""
    return list(tls_messages.split_messages(
        b"".join(record.content for record in records if record.kind == HANDSHAKE)))


def _parse_secret(line: str) -> tuple[str, bytes]:
    label, _, secret = line.split(" ")
    return label, bytes.fromhex(secret)


@dataclass
class _Flow:
    """The captured bytes of one direction of a connection."""

    stream: TcpStream = field(default_factory=TcpStream)
    #: Sequence number of the byte at offset 0: the connection's first byte if its start is
    #: captured, else the first captured byte.
    first: int | None = None
    has_beginning: bool = False
    #: Acknowledged offsets, in capture order.
    acknowledged: list[int] = field(default_factory=list)


def _read_flows(file: Path, port: int) -> dict[tuple[str, bool], _Flow]:
    """Read the flows to and from a port.

    Keys are both ends of the flow, and whether the server sends.
    """
    flows: dict[tuple[str, bool], _Flow] = defaultdict(_Flow)
    acknowledged: list[tuple[tuple[str, bool], int]] = []
    for frame in pcap.read_frames(file):
        packet = frame.payload
        if frame.kind != _IPV4 or len(packet) < _IP_BYTES + _TCP_BYTES or packet[9] != _TCP:
            continue
        start = (packet[0] & 15) * 4
        source_port, target_port, number, acks = struct.unpack_from("!HHII", packet, start)
        data = packet[start + (packet[start + 12] >> 4) * 4:int.from_bytes(packet[2:4], "big")]
        if port not in (source_port, target_port):
            continue
        ends = [f"{ipaddress.IPv4Address(packet[at:at + 4])}:{port_there}"
                for at, port_there in ((12, source_port), (16, target_port))]
        is_servers, flags = source_port == port, packet[start + 13]
        if flags & _ACK:
            acknowledged.append(((" to ".join(reversed(ends)), not is_servers), acks))
        if not (data or flags & _SYN):
            continue
        flow = flows[" to ".join(ends), is_servers]
        if flags & _SYN:
            number += 1
            flow.has_beginning = True
        flow.first = number if flow.first is None else flow.first
        flow.stream.add_segment(stream_offset(number, flow.first), data, frame.at_s)
    for key, number in acknowledged:
        if key in flows and (first := flows[key].first) is not None:
            flows[key].acknowledged.append(stream_offset(number, first))
    return flows


def _split_records(flow: _Flow) -> Iterator[tuple[float, int, bytes]]:
    """Yield time of completion, type and bytes of each record of a flow.

    Missing or malformed bytes have kind 0. Records cut off by the capture's start or end have kind
    _CUT.
    """
    end = 0
    for number, piece in enumerate(flow.stream.contiguous_parts()):
        is_first = number == 0 and flow.has_beginning and piece.place <= 0
        if (number or flow.has_beginning) and not is_first and not _is_on_its_way(
                flow, end, piece.place):
            yield piece.reached_s(1), 0, b""
        place = 0 if is_first else _first_record(piece.data)
        if place:
            yield piece.reached_s(place), 0 if place > _LARGEST_BYTES else _CUT, piece.data[:place]
        while size := _record_bytes(piece.data, place):
            if place + size > len(piece.data):
                break
            yield piece.reached_s(place + size), piece.data[place], piece.data[place:place + size]
            place += size
        rest = piece.data[place:]
        if rest:
            is_begun = len(rest) < _RECORD.size or bool(_record_bytes(piece.data, place))
            yield piece.reached_s(len(piece.data)), _CUT if is_begun else 0, rest
        end = piece.place + len(piece.data)


def _is_on_its_way(flow: _Flow, begin: int, end: int) -> bool:
    """Return whether missing bytes passed before the capture, or after its end.

    The receiver's acknowledgements show that. If a later one covers the bytes, they passed during
    the capture.
    """
    acknowledged = flow.acknowledged or [begin]
    return acknowledged[0] >= end or max(acknowledged) <= begin


def _record_bytes(data: bytes, place: int) -> int:
    """Return the length of the record that begins there, with its header, or 0."""
    if len(data) < place + _RECORD.size:
        return 0
    kind, version, size = _RECORD.unpack_from(data, place)
    is_one = kind in _KINDS and version >> 8 == 3 and 0 < size <= _LARGEST_BYTES
    return _RECORD.size + size if is_one else 0


def _first_record(data: bytes) -> int:
    """Return the offset of the first application data record in the middle of a stream.

    Another record, or the end, must follow it; that happens by chance once in ten million. Without
    such a record the result is the length of the data.
    """
    for place in range(len(data)):
        at, size = place, _record_bytes(data, place) * data.startswith(_DATA_HEAD, place)
        while size and at + size + _RECORD.size <= len(data):
            at += size
            size = _record_bytes(data, at)
        if size:
            return place
    return len(data)


class _Opener:
    """A decrypter of one direction's records.

    It tries the cipher of the last record first, then all others.
    """

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._ways = [_Way(name, secret, digest, size, cipher) for secret in secrets
                      for name, digest, size, cipher in _SUITES.get(len(secret), ())]
        self._way: _Way | None = None
        self._number = 0

    def decrypt(self, kind: int, record: bytes) -> tuple[int, bytes, str]:
        """Return type, content and suite of a record.

        The suite is "" if the record stays encrypted.
        """
        if kind in (HANDSHAKE, _CHANGE_CIPHER_SPEC):
            return kind, record[_RECORD.size:], "clear"
        if kind != APPLICATION_DATA:
            return max(kind, 0), b"", ""
        if self._way is not None:
            inner = self._way.decrypt(self._number + 1, record)
            if inner is not None:
                return self._remember_cipher(self._way, self._number + 1, inner)
        for number in range(_MOST_BEFORE):
            for way in self._ways:
                inner = way.decrypt(number, record)
                if inner is not None:
                    return self._remember_cipher(way, number, inner)
        self._ways = []  # it cannot decrypt later records either
        return kind, b"", ""

    def _remember_cipher(self, way: _Way, number: int, inner: bytes) -> tuple[int, bytes, str]:
        self._way, self._number = way, number
        content = inner.rstrip(b"\0")
        return content[-1], content[:-1], way.name


class _Way:
    """A suite's cipher under one secret."""

    def __init__(self, name: str, secret: bytes, digest: str, size: int,
                 cipher: type[AESGCM] | type[ChaCha20Poly1305]) -> None:
        self.name = name
        self._cipher = cipher(_expand_label(secret, b"key", size, digest))
        self._vector = int.from_bytes(_expand_label(secret, b"iv", 12, digest), "big")

    def decrypt(self, number: int, record: bytes) -> bytes | None:
        """Decrypt a record under its number, or return None if the number is wrong."""
        nonce = (self._vector ^ number).to_bytes(12, "big")
        try:
            return self._cipher.decrypt(nonce, record[_RECORD.size:], record[:_RECORD.size])
        except InvalidTag:
            return None


def _expand_label(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """Return HKDF-Expand-Label without context, for output within one hash block."""
    name = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0"
    return hmac.digest(secret, info + b"\1", digest)[:size]
