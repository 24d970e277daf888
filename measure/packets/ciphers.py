"""Compute Wi-Fi's cryptography to decrypt captures: TKIP keys, key expansion, AES and 3DES.

Modules that decrypt captured frames, such as `measure.packets.truncated_frames`, call these
functions. All return bytes. `frame_key` returns the RC4 key of a TKIP frame from the temporal key,
the transmitter and the TSC (IEEE 802.11-2020, 12.5.2.5). `expand_sha1` and `expand_kdf` derive the
keys of a handshake. `transform_blocks` encrypts or decrypts single blocks of AES or 3DES, from
which other modules build modes of operation. `compute_cmac` computes AES-CMAC.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import subprocess
from collections.abc import Sequence
from functools import lru_cache

_WORD, _BYTE = 0xFFFF, 0xFF
#: Polynomial of Rijndael's field: x^8 + x^4 + x^3 + x + 1.
_FIELD, _AFFINE = 0x11B, 0x63
_ROUNDS, _WORDS = 8, 5


def frame_key(temporal_key: bytes, sender: bytes, number: int) -> bytes:
    """Return the RC4 key of a TKIP frame.

    Args:
        temporal_key: The temporal key, of which the first 16 bytes are used.
        sender: The transmitter address.
        number: The TKIP sequence counter (TSC).
    """
    high, low = number >> 16, number & _WORD
    keys = struct.unpack("<8H", temporal_key[:16])
    mixed = _mix_phase_1(keys, sender, high)
    words = [*mixed, (mixed[4] + low) & _WORD]
    for at in range(6):
        words[at] = (words[at] + _substitute_bytes(words[at - 1] ^ keys[at])) & _WORD
    for at in range(6):
        turned = words[at - 1] ^ keys[at + 6] if at < 2 else words[at - 1]
        words[at] = (words[at] + (turned >> 1 | (turned & 1) << 15)) & _WORD
    head = bytes((low >> 8, (low >> 8 | 0x20) & 0x7F, low & _BYTE,
                  (words[5] ^ keys[0]) >> 1 & _BYTE))
    return head + struct.pack("<6H", *words)


def _mix_phase_1(keys: Sequence[int], sender: bytes, high: int) -> list[int]:
    """Return the result of phase 1 of TKIP key mixing, which 65536 frames share."""
    words = [high & _WORD, high >> 16, *struct.unpack("<3H", sender)]
    for turn in range(_ROUNDS):
        for at in range(_WORDS):
            key = keys[(at % 4) * 2 + (turn & 1)]
            words[at] = (words[at] + _substitute_bytes(words[at - 1] ^ key)) & _WORD
        words[4] = (words[4] + turn) & _WORD
    return words


def _substitute_bytes(word: int) -> int:
    table = _substitution_table()
    swapped = table[word >> 8]
    return table[word & _BYTE] ^ (swapped >> 8 | (swapped & _BYTE) << 8)


@lru_cache(maxsize=1)
def _substitution_table() -> list[int]:
    """Return TKIP's S-box: for each byte, twice and three times AES's S-box value.

    The products are in Rijndael's field.
    """
    table = [0] * 256
    for byte in range(256):
        inverse = next((other for other in range(256) if _multiply_bytes(byte, other) == 1), 0)
        substitute = _AFFINE
        for turn in range(5):
            substitute ^= (inverse << turn | inverse >> (8 - turn)) & _BYTE
        table[byte] = _multiply_bytes(substitute, 2) << 8 | _multiply_bytes(substitute, 3)
    return table


def _multiply_bytes(one: int, other: int) -> int:
    product = 0
    while other:
        if other & 1:
            product ^= one
        one <<= 1
        if one > _BYTE:
            one ^= _FIELD
        other >>= 1
    return product


# --- Keys of a four-way handshake ---

#: Label of the keys for one station, and length of a SHA-1 digest.
PAIRWISE_LABEL, _SHA1_BYTES = b"Pairwise key expansion", 20


def expand_sha1(master: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """Return `size` bytes of 802.11's key expansion with SHA-1 (PRF, 802.11-2020, 12.7.1.2)."""
    return b"".join(hmac.digest(master, label + b"\0" + seed + bytes((number,)), "sha1")
                    for number in range(-(-size // _SHA1_BYTES)))[:size]


def expand_kdf(master: bytes, label: bytes, seed: bytes, size: int, digest: str) -> bytes:
    """Return `size` bytes of 802.11's key derivation function (KDF, 802.11-2020, 12.7.1.6.2)."""
    bits = (size * 8).to_bytes(2, "little")
    return b"".join(hmac.digest(master, number.to_bytes(2, "little") + label + seed + bits, digest)
                    for number in range(1, 1 - (-size // hashlib.new(digest).digest_size)))[:size]


# --- Single blocks, for modes of operation on truncated data ---

#: openssl's names; the key size in bits is inserted where several exist.
_OPENSSL = {"aes": "aes-{}-ecb", "3des": "des-ede3-ecb"}


def transform_blocks(cipher: str, key: bytes, blocks: bytes, *, decrypts: bool = False) -> bytes:
    """Encrypt or decrypt each block on its own (ECB), with "aes" or "3des"."""
    try:
        # Imported here: the container image lacks it and has openssl, which starts more slowly.
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import ECB
    except ImportError:
        return subprocess.run(
            ["openssl", "enc", "-" + _OPENSSL[cipher].format(len(key) * 8), "-nopad", "-K",
             key.hex(), *(["-d"] if decrypts else [])],
            input=blocks, stdout=subprocess.PIPE, check=True).stdout
    # ECB: each of thousands of frames has its own counter or vector, which a mode would need
    # separately.
    tool = Cipher(AES(key) if cipher == "aes" else TripleDES(key), ECB())  # noqa: S305
    return (tool.decryptor() if decrypts else tool.encryptor()).update(blocks)


def compute_cmac(key: bytes, data: bytes) -> bytes:
    """Return the AES-CMAC of data (RFC 4493)."""
    try:
        # Imported here: as in `transform_blocks`.
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.cmac import CMAC
    except ImportError:
        return subprocess.run(
            ["openssl", "mac", "-cipher", f"AES-{len(key) * 8}-CBC", "-macopt",
             f"hexkey:{key.hex()}", "-binary", "CMAC"],
            input=data, stdout=subprocess.PIPE, check=True).stdout
    cmac = CMAC(AES(key))
    cmac.update(data)
    return cmac.finalize()
