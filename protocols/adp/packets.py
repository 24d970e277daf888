"""Encode and parse ADP datagrams (Authenticated Datagram Protocol, secure messages between hosts).

`parse_frame` takes the bytes of a datagram, and returns a `Frame`. It has the fields in clear, such
as a request for a channel, and the protected rest. `parse_body` parses the rest after decryption.
It has signatures of owners (users or services), confirmations (numbers of owners whose signatures
were accepted) and messages of processes. `encode_body` encodes it. The version decides how a body
is protected. For bad input these functions raise only `AdpError` or its subclass `PacketError`.
docs/adp.md lists the fields.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

# --- Errors ---

class AdpError(ValueError):
    """A mistake of the user of the protocol, described in one line."""


class PacketError(AdpError):
    """An error: a datagram is malformed, or not protected as required."""


# --- Message formats ---

_HEADER = struct.Struct("!BBH8s8s")
_MESSAGE = struct.Struct("!HHBI")
_LENGTH = struct.Struct("!H")
_NUMBER = struct.Struct("!HB")
HEADER = _HEADER.size
MESSAGE_HEADER = _MESSAGE.size
MAX_NAME = 255
#: Largest `bound_bytes`, the bytes of user data for which a datagram has room. An IP datagram holds
#: 65515 bytes. So room remains for a request, an acknowledgement, 4 kB of signatures, 255
#: confirmations and a trailer.
MAX_BOUND = 57_344
MAX_MESSAGES_BYTES = MAX_BOUND + MESSAGE_HEADER + MAX_NAME + 1
MAX_SIGNATURES_BYTES = 4096
MAX_CONFIRMATIONS = 255


class MessageKind(enum.IntEnum):
    """A type of ADP datagram: one with content, or a reset for an unknown channel."""

    DATA = 1
    RESET = 2  # the sender knows no such channel


class HeaderFlag:
    """A set of header flags: what a datagram carries, and how it is protected.

    Flags are plain integers, because testing an enumerated flag takes longer than checking a whole
    message.
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
    """A parsed ADP datagram: the fields in clear, and the protected rest.

    - `version`, `kind`, `flags`: version of the protocol, kind of datagram and header flags
    - `count`: number of messages
    - `channel`, `session`: identifiers of the channel, and of the sender's session
    - `request`, `acknowledgement`: request for a channel or key, and the answer to one, if any
    - `sealed`: the protected rest
    """

    version: int
    kind: MessageKind
    flags: int
    count: int
    channel: bytes
    session: bytes
    request: bytes = b""
    acknowledgement: bytes = b""
    sealed: bytes = b""

    def clear_bytes(self) -> bytes:
        """Return the bytes in front of the protected part."""
        clear = _HEADER.pack(self.version << 4 | self.kind, self.flags, self.count, self.channel,
                             self.session)
        if self.flags & HeaderFlag.REQUEST:
            clear += _LENGTH.pack(len(self.request)) + self.request
        if self.flags & HeaderFlag.ACKNOWLEDGE:
            clear += _LENGTH.pack(len(self.acknowledgement)) + self.acknowledgement
        return clear


class OwnerSignature(NamedTuple):
    """The signature of an owner (user or service), with the owner's name and number.

    Messages carry the number instead of the name. `value` is the signature itself.
    """

    number: int
    name: str
    value: bytes


class UserMessage(NamedTuple):
    """A message of a process inside a datagram. `source` is the number of the sending owner."""

    source: int
    destination: str
    port: int
    data: bytes


class ProtectedBody(NamedTuple):
    """The content of a datagram: signatures of owners, confirmations and messages.

    A confirmation is the number of an owner of the other host whose signature was accepted.
    """

    signatures: tuple[OwnerSignature, ...]
    confirmations: tuple[int, ...]
    messages: tuple[UserMessage, ...]


def parse_frame(payload: bytes) -> Frame:
    """Parse the fields of a datagram that are in clear.

    Raises:
        PacketError: the datagram is malformed.
    """
    if len(payload) < HEADER:
        raise PacketError("shorter than a header")
    first, flags, count, channel, session = _HEADER.unpack_from(payload)
    try:
        kind = MessageKind(first & 0x0F)
    except ValueError:
        raise PacketError(f"unknown type {first & 0x0F}") from None
    offset = HEADER
    request = acknowledgement = b""
    if flags & HeaderFlag.REQUEST:
        request, offset = _read_counted(payload, offset)
    if flags & HeaderFlag.ACKNOWLEDGE:
        acknowledgement, offset = _read_counted(payload, offset)
    return Frame(first >> 4, kind, flags, count, channel, session, request, acknowledgement,
                 payload[offset:])


def encode_message(source: int, destination: bytes, port: int, data: bytes) -> bytes:
    """Encode a message of a process as a part of a datagram."""
    return _MESSAGE.pack(source, port, len(destination), len(data)) + destination + data


def encode_body(signatures: Iterable[OwnerSignature], confirmations: Iterable[int],
                messages: Iterable[bytes]) -> bytes:
    """Encode the content of a datagram: signatures, confirmations and messages.

    The messages are already encoded by `encode_message`.
    """
    parts = [b""]
    number_of_signatures = 0
    for number, name, signature in signatures:
        encoded = name.encode()
        parts += [_NUMBER.pack(number, len(encoded)), encoded, _LENGTH.pack(len(signature)),
                  signature]
        number_of_signatures += 1
    numbers = [_LENGTH.pack(number) for number in confirmations]
    parts[0] = bytes((number_of_signatures, len(numbers)))
    return b"".join([*parts, *numbers, *messages])


def parse_body(body: bytes, count: int, padding: int = 1) -> ProtectedBody:
    """Parse the decrypted content of a datagram.

    Args:
        body: the decrypted content.
        count: number of messages in it, from the header.
        padding: fewer than this many zero bytes may follow the last message.

    Raises:
        PacketError: the content is truncated, has trailing bytes, or contains an invalid name.
    """
    if len(body) < 2:
        raise PacketError("no body")
    number_of_signatures, number_of_confirmations = body[0], body[1]
    offset = 2
    signatures = []
    for _ in range(number_of_signatures):
        signature, offset = _parse_signature(body, offset)
        signatures.append(signature)
    end = offset + 2 * number_of_confirmations
    if end > len(body):
        raise PacketError("confirmations are cut short")
    confirmations = struct.unpack_from(f"!{number_of_confirmations}H", body, offset)
    messages, end = _parse_messages(body, end, count)
    trailing = body[end:]
    if len(trailing) >= padding or any(trailing):
        raise PacketError(f"{len(trailing)} bytes too many")
    return ProtectedBody(tuple(signatures), confirmations, tuple(messages))


def name_of(encoded: bytes) -> str:
    """Decode the name of a host, or of an owner (user or service).

    Raises:
        PacketError: the name is empty, or no UTF-8.
    """
    try:
        name = encoded.decode()
    except UnicodeDecodeError:
        raise PacketError("a name that is no UTF-8") from None
    if not name:
        raise PacketError("an empty name")
    return name


def _parse_signature(body: bytes, offset: int) -> tuple[OwnerSignature, int]:
    """Return an owner's signature at an offset, and the offset behind it."""
    end = offset + _NUMBER.size
    if end > len(body):
        raise PacketError("a signature is cut short")
    number, length = _NUMBER.unpack_from(body, offset)
    name = name_of(body[end:end + length])
    signature, offset = _read_counted(body, end + length)
    return OwnerSignature(number, name, signature), offset


def _parse_messages(body: bytes, offset: int, count: int) -> tuple[list[UserMessage], int]:
    """Return the user messages at an offset, and the offset behind them."""
    messages = []
    size = len(body)
    names: dict[bytes, str] = {}
    for _ in range(count):
        start = offset + MESSAGE_HEADER
        if start > size:
            raise PacketError("a user message is cut short")
        source, port, name_length, length = _MESSAGE.unpack_from(body, offset)
        middle = start + name_length
        offset = middle + length
        if offset > size:
            raise PacketError("a user message is cut short")
        encoded = body[start:middle]
        name = names.get(encoded)
        if name is None:
            name = names[encoded] = name_of(encoded)
        messages.append(UserMessage(source, name, port, body[middle:offset]))
    return messages, offset


def _read_counted(data: bytes, offset: int) -> tuple[bytes, int]:
    """Return a field with its length in front, and the offset behind it."""
    start = offset + _LENGTH.size
    if start > len(data):
        raise PacketError("a field is cut short")
    end = start + _LENGTH.unpack_from(data, offset)[0]
    if end > len(data):
        raise PacketError("a field is cut short")
    return data[start:end], end
