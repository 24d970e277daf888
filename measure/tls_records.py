"""TLS 1.3 between two ports of TCP is opened from a capture, with lines of a server's key log.

A capture may begin long after the connection was made: then no dissector knows how many records
have gone before, which each record's nonce counts. Here that number is looked for (RFC 8446, 5.3
and 7.3).
"""

from __future__ import annotations

import hmac
import ipaddress
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from measure import pcap, tls_messages

HANDSHAKE, APPLICATION_DATA = 22, 23
_CHANGE_CIPHER_SPEC = 20
_IPV4, _TCP, _IP_BYTES, _TCP_BYTES = 0x0800, 6, 20, 20
_RECORD = struct.Struct("!BHH")
#: So many records of a connection are tried before the first that a capture has.
_MOST_BEFORE = 1 << 14
#: Whose secrets are whose, in a key log; those of the handshake come first.
_OF_CLIENT = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0")
_OF_SERVER = ("SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0")
#: By the bytes of a secret: its hash, and what a record may be under.
_SUITES: dict[int, list[tuple[str, str, int, type[AESGCM] | type[ChaCha20Poly1305]]]] = {
    48: [("AES-256-GCM", "sha384", 32, AESGCM)],
    32: [("AES-128-GCM", "sha256", 16, AESGCM),
         ("ChaCha20-Poly1305", "sha256", 32, ChaCha20Poly1305)]}


@dataclass(frozen=True)
class TlsRecord:
    """A record, opened or not: its content's type, the content, and the suite that opened it.

    What could not be opened has no `suite`; what was never closed has "clear".
    """

    at_s: float
    #: "ADDRESS:PORT to ADDRESS:PORT".
    ends: str
    is_servers: bool
    kind: int
    content: bytes
    suite: str


def read(file: Path, port: int, keys: Iterable[str]) -> list[TlsRecord]:
    """All records to and from a server's port, by time. Raises MeasureError.

    Bytes that are no record, or that a capture lacks, are one of kind 0 that is not opened.
    """
    secrets = [_secret(line) for line in dict.fromkeys(keys) if line.count(" ") == 2]
    records: list[TlsRecord] = []
    for (ends, is_servers), segments in _flows(file, port).items():
        names = _OF_SERVER if is_servers else _OF_CLIENT
        opener = _Opener([secret for name in names for of, secret in secrets if of == name])
        for at_s, kind, data in _records(segments):
            records.append(TlsRecord(at_s, ends, is_servers, *opener.open(kind, data)))
    return sorted(records, key=lambda record: record.at_s)


def handshakes(records: Iterable[TlsRecord]) -> list[tuple[int, bytes]]:
    """Type and body of each handshake message, of one side's records in their order."""
    return list(tls_messages.messages(
        b"".join(record.content for record in records if record.kind == HANDSHAKE)))


def _secret(line: str) -> tuple[str, bytes]:
    label, _, secret = line.split(" ")
    return label, bytes.fromhex(secret)


def _flows(file: Path, port: int) -> dict[tuple[str, bool], list[tuple[float, int, bytes]]]:
    """Segments with data: time, number of the first byte, bytes; by both ends and the side."""
    flows: dict[tuple[str, bool], list[tuple[float, int, bytes]]] = defaultdict(list)
    for frame in pcap.frames(file):
        packet = frame.payload
        if frame.kind != _IPV4 or len(packet) < _IP_BYTES + _TCP_BYTES or packet[9] != _TCP:
            continue
        start = (packet[0] & 15) * 4
        source_port, target_port, number = struct.unpack_from("!HHI", packet, start)
        data = packet[start + (packet[start + 12] >> 4) * 4:int.from_bytes(packet[2:4], "big")]
        if port not in (source_port, target_port) or not data:
            continue
        ends = (f"{ipaddress.IPv4Address(packet[at:at + 4])}:{port_there}"
                for at, port_there in ((12, source_port), (16, target_port)))
        flows[" to ".join(ends), source_port == port].append((frame.at_s, number, data))
    return flows


def _records(segments: Sequence[tuple[float, int, bytes]]) -> Iterator[tuple[float, int, bytes]]:
    """Each record of one direction: when it was whole, its type, and what is in it."""
    first, pending, taken = segments[0][1], b"", 0
    # Numbers go around at 2^32; what was sent again is there already.
    ordered = sorted(((number - first + (1 << 31)) % (1 << 32) - (1 << 31), at_s, data)
                     for at_s, number, data in segments)
    for offset, at_s, data in ordered:
        if offset > taken:
            yield at_s, 0, pending
            pending, taken = b"", offset
        pending += data[taken - offset:]
        taken = max(taken, offset + len(data))
        while len(pending) >= _RECORD.size:
            kind, version, size = _RECORD.unpack_from(pending)
            if version >> 8 != 3:
                yield at_s, 0, pending
                pending = b""
            if len(pending) < _RECORD.size + size:
                break
            yield at_s, kind, pending[:_RECORD.size + size]
            pending = pending[_RECORD.size + size:]
    if pending:
        yield segments[-1][0], 0, pending


class _Opener:
    """Opens one direction's records: each with what opened the last one, or else by trying all."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._ways = [_Way(name, secret, digest, size, cipher) for secret in secrets
                      for name, digest, size, cipher in _SUITES.get(len(secret), ())]
        self._way: _Way | None = None
        self._number = 0

    def open(self, kind: int, record: bytes) -> tuple[int, bytes, str]:
        """Type, content and suite of a record (without the last if it stays closed)."""
        if kind in (HANDSHAKE, _CHANGE_CIPHER_SPEC):
            return kind, record[_RECORD.size:], "clear"
        if kind != APPLICATION_DATA:
            return kind, b"", ""
        if self._way is not None:
            inner = self._way.open(self._number + 1, record)
            if inner is not None:
                return self._found(self._way, self._number + 1, inner)
        for number in range(_MOST_BEFORE):
            for way in self._ways:
                inner = way.open(number, record)
                if inner is not None:
                    return self._found(way, number, inner)
        self._ways = []  # nor will it open those that follow
        return kind, b"", ""

    def _found(self, way: _Way, number: int, inner: bytes) -> tuple[int, bytes, str]:
        self._way, self._number = way, number
        content = inner.rstrip(b"\0")
        return content[-1], content[:-1], way.name


class _Way:
    """A suite's cipher under one secret."""

    def __init__(self, name: str, secret: bytes, digest: str, size: int,
                 cipher: type[AESGCM] | type[ChaCha20Poly1305]) -> None:
        self.name = name
        self._cipher = cipher(_expanded(secret, b"key", size, digest))
        self._vector = int.from_bytes(_expanded(secret, b"iv", 12, digest), "big")

    def open(self, number: int, record: bytes) -> bytes | None:
        """The inside of the record of this number; None if it is another one's."""
        nonce = (self._vector ^ number).to_bytes(12, "big")
        try:
            return self._cipher.decrypt(nonce, record[_RECORD.size:], record[:_RECORD.size])
        except InvalidTag:
            return None


def _expanded(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """HKDF-Expand-Label without a context; what is asked for fits into one block of the hash."""
    name = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0"
    return hmac.digest(secret, info + b"\1", digest)[:size]
