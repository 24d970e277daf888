"""A reader takes fields out of a datagram and refuses one that is cut short or has too much."""

from __future__ import annotations

import enum
import struct
from typing import Any

VERSION = 1
# A datagram that no network of ours fragments needlessly; longer ones are refused unread.
MAX_DATAGRAM = 65507


class PacketError(ValueError):
    """A datagram that is not the message it should be."""


class Kind(enum.IntEnum):
    """Message types: the low half of the first byte, the high half is the version."""

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
        """Version and type."""
        return VERSION << 4 | self


def kind_of(data: bytes) -> Kind:
    """What a datagram says it is. Raises PacketError."""
    if not data or len(data) > MAX_DATAGRAM:
        raise PacketError(f"a datagram of {len(data)} bytes")
    if data[0] >> 4 != VERSION:
        raise PacketError(f"version {data[0] >> 4}")
    try:
        return Kind(data[0] & 0x0F)
    except ValueError:
        raise PacketError(f"message type {data[0] & 0x0F}") from None


class Reader:
    """Takes fields from the front; whoever reads to the end calls `end`."""

    def __init__(self, data: bytes, kind: Kind) -> None:
        if kind_of(data) is not kind:
            raise PacketError(f"not a message of type {kind.name}")
        self._data = data
        self.offset = 1

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        """Numbers in a fixed form."""
        return form.unpack(self.raw(form.size))

    def raw(self, count: int) -> bytes:
        """This many bytes."""
        end = self.offset + count
        if end > len(self._data):
            raise PacketError(f"cut short at {len(self._data)} of {end} bytes")
        taken = self._data[self.offset:end]
        self.offset = end
        return taken

    def text(self) -> str:
        """A length in one byte, then UTF-8."""
        try:
            return self.raw(self.raw(1)[0]).decode()
        except UnicodeDecodeError:
            raise PacketError("a name that is no UTF-8") from None

    def block(self) -> bytes:
        """A length in two bytes, then as many bytes."""
        return self.raw(int.from_bytes(self.raw(2), "big"))

    def rest(self) -> bytes:
        """All that is left."""
        return self.raw(len(self._data) - self.offset)

    def end(self) -> None:
        """Refuse what nobody has taken."""
        if self.offset != len(self._data):
            raise PacketError(f"{len(self._data) - self.offset} bytes too many")


def text(value: str) -> bytes:
    """The form that `Reader.text` takes."""
    data = value.encode()
    if len(data) > 255:
        raise ValueError(f"{value[:20]}...: a name has at most 255 bytes")
    return bytes((len(data),)) + data


def block(value: bytes) -> bytes:
    """The form that `Reader.block` takes."""
    return len(value).to_bytes(2, "big") + value
