"""Reader of DER without a schema: tags, contents and the original bytes of a value."""

from __future__ import annotations

from dataclasses import dataclass

_LONG = 0x80


@dataclass(frozen=True)
class DerValue:
    """A DER value: its tag byte, its content and its complete encoding."""

    tag: int
    content: bytes
    whole: bytes

    @property
    def parts(self) -> list[DerValue]:
        """Return the values inside this value. Raises ValueError."""
        return parse_values(self.content)

    def find_tagged(self, tag: int) -> DerValue:
        """Return the first part with this tag. Raises ValueError."""
        for part in self.parts:
            if part.tag == tag:
                return part
        raise ValueError(f"nothing tagged {tag:#x}")


def parse_values(data: bytes) -> list[DerValue]:
    """Parse consecutive values. Raises ValueError."""
    values, place = [], 0
    while place < len(data):
        value = parse_first(data[place:])
        values.append(value)
        place += len(value.whole)
    return values


def parse_first(data: bytes) -> DerValue:
    """Parse the value at the begin of data. Raises ValueError."""
    if len(data) < 2:
        raise ValueError("no value")
    size, at = data[1], 2
    if size & _LONG:
        at += size & ~_LONG
        size = int.from_bytes(data[2:at], "big")
    if at + size > len(data):
        raise ValueError("a value is cut short")
    return DerValue(data[0], data[at:at + size], data[:at + size])
