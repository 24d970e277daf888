"""Decryption of AES256-CTS-HMAC-SHA1-96 (RFC 3962) with key derivation of RFC 3961.

Many realms still use this encryption type.
"""

from __future__ import annotations

import hmac
import math

from protocols.kerberos.ciphertext_stealing import BLOCK_BYTES, apply_cbc, cts_decrypt
from protocols.kerberos.errors import Undecipherable

ETYPE = 18
_TAG_BYTES = 12
_ENCRYPTION, _INTEGRITY = 0xAA, 0x55


def decrypt(key: bytes, usage: int, data: bytes) -> bytes:
    """Decrypt data. Raises Undecipherable if the key does not open the data."""
    if len(data) < BLOCK_BYTES + _TAG_BYTES:
        raise Undecipherable("no AES256-CTS-HMAC-SHA1-96")
    number = usage.to_bytes(4, "big")
    plain = cts_decrypt(derive_key(key, number + bytes((_ENCRYPTION,))), data[:-_TAG_BYTES])
    integrity = derive_key(key, number + bytes((_INTEGRITY,)))
    due = hmac.digest(integrity, plain, "sha1")[:_TAG_BYTES]  # over the plain text, unlike RFC 8009
    if not hmac.compare_digest(data[-_TAG_BYTES:], due):
        raise Undecipherable("the key does not open it")
    return plain[BLOCK_BYTES:]


def derive_key(key: bytes, constant: bytes) -> bytes:
    """Return DK, the key derived from a key and a constant (RFC 3961 section 5.1)."""
    made, block = b"", fold_bits(constant, BLOCK_BYTES)
    while len(made) < len(key):
        block = apply_cbc(key, block, encrypts=True)
        made += block
    return made[:len(key)]


def fold_bits(text: bytes, size: int) -> bytes:
    """Return the n-fold of a text with `size` bytes (RFC 3961 section 5.1).

    Copies of the text are added, each rotated by 13 bits more than the previous one.
    """
    total = math.lcm(len(text), size)
    bits, number = 8 * len(text), int.from_bytes(text, "big")
    copies = b"".join(
        ((number >> turn | number << (bits - turn)) & ((1 << bits) - 1)).to_bytes(len(text), "big")
        for turn in (13 * count % bits for count in range(total // len(text))))
    # Ones' complement has an end-around carry, which is arithmetic modulo all ones.
    ones = (1 << 8 * size) - 1
    added = sum(int.from_bytes(copies[at:at + size], "big") for at in range(0, total, size))
    return ((added - 1) % ones + 1 if added else 0).to_bytes(size, "big")
