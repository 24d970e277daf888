"""Read and write the fields of Authenticast's datagrams (numbers, texts and byte strings).

Authenticast streams signed packets over UDP. The modules `messages` and `packets` use this to
encode and parse datagrams. `FieldReader` takes the bytes of a datagram, and returns field after
field. It refuses a datagram that is too short or too long by a PacketError. `kind_of` returns the
type of a datagram.
"""

from __future__ import annotations

import enum
import struct
from typing import Any

VERSION = 1
# The longest UDP payload over IPv4. Longer datagrams are refused without parsing.
MAX_DATAGRAM = 65507


class PacketError(ValueError):
    """An error: a datagram does not have the format of its message type."""


class MessageKind(enum.IntEnum):
    """The type of a datagram: the low half of its first byte. The high half is the version."""

    DATA = 1
    BUNDLE = 2
    REPORT = 3
    CONTROL = 4
    CHANGE = 5
    ACK = 6
    HELLO = 7
    HELLO_ACK = 8
    BYE = 9
    DISCLOSE = 10

    @property
    def first_byte(self) -> int:
        """Return the first byte of such a datagram: version and type."""
        return VERSION << 4 | self


def kind_of(data: bytes) -> MessageKind:
    """Return the type of a datagram by its first byte.

    Raises:
        PacketError: version or type is unknown.
    """
    if not data or len(data) > MAX_DATAGRAM:
        raise PacketError(f"a datagram of {len(data)} bytes")
    if data[0] >> 4 != VERSION:
        raise PacketError(f"version {data[0] >> 4}")
    try:
        return MessageKind(data[0] & 0x0F)
    except ValueError:
        raise PacketError(f"message type {data[0] & 0x0F}") from None


class FieldReader:
    """A reader that takes fields from the front of a datagram, one after the other.

    All methods raise PacketError if bytes are missing. Call `check_end` after the last field.
    """

    def __init__(self, data: bytes, kind: MessageKind) -> None:
        if kind_of(data) is not kind:
            raise PacketError(f"not a message of type {kind.name}")
        self._data = data
        self.offset = 1

    def read_numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read big-endian numbers of the given format."""
        return layout.unpack(self.read_bytes(layout.size))

    def read_bytes(self, count: int) -> bytes:
        """Read `count` bytes."""
        end = self.offset + count
        if end > len(self._data):
            raise PacketError(f"cut short at {len(self._data)} of {end} bytes")
        taken = self._data[self.offset:end]
        self.offset = end
        return taken

    def read_text(self) -> str:
        """Read a text field: a length of one byte, then UTF-8."""
        try:
            return self.read_bytes(self.read_bytes(1)[0]).decode()
        except UnicodeDecodeError:
            raise PacketError("a name that is no UTF-8") from None

    def read_block(self) -> bytes:
        """Read a byte string: a length of two bytes, then the bytes."""
        return self.read_bytes(int.from_bytes(self.read_bytes(2), "big"))

    def read_rest(self) -> bytes:
        """Read all remaining bytes of the datagram."""
        return self.read_bytes(len(self._data) - self.offset)

    def check_end(self) -> None:
        """Refuse a datagram that has bytes left after its last field."""
        if self.offset != len(self._data):
            raise PacketError(f"{len(self._data) - self.offset} bytes too many")


def encode_text(value: str) -> bytes:
    """Encode a text field as `FieldReader.read_text` expects it."""
    data = value.encode()
    if len(data) > 255:
        raise ValueError(f"{value[:20]}...: a name has at most 255 bytes")
    return bytes((len(data),)) + data


def encode_block(value: bytes) -> bytes:
    """Encode a byte string as `FieldReader.read_block` expects it."""
    return len(value).to_bytes(2, "big") + value
