"""Reader of keytab files in MIT krb5's format 5.2."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_VERSION = b"\x05\x02"


def read_keytab(file: Path) -> dict[str, bytes]:
    """Return keys by `NAME@REALM`.

    The last key of a principal wins. Raises ValueError for another format, and OSError.
    """
    data = file.read_bytes()
    if data[:2] != _VERSION:
        raise ValueError(f"{file.name} is not a keytab of format 5.2")
    return dict(_parse_entries(data))


def _parse_entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    place = len(_VERSION)
    while place + 4 <= len(data):
        (size,) = struct.unpack_from("!i", data, place)
        place += 4
        if size > 0:  # holes of removed entries have a negative size
            yield _parse_entry(data[place:place + size])
        place += abs(size)


def _parse_entry(data: bytes) -> tuple[str, bytes]:
    (components,) = struct.unpack_from("!H", data)
    place, texts = 2, []
    for _ in range(components + 1):
        text, place = _read_counted(data, place)
        texts.append(text.decode())
    place += 4 + 4 + 1 + 2  # name type, time, key version, key type
    key, _ = _read_counted(data, place)
    realm, *names = texts
    return f"{'/'.join(names)}@{realm}", key


def _read_counted(data: bytes, place: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from("!H", data, place)
    return data[place + 2:place + 2 + size], place + 2 + size
