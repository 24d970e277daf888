"""Cipher suites: what encrypts, and how long RSA keys are; each kind of 2002 and of today."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from protocols.kerberos.ciphertext_stealing import BLOCK_BYTES, cts_decrypt, cts_encrypt
from protocols.kerberos.errors import Undecipherable

_DES_BLOCK, _MD5_BYTES, _TAG_BYTES = 8, 16, 24
RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True)
class Suite:
    """An encryption type and what goes with it; `operation` and `rsa` name costs of a device."""

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
        """The name of its public-key algorithm, as devices have it."""
        return f"rsa-{self.rsa_bits}"

    def new_key(self, random_bytes: RandomBytes) -> bytes:
        """A fresh key; one of DES has odd parity and is none of the weak ones."""
        if self.etype == _ETYPE_DES:
            while (key := bytes(_odd(byte) for byte in random_bytes(8))) in _WEAK_DES:
                pass
            return key
        return random_bytes(self.key_bytes)

    def is_weak(self, key: bytes) -> bool:
        """Whether a KDC should not accept a key that somebody else made."""
        return len(key) != self.key_bytes or len(set(key)) <= 2 or key in _WEAK_DES


# --- DES-CBC-MD5 (RFC 3961, 6.2.1) -------------------------------------------------------------

_ETYPE_DES = 3
_WEAK_DES = {bytes.fromhex(text) for text in (
    "0101010101010101", "fefefefefefefefe", "1f1f1f1f0e0e0e0e", "e0e0e0e0f1f1f1f1",
    "011f011f010e010e", "1f011f010e010e01", "01e001e001f101f1", "e001e001f101f101",
    "01fe01fe01fe01fe", "fe01fe01fe01fe01", "1fe01fe00ef10ef1", "e01fe01ff10ef10e",
    "1ffe1ffe0efe0efe", "fe1ffe1ffe0efe0e", "e0fee0fef1fef1fe", "fee0fee0fef1fef1")}


def _odd(byte: int) -> int:
    return byte & 0xFE | (bin(byte >> 1).count("1") + 1) % 2


def _des(key: bytes) -> Cipher[modes.CBC]:
    """DES, by a library that has left it out: triple DES of one key three times."""
    return Cipher(TripleDES(key * 3), modes.CBC(bytes(_DES_BLOCK)))


def _encrypt_des(key: bytes, _usage: int, text: bytes, random_bytes: RandomBytes) -> bytes:
    padded = text + bytes(-len(text) % _DES_BLOCK)
    confounder = random_bytes(_DES_BLOCK)
    checksum = hashlib.md5(confounder + bytes(_MD5_BYTES) + padded).digest()  # noqa: S324
    encryptor = _des(key).encryptor()
    return encryptor.update(confounder + checksum + padded) + encryptor.finalize()


def _decrypt_des(key: bytes, _usage: int, data: bytes) -> bytes:
    if len(data) < _DES_BLOCK + _MD5_BYTES or len(data) % _DES_BLOCK:
        raise Undecipherable("no DES-CBC-MD5")
    decryptor = _des(key).decryptor()
    plain = decryptor.update(data) + decryptor.finalize()
    at = _DES_BLOCK + _MD5_BYTES
    checksum = hashlib.md5(plain[:_DES_BLOCK] + bytes(_MD5_BYTES) + plain[at:]  # noqa: S324
                           ).digest()
    if not hmac.compare_digest(checksum, plain[_DES_BLOCK:at]):
        raise Undecipherable("the key does not open it")
    return plain[at:]


# --- AES256-CTS-HMAC-SHA384-192 (RFC 8009) -----------------------------------------------------

_ETYPE_AES = 20


def _derive(key: bytes, usage: int, kind: int, size: int) -> bytes:
    label = usage.to_bytes(4, "big") + bytes((kind,))
    text = (1).to_bytes(4, "big") + label + b"\0" + (8 * size).to_bytes(4, "big")
    return hmac.digest(key, text, "sha384")[:size]


def _keys(key: bytes, usage: int) -> tuple[bytes, bytes]:
    return _derive(key, usage, 0xAA, 32), _derive(key, usage, 0x55, _TAG_BYTES)


def _encrypt_aes(key: bytes, usage: int, text: bytes, random_bytes: RandomBytes) -> bytes:
    encryption, integrity = _keys(key, usage)
    cipher = cts_encrypt(encryption, random_bytes(BLOCK_BYTES) + text)
    return cipher + hmac.digest(integrity, bytes(BLOCK_BYTES) + cipher, "sha384")[:_TAG_BYTES]


def _decrypt_aes(key: bytes, usage: int, data: bytes) -> bytes:
    if len(data) < BLOCK_BYTES + _TAG_BYTES:
        raise Undecipherable("no AES256-CTS-HMAC-SHA384-192")
    encryption, integrity = _keys(key, usage)
    cipher, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    due = hmac.digest(integrity, bytes(BLOCK_BYTES) + cipher, "sha384")[:_TAG_BYTES]
    if not hmac.compare_digest(tag, due):
        raise Undecipherable("the key does not open it")
    return cts_decrypt(encryption, cipher)[BLOCK_BYTES:]


SUITES = {
    "era": Suite("era", _ETYPE_DES, 8, "des-operation", 1024, hashes.SHA1(),  # noqa: S303
                 _encrypt_des, _decrypt_des),
    "today": Suite("today", _ETYPE_AES, 32, "aes-operation", 2048, hashes.SHA256(),
                   _encrypt_aes, _decrypt_aes)}
