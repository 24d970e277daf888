"""Reader and encoders for the fields of a datagram.

The reader refuses a datagram that is too short or too long.
"""

from __future__ import annotations

import enum
import struct
from typing import Any

VERSION = 1
# The longest UDP payload over IPv4. Longer datagrams are refused without parsing.
MAX_DATAGRAM = 65507


class PacketError(ValueError):
    """A datagram that does not have the format of its message type."""


class Kind(enum.IntEnum):
    """The type of a message.

    It is the low half of the first byte. The high half is the version.
    """

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
        """Return the first byte of the message: version and type."""
        return VERSION << 4 | self


def kind_of(data: bytes) -> Kind:
    """Return the message type of a datagram. Raises PacketError."""
    if not data or len(data) > MAX_DATAGRAM:
        raise PacketError(f"a datagram of {len(data)} bytes")
    if data[0] >> 4 != VERSION:
        raise PacketError(f"version {data[0] >> 4}")
    try:
        return Kind(data[0] & 0x0F)
    except ValueError:
        raise PacketError(f"message type {data[0] & 0x0F}") from None


class Reader:
    """A reader of fields from the front of a datagram.

    All methods raise PacketError. Call `check_end` after the last field.
    """

    def __init__(self, data: bytes, kind: Kind) -> None:
        if kind_of(data) is not kind:
            raise PacketError(f"not a message of type {kind.name}")
        self._data = data
        self.offset = 1

    def read_numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read numbers in a fixed format."""
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
        """Read a length of one byte and as many bytes of UTF-8."""
        try:
            return self.read_bytes(self.read_bytes(1)[0]).decode()
        except UnicodeDecodeError:
            raise PacketError("a name that is no UTF-8") from None

    def read_block(self) -> bytes:
        """Read a length of two bytes and as many bytes."""
        return self.read_bytes(int.from_bytes(self.read_bytes(2), "big"))

    def read_rest(self) -> bytes:
        """Read all remaining bytes."""
        return self.read_bytes(len(self._data) - self.offset)

    def check_end(self) -> None:
        """Refuse a datagram that has bytes left."""
        if self.offset != len(self._data):
            raise PacketError(f"{len(self._data) - self.offset} bytes too many")


def encode_text(value: str) -> bytes:
    """Encode a string for `Reader.read_text`."""
    data = value.encode()
    if len(data) > 255:
        raise ValueError(f"{value[:20]}...: a name has at most 255 bytes")
    return bytes((len(data),)) + data


def encode_block(value: bytes) -> bytes:
    """Encode bytes for `Reader.read_block`."""
    return len(value).to_bytes(2, "big") + value
