"""Split the content of one side's TLS records into handshake messages."""

from __future__ import annotations

from collections.abc import Iterator

_HEAD_BYTES = 4


def split_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each handshake message (RFC 8446, 4).

    The last message may be incomplete.
    """
    place = 0
    while place + _HEAD_BYTES <= len(data):
        size = int.from_bytes(data[place + 1:place + _HEAD_BYTES], "big")
        yield data[place], data[place + _HEAD_BYTES:place + _HEAD_BYTES + size]
        place += _HEAD_BYTES + size
