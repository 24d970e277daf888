"""Payloads of messages, computed from a seed.

They are random bytes, which resemble no other data in a capture.
"""

from __future__ import annotations

import random
import zlib

_POOL_BYTES = 1 << 16
_STEP = 7919
#: Bytes of a payload that a search of a capture looks for.
PIECE_BYTES = 16


class Payload:
    """The data of messages, cut out of seeded random bytes."""

    def __init__(self, seed: int) -> None:
        self._pool = random.Random(seed).randbytes(2 * _POOL_BYTES)  # noqa: S311

    def message_data(self, number: int, size: int) -> bytes:
        """Return the data of a message by its number in the trace."""
        start = number * _STEP % _POOL_BYTES
        return self._pool[start:start + size]

    def message_checksum(self, number: int, size: int) -> int:
        """Return the CRC-32 that the receiver logs for a message."""
        return zlib.crc32(self.message_data(number, size))

    def all_pieces(self) -> frozenset[bytes]:
        """Return every piece of 16 bytes that a payload can contain."""
        pool = self._pool
        return frozenset(pool[at:at + PIECE_BYTES] for at in range(len(pool) - PIECE_BYTES + 1))
