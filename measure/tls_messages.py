"""TLS's handshake messages are told apart, in what the records of one side carry."""

from __future__ import annotations

from collections.abc import Iterator

_HEAD_BYTES = 4


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and body of each (RFC 8446, 4); the last one as far as it is there."""
    place = 0
    while place + _HEAD_BYTES <= len(data):
        size = int.from_bytes(data[place + 1:place + _HEAD_BYTES], "big")
        yield data[place], data[place + _HEAD_BYTES:place + _HEAD_BYTES + size]
        place += _HEAD_BYTES + size
