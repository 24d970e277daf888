"""ADP messages on the wire, as pure functions on bytes.

Docs/adp.md lists their fields. Both versions share the frame (header, request, acknowledgement) and
the body (signatures of owners, confirmations, user messages). The suite decides how a body is
protected.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from protocols.adp.errors import PacketError

_HEADER = struct.Struct("!BBH8s8s")
_RECORD = struct.Struct("!HHBI")
_LENGTH = struct.Struct("!H")
_NUMBER = struct.Struct("!HB")
HEADER = _HEADER.size
RECORD = _RECORD.size
MAX_NAME = 255
# An IP datagram holds 65515 bytes. With the largest body, room remains for a request, an
# acknowledgement, 4 kB of signatures, 255 confirmations and a trailer.
MAX_BOUND = 57_344
MAX_RECORDS = MAX_BOUND + RECORD + MAX_NAME + 1
MAX_PROOFS = 4096
MAX_CONFIRMED = 255


class Kind(enum.IntEnum):
    """Types of ADP messages."""

    DATA = 1
    RESET = 2  # the sender knows no such channel


class Flag:
    """Flags of the header.

    They are plain integers: testing an enumerated flag takes longer than checking a whole message.
    """

    REQUEST = 0x01  # the message carries a request to establish a channel
    ACKNOWLEDGE = 0x02  # the message carries an acknowledgement (1987: with R)
    REKEY = 0x04  # request and acknowledgement are about the next key of this channel
    SEALED = 0x08  # a body follows
    TRAILER = 0x10  # the trailer is protected
    ALL = 0x20  # the body is encrypted too
    CHECKSUM = 0x40  # the trailer has a checksum of the whole message


@dataclass(frozen=True, slots=True)
class Frame:
    """A parsed ADP message: the cleartext fields, and the sealed part."""

    version: int
    kind: Kind
    flags: int
    count: int
    channel: bytes
    session: bytes
    request: bytes = b""
    acknowledgement: bytes = b""
    sealed: bytes = b""

    def clear_bytes(self) -> bytes:
        """Return the encoded bytes that precede the sealed part."""
        clear = _HEADER.pack(self.version << 4 | self.kind, self.flags, self.count, self.channel,
                             self.session)
        if self.flags & Flag.REQUEST:
            clear += _LENGTH.pack(len(self.request)) + self.request
        if self.flags & Flag.ACKNOWLEDGE:
            clear += _LENGTH.pack(len(self.acknowledgement)) + self.acknowledgement
        return clear


class Proof(NamedTuple):
    """An owner's name and signature, with its number on this channel.

    The owner's messages carry this number instead of its name.
    """

    number: int
    name: str
    signature: bytes


class UserMessage(NamedTuple):
    """A user message inside an ADP message.

    `source` is the owner's number.
    """

    source: int
    destination: str
    port: int
    data: bytes


class ProtectedBody(NamedTuple):
    """The decoded protected part: signatures, confirmations and user messages."""

    proofs: tuple[Proof, ...]
    confirmed: tuple[int, ...]
    records: tuple[UserMessage, ...]


def parse_frame(payload: bytes) -> Frame:
    """Parse a frame. Raises PacketError."""
    if len(payload) < HEADER:
        raise PacketError("shorter than a header")
    first, flags, count, channel, session = _HEADER.unpack_from(payload)
    try:
        kind = Kind(first & 0x0F)
    except ValueError:
        raise PacketError(f"unknown type {first & 0x0F}") from None
    offset = HEADER
    request = acknowledgement = b""
    if flags & Flag.REQUEST:
        request, offset = _read_counted(payload, offset)
    if flags & Flag.ACKNOWLEDGE:
        acknowledgement, offset = _read_counted(payload, offset)
    return Frame(first >> 4, kind, flags, count, channel, session, request, acknowledgement,
                 payload[offset:])


def encode_record(source: int, destination: bytes, port: int, data: bytes) -> bytes:
    """Encode a user message for the body of an ADP message."""
    return _RECORD.pack(source, port, len(destination), len(data)) + destination + data


def encode_body(proofs: Iterable[Proof], confirmed: Iterable[int],
                records: Iterable[bytes]) -> bytes:
    """Encode a body from signatures, confirmations and user messages.

    The user messages are already encoded by `encode_record`.
    """
    parts = [b""]
    number_of_proofs = 0
    for number, name, signature in proofs:
        encoded = name.encode()
        parts += [_NUMBER.pack(number, len(encoded)), encoded, _LENGTH.pack(len(signature)),
                  signature]
        number_of_proofs += 1
    numbers = [_LENGTH.pack(number) for number in confirmed]
    parts[0] = bytes((number_of_proofs, len(numbers)))
    return b"".join([*parts, *numbers, *records])


def parse_body(body: bytes, count: int, padding: int = 1) -> ProtectedBody:
    """Parse a body with `count` user messages.

    Args:
        body: The decrypted body.
        count: Number of user messages in it, from the header.
        padding: Fewer than this many zero bytes may follow the last user message.

    Raises:
        PacketError: The body is truncated, has trailing bytes, or contains an invalid name.
    """
    if len(body) < 2:
        raise PacketError("no body")
    number_of_proofs, number_confirmed = body[0], body[1]
    offset = 2
    proofs = []
    for _ in range(number_of_proofs):
        proof, offset = _parse_proof(body, offset)
        proofs.append(proof)
    end = offset + 2 * number_confirmed
    if end > len(body):
        raise PacketError("confirmations are cut short")
    confirmed = struct.unpack_from(f"!{number_confirmed}H", body, offset)
    records, end = _parse_records(body, end, count)
    rest = body[end:]
    if len(rest) >= padding or any(rest):
        raise PacketError(f"{len(rest)} bytes too many")
    return ProtectedBody(tuple(proofs), confirmed, tuple(records))


def name_of(encoded: bytes) -> str:
    """Decode the name of an owner or a host. Raises PacketError."""
    try:
        name = encoded.decode()
    except UnicodeDecodeError:
        raise PacketError("a name that is no UTF-8") from None
    if not name:
        raise PacketError("an empty name")
    return name


def _parse_proof(body: bytes, offset: int) -> tuple[Proof, int]:
    end = offset + _NUMBER.size
    if end > len(body):
        raise PacketError("a signature is cut short")
    number, length = _NUMBER.unpack_from(body, offset)
    name = name_of(body[end:end + length])
    signature, offset = _read_counted(body, end + length)
    return Proof(number, name, signature), offset


def _parse_records(body: bytes, offset: int, count: int) -> tuple[list[UserMessage], int]:
    records = []
    size = len(body)
    names: dict[bytes, str] = {}
    for _ in range(count):
        start = offset + RECORD
        if start > size:
            raise PacketError("a user message is cut short")
        source, port, name_length, length = _RECORD.unpack_from(body, offset)
        middle = start + name_length
        offset = middle + length
        if offset > size:
            raise PacketError("a user message is cut short")
        encoded = body[start:middle]
        name = names.get(encoded)
        if name is None:
            name = names[encoded] = name_of(encoded)
        records.append(UserMessage(source, name, port, body[middle:offset]))
    return records, offset


def _read_counted(data: bytes, offset: int) -> tuple[bytes, int]:
    start = offset + _LENGTH.size
    if start > len(data):
        raise PacketError("a field is cut short")
    end = start + _LENGTH.unpack_from(data, offset)[0]
    if end > len(data):
        raise PacketError("a field is cut short")
    return data[start:end], end
