"""The payload of every message is known to whoever knows the seed, and looks like nothing else."""

from __future__ import annotations

import random
import zlib

_POOL_BYTES = 1 << 16
_STEP = 7919
#: What is sought of a payload in a capture.
PIECE_BYTES = 16


class Payload:
    """Messages' data, cut out of seeded random bytes."""

    def __init__(self, seed: int) -> None:
        self._pool = random.Random(seed).randbytes(2 * _POOL_BYTES)  # noqa: S311

    def of(self, number: int, size: int) -> bytes:
        """The data of a message by its number in the trace."""
        start = number * _STEP % _POOL_BYTES
        return self._pool[start:start + size]

    def checksum(self, number: int, size: int) -> int:
        """What its receiver notes of it."""
        return zlib.crc32(self.of(number, size))

    def pieces(self) -> frozenset[bytes]:
        """Every piece of 16 bytes that some payload may hold."""
        pool = self._pool
        return frozenset(pool[at:at + PIECE_BYTES] for at in range(len(pool) - PIECE_BYTES + 1))
