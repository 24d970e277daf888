"""DER is walked where no schema is needed: tags, contents, and the bytes of a part as sent."""

from __future__ import annotations

from dataclasses import dataclass

_LONG = 0x80


@dataclass(frozen=True)
class DerValue:
    """A value: its tag's byte, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes

    @property
    def parts(self) -> list[DerValue]:
        """What is in it, one after the other. Raises ValueError."""
        return parts(self.content)

    def tagged(self, tag: int) -> DerValue:
        """The first part of that tag. Raises ValueError."""
        for part in self.parts:
            if part.tag == tag:
                return part
        raise ValueError(f"nothing tagged {tag:#x}")


def parts(data: bytes) -> list[DerValue]:
    """Values one after the other. Raises ValueError."""
    values, place = [], 0
    while place < len(data):
        value = first(data[place:])
        values.append(value)
        place += len(value.whole)
    return values


def first(data: bytes) -> DerValue:
    """The value at the beginning. Raises ValueError."""
    if len(data) < 2:
        raise ValueError("no value")
    size, at = data[1], 2
    if size & _LONG:
        at += size & ~_LONG
        size = int.from_bytes(data[2:at], "big")
    if at + size > len(data):
        raise ValueError("a value is cut short")
    return DerValue(data[0], data[at:at + size], data[:at + size])
