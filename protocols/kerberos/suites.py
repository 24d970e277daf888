"""Implement two Kerberos cipher suites: encryption type and RSA key length of 2002 and today.

`SUITES` has both by name. The suite of 2002 is DES-CBC-MD5, that of today
AES256-CTS-HMAC-SHA384-192. Each `CipherSuite` encrypts and decrypts parts of messages, and
generates keys. `cts_encrypt` and `cts_decrypt` are CBC with ciphertext stealing. All nodes of
`protocols.kerberos` and the checks of captures use a suite.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from protocols.kerberos.messages import DecryptionError

# --- AES-CBC with ciphertext stealing, for texts of at least one block (RFC 3962) ---

BLOCK_BYTES = 16


def apply_cbc(key: bytes, data: bytes, *, encrypts: bool) -> bytes:
    """Encrypt or decrypt complete blocks with CBC and a zero initialisation vector."""
    cipher = Cipher(AES(key), modes.CBC(bytes(BLOCK_BYTES)))
    context = cipher.encryptor() if encrypts else cipher.decryptor()
    return context.update(data) + context.finalize()


def cts_encrypt(key: bytes, text: bytes) -> bytes:
    """Encrypt with ciphertext stealing: the last two blocks are swapped, the last is truncated."""
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


# --- Interface of an encryption type ---

_DES_BLOCK, _MD5_BYTES, _TAG_BYTES = 8, 16, 24
RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True)
class CipherSuite:
    """An encryption type with its parameters.

    - `etype`: its number (RFC 3961)
    - `key_bytes`, `rsa_bits`: sizes of symmetric and of RSA keys
    - `operation`, `rsa`: names of its operations in a device file
    - `signature_hash`: hash of signatures
    - `encrypt`, `decrypt`: functions of key, key usage number and data
    """

    name: str
    etype: int
    key_bytes: int
    operation: str
    rsa_bits: int
    signature_hash: hashes.HashAlgorithm
    encrypt: Callable[[bytes, int, bytes, RandomBytes], bytes]
    decrypt: Callable[[bytes, int, bytes], bytes]

    @property
    def rsa(self) -> str:
        """Return the name of the RSA operation in a device file."""
        return f"rsa-{self.rsa_bits}"

    def new_key(self, random_bytes: RandomBytes) -> bytes:
        """Generate a key. A DES key has odd parity and is not a weak key."""
        if self.etype == _ETYPE_DES:
            while (key := bytes(_odd_parity(byte) for byte in random_bytes(8))) in _WEAK_DES:
                pass
            return key
        return random_bytes(self.key_bytes)

    def is_weak(self, key: bytes) -> bool:
        """Return whether a KDC should refuse a key that another node generated."""
        return len(key) != self.key_bytes or len(set(key)) <= 2 or key in _WEAK_DES


# --- DES-CBC-MD5 (RFC 3961, 6.2.1) ---

_ETYPE_DES = 3
_WEAK_DES = {bytes.fromhex(text) for text in (
    "0101010101010101", "fefefefefefefefe", "1f1f1f1f0e0e0e0e", "e0e0e0e0f1f1f1f1",
    "011f011f010e010e", "1f011f010e010e01", "01e001e001f101f1", "e001e001f101f101",
    "01fe01fe01fe01fe", "fe01fe01fe01fe01", "1fe01fe00ef10ef1", "e01fe01ff10ef10e",
    "1ffe1ffe0efe0efe", "fe1ffe1ffe0efe0e", "e0fee0fef1fef1fe", "fee0fee0fef1fef1")}


def _odd_parity(byte: int) -> int:
    return byte & 0xFE | (bin(byte >> 1).count("1") + 1) % 2


def _des_cipher(key: bytes) -> Cipher[modes.CBC]:
    """Return a DES cipher: triple DES with three equal keys, because the library has no DES."""
    return Cipher(TripleDES(key * 3), modes.CBC(bytes(_DES_BLOCK)))


def _encrypt_des(key: bytes, _usage: int, text: bytes, random_bytes: RandomBytes) -> bytes:
    padded = text + bytes(-len(text) % _DES_BLOCK)
    confounder = random_bytes(_DES_BLOCK)
    checksum = hashlib.md5(confounder + bytes(_MD5_BYTES) + padded).digest()  # noqa: S324
    encryptor = _des_cipher(key).encryptor()
    return encryptor.update(confounder + checksum + padded) + encryptor.finalize()


def _decrypt_des(key: bytes, _usage: int, data: bytes) -> bytes:
    if len(data) < _DES_BLOCK + _MD5_BYTES or len(data) % _DES_BLOCK:
        raise DecryptionError("no DES-CBC-MD5")
    decryptor = _des_cipher(key).decryptor()
    plain = decryptor.update(data) + decryptor.finalize()
    at = _DES_BLOCK + _MD5_BYTES
    checksum = hashlib.md5(plain[:_DES_BLOCK] + bytes(_MD5_BYTES) + plain[at:]  # noqa: S324
                           ).digest()
    if not hmac.compare_digest(checksum, plain[_DES_BLOCK:at]):
        raise DecryptionError("the key does not open it")
    return plain[at:]


# --- AES256-CTS-HMAC-SHA384-192 (RFC 8009) ---

_ETYPE_AES = 20


def _derive_key(key: bytes, usage: int, kind: int, size: int) -> bytes:
    label = usage.to_bytes(4, "big") + bytes((kind,))
    text = (1).to_bytes(4, "big") + label + b"\0" + (8 * size).to_bytes(4, "big")
    return hmac.digest(key, text, "sha384")[:size]


def _derive_keys(key: bytes, usage: int) -> tuple[bytes, bytes]:
    """Return the encryption key (Ke) and the integrity key (Ki) for a key usage number."""
    return _derive_key(key, usage, 0xAA, 32), _derive_key(key, usage, 0x55, _TAG_BYTES)


def _encrypt_aes(key: bytes, usage: int, text: bytes, random_bytes: RandomBytes) -> bytes:
    encryption, integrity = _derive_keys(key, usage)
    cipher = cts_encrypt(encryption, random_bytes(BLOCK_BYTES) + text)
    return cipher + hmac.digest(integrity, bytes(BLOCK_BYTES) + cipher, "sha384")[:_TAG_BYTES]


def _decrypt_aes(key: bytes, usage: int, data: bytes) -> bytes:
    if len(data) < BLOCK_BYTES + _TAG_BYTES:
        raise DecryptionError("no AES256-CTS-HMAC-SHA384-192")
    encryption, integrity = _derive_keys(key, usage)
    cipher, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    due = hmac.digest(integrity, bytes(BLOCK_BYTES) + cipher, "sha384")[:_TAG_BYTES]
    if not hmac.compare_digest(tag, due):
        raise DecryptionError("the key does not open it")
    return cts_decrypt(encryption, cipher)[BLOCK_BYTES:]


SUITES = {
    "era": CipherSuite("era", _ETYPE_DES, 8, "des-operation", 1024, hashes.SHA1(),  # noqa: S303
                       _encrypt_des, _decrypt_des),
    "today": CipherSuite("today", _ETYPE_AES, 32, "aes-operation", 2048, hashes.SHA256(),
                         _encrypt_aes, _decrypt_aes)}
