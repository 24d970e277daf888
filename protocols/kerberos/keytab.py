"""Read keytab files of MIT krb5, and decrypt tickets with their keys.

The checks of the study `krb5today` use both on captured messages. `read_keytab` takes a file of
format 5.2, and returns its keys by `NAME@REALM`. `decrypt_aes256` takes a key, a key usage and
encrypted data of type AES256-CTS-HMAC-SHA1-96. `derive_aes256_key` and `fold_bits` are functions of
RFC 3961.
"""

from __future__ import annotations

import hmac
import math
import struct
from collections.abc import Iterator
from pathlib import Path

from protocols.kerberos.messages import DecryptionError
from protocols.kerberos.suites import BLOCK_BYTES, apply_cbc, cts_decrypt

_VERSION = b"\x05\x02"


def read_keytab(file: Path) -> dict[str, bytes]:
    """Read a keytab file, and return its keys by `NAME@REALM`.

    If a principal has several keys, the last one is returned.

    Raises:
        ValueError: the file has another format.
        OSError: the file cannot be read.
    """
    data = file.read_bytes()
    if data[:2] != _VERSION:
        raise ValueError(f"{file.name} is not a keytab of format 5.2")
    return dict(_parse_entries(data))


def _parse_entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield principal and key of each entry of a keytab file."""
    place = len(_VERSION)
    while place + 4 <= len(data):
        (size,) = struct.unpack_from("!i", data, place)
        place += 4
        if size > 0:  # holes of removed entries have a negative size
            yield _parse_entry(data[place:place + size])
        place += abs(size)


def _parse_entry(data: bytes) -> tuple[str, bytes]:
    """Return the principal (NAME@REALM) and the key of an entry."""
    (components,) = struct.unpack_from("!H", data)
    place, texts = 2, []
    for _ in range(components + 1):
        text, place = _read_counted(data, place)
        texts.append(text.decode())
    place += 4 + 4 + 1 + 2  # name type, time, key version, key type
    key, _ = _read_counted(data, place)
    realm, *names = texts
    return f"{'/'.join(names)}@{realm}", key


def _read_counted(data: bytes, place: int) -> tuple[bytes, int]:
    """Return a field with its length in front, and the offset behind it."""
    (size,) = struct.unpack_from("!H", data, place)
    return data[place + 2:place + 2 + size], place + 2 + size


# --- Decryption of AES256-CTS-HMAC-SHA1-96 (RFC 3962), with key derivation of RFC 3961 ---
# Many realms still use this encryption type.

AES256_ETYPE = 18
_TAG_BYTES = 12
_ENCRYPTION, _INTEGRITY = 0xAA, 0x55


def decrypt_aes256(key: bytes, usage: int, data: bytes) -> bytes:
    """Decrypt data of the encryption type AES256-CTS-HMAC-SHA1-96.

    Raises:
        DecryptionError: the key does not fit the data.
    """
    if len(data) < BLOCK_BYTES + _TAG_BYTES:
        raise DecryptionError("no AES256-CTS-HMAC-SHA1-96")
    number = usage.to_bytes(4, "big")
    plain = cts_decrypt(derive_aes256_key(key, number + bytes((_ENCRYPTION,))), data[:-_TAG_BYTES])
    integrity = derive_aes256_key(key, number + bytes((_INTEGRITY,)))
    due = hmac.digest(integrity, plain, "sha1")[:_TAG_BYTES]  # over the plain text, unlike RFC 8009
    if not hmac.compare_digest(data[-_TAG_BYTES:], due):
        raise DecryptionError("the key does not open it")
    return plain[BLOCK_BYTES:]


def derive_aes256_key(key: bytes, constant: bytes) -> bytes:
    """Derive a key from a key and a constant: function DK of RFC 3961, section 5.1."""
    output, block = b"", fold_bits(constant, BLOCK_BYTES)
    while len(output) < len(key):
        block = apply_cbc(key, block, encrypts=True)
        output += block
    return output[:len(key)]


def fold_bits(text: bytes, size: int) -> bytes:
    """Compute the n-fold of a text to `size` bytes (RFC 3961, section 5.1).

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
