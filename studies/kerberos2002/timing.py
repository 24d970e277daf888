"""Timing of Table I's operations on the processor of the judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, CipherAlgorithm, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

#: Block of text as in the paper, and exponent of the public keys.
_TEXT, _EXPONENT = bytes(64), 65537
_BATCH_S, _BATCHES = 0.01, 5


def time_operations() -> dict[str, float]:
    """Return the seconds of each operation of Table I: the fastest of several batches.

    The library has DES as triple DES with one key only.
    """
    return {name: _time_operation(operation) for name, operation in _make_operations().items()}


def _make_operations() -> Mapping[str, Callable[[], object]]:
    made: dict[str, Callable[[], object]] = {
        "DES-56": _make_encryption(TripleDES(bytes(range(8)) * 3)),
        "3DES-112": _make_encryption(TripleDES(bytes(range(16)) + bytes(range(8)))),
        "AES-128": _make_encryption(AES(bytes(range(16))))}
    for bits in (1024, 2048):
        key = rsa.generate_private_key(_EXPONENT, bits)
        encrypt = partial(key.public_key().encrypt, _TEXT, padding.PKCS1v15())
        made[f"RSA-{bits}-encrypt"] = encrypt
        made[f"RSA-{bits}-decrypt"] = partial(key.decrypt, encrypt(), padding.PKCS1v15())
    return made


def _make_encryption(algorithm: CipherAlgorithm) -> Callable[[], object]:
    cipher = Cipher(algorithm, modes.CBC(bytes(8 if isinstance(algorithm, TripleDES) else 16)))

    def encrypt() -> object:
        encryptor = cipher.encryptor()
        return encryptor.update(_TEXT) + encryptor.finalize()
    return encrypt


def _time_operation(operation: Callable[[], object]) -> float:
    """Return the processor seconds of one operation, unaffected by other load."""
    took = []
    for _ in range(_BATCHES):
        count, begun_s = 0, time.thread_time()
        while (spent_s := time.thread_time() - begun_s) < _BATCH_S:
            operation()
            count += 1
        took.append(spent_s / count)
    return min(took)
