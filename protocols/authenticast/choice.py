"""Secret choice of the packets to verify, by a keyed function of their number.

Without the receiver's secret, no other party can predict the choice. With the secret, disclosed
afterwards, every choice can be recomputed: a recorded level is checked that way. A packet chosen at
one level is chosen at every higher level.
"""

from __future__ import annotations

import hashlib
import struct

_NUMBER = struct.Struct("!IQ")
_RANGE = 2 ** 64
SECRET_BYTES = 32


def is_chosen(secret: bytes, purpose: bytes, packet_id: tuple[int, int], share: float) -> bool:
    """Return whether a packet is among a given share of all packets.

    Args:
        secret: Key of the choice, at most 64 bytes (BLAKE2b).
        purpose: `verify` or `shed`, at most 16 bytes. Makes choices independent of each other.
        packet_id: Stream and sequence number of the packet.
        share: Share of packets to choose, 0 to 1.
    """
    value = hashlib.blake2b(_NUMBER.pack(*packet_id), digest_size=8, key=secret, person=purpose)
    return int.from_bytes(value.digest(), "big") < share * _RANGE
