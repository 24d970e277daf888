"""The receiver chooses packets by a keyed function of their number, so nobody else can guess them.

Whoever is told the secret afterwards can recompute every choice: that is how a recorded level is
checked. A packet chosen at one level is chosen at every higher one.
"""

from __future__ import annotations

import hashlib
import struct

_NUMBER = struct.Struct("!IQ")
_RANGE = 2 ** 64
SECRET_BYTES = 32


def is_chosen(secret: bytes, purpose: bytes, place: tuple[int, int], share: float) -> bool:
    """Whether the packet at `place` (stream, sequence) is among `share` of all packets.

    `purpose` ("verify", "shed") makes choices independent of each other.
    """
    value = hashlib.blake2b(_NUMBER.pack(*place), digest_size=8, key=secret, person=purpose)
    return int.from_bytes(value.digest(), "big") < share * _RANGE
