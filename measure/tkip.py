"""Mix a TKIP frame's RC4 key from the temporal key, the transmitter and the TSC.

IEEE 802.11-2020, 12.5.2.5: byte pairs through an S-box derived from AES's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

_WORD, _BYTE = 0xFFFF, 0xFF
#: Polynomial of Rijndael's field: x^8 + x^4 + x^3 + x + 1.
_FIELD, _AFFINE = 0x11B, 0x63
_ROUNDS, _WORDS = 8, 5


def frame_key(temporal_key: bytes, sender: bytes, number: int) -> bytes:
    """Return the RC4 key of a frame from a temporal key's first 16 bytes.

    Args:
        temporal_key: The temporal key.
        sender: The transmitter address.
        number: The TKIP sequence counter (TSC).
    """
    high, low = number >> 16, number & _WORD
    keys = struct.unpack("<8H", temporal_key[:16])
    mixed = _mix_phase_1(keys, sender, high)
    words = [*mixed, (mixed[4] + low) & _WORD]
    for at in range(6):
        words[at] = (words[at] + _substitute(words[at - 1] ^ keys[at])) & _WORD
    for at in range(6):
        turned = words[at - 1] ^ keys[at + 6] if at < 2 else words[at - 1]
        words[at] = (words[at] + (turned >> 1 | (turned & 1) << 15)) & _WORD
    head = bytes((low >> 8, (low >> 8 | 0x20) & 0x7F, low & _BYTE,
                  (words[5] ^ keys[0]) >> 1 & _BYTE))
    return head + struct.pack("<6H", *words)


def _mix_phase_1(keys: Sequence[int], sender: bytes, high: int) -> list[int]:
    """Return the result of phase 1, which 65536 frames share."""
    words = [high & _WORD, high >> 16, *struct.unpack("<3H", sender)]
    for turn in range(_ROUNDS):
        for at in range(_WORDS):
            key = keys[(at % 4) * 2 + (turn & 1)]
            words[at] = (words[at] + _substitute(words[at - 1] ^ key)) & _WORD
        words[4] = (words[4] + turn) & _WORD
    return words


def _substitute(word: int) -> int:
    table = _substitution_table()
    swapped = table[word >> 8]
    return table[word & _BYTE] ^ (swapped >> 8 | (swapped & _BYTE) << 8)


@lru_cache(maxsize=1)
def _substitution_table() -> list[int]:
    """Return the S-box: for each byte, twice and three times AES's S-box value.

    The products are in Rijndael's field.
    """
    table = [0] * 256
    for byte in range(256):
        inverse = next((other for other in range(256) if _multiply(byte, other) == 1), 0)
        made = _AFFINE
        for turn in range(5):
            made ^= (inverse << turn | inverse >> (8 - turn)) & _BYTE
        table[byte] = _multiply(made, 2) << 8 | _multiply(made, 3)
    return table


def _multiply(one: int, other: int) -> int:
    product = 0
    while other:
        if other & 1:
            product ^= one
        one <<= 1
        if one > _BYTE:
            one ^= _FIELD
        other >>= 1
    return product
