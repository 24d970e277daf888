"""AES-CBC with ciphertext stealing, for texts of at least one block (RFC 3962)."""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

BLOCK_BYTES = 16


def apply_cbc(key: bytes, data: bytes, *, encrypts: bool) -> bytes:
    """Encrypt or decrypt whole blocks with CBC and a zero initialisation vector."""
    cipher = Cipher(AES(key), modes.CBC(bytes(BLOCK_BYTES)))
    context = cipher.encryptor() if encrypts else cipher.decryptor()
    return context.update(data) + context.finalize()


def cts_encrypt(key: bytes, text: bytes) -> bytes:
    """Encrypt with ciphertext stealing.

    The last two blocks are swapped, and the last is truncated.
    """
    cipher = apply_cbc(key, text + bytes(-len(text) % BLOCK_BYTES), encrypts=True)
    if len(cipher) == BLOCK_BYTES:
        return cipher
    head, last = cipher[:-2 * BLOCK_BYTES], cipher[-BLOCK_BYTES:]
    return (head + last + cipher[-2 * BLOCK_BYTES:-BLOCK_BYTES])[:len(text)]


def cts_decrypt(key: bytes, data: bytes) -> bytes:
    """Decrypt data of `cts_encrypt`."""
    if len(data) == BLOCK_BYTES:
        return apply_cbc(key, data, encrypts=False)
    size = len(data) % BLOCK_BYTES or BLOCK_BYTES
    head, last, cut = data[:-size - BLOCK_BYTES], data[-size - BLOCK_BYTES:-size], data[-size:]
    opened = Cipher(AES(key), modes.ECB()).decryptor().update(last)  # noqa: S305 - one block
    stolen = cut + opened[size:]
    before = head[-BLOCK_BYTES:] if head else bytes(BLOCK_BYTES)
    plain = apply_cbc(key, head, encrypts=False) if head else b""
    block = Cipher(AES(key), modes.CBC(before)).decryptor().update(stolen)
    return plain + block + bytes(left ^ right for left, right in zip(opened, cut, strict=False))
