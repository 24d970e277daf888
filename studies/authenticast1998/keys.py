"""Verification of a run's signatures with its public keys, by the cryptography library alone."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

_DSA, _RSA, _ED25519 = 1, 2, 3
_PEM_END = "-----END PUBLIC KEY-----"
_KINDS: Mapping[type, int] = {
    dsa.DSAPublicKey: _DSA, rsa.RSAPublicKey: _RSA, ed25519.Ed25519PublicKey: _ED25519}


class Key:
    """A party's public keys: one for each algorithm of a server. The first one identifies it."""

    def __init__(self, pem: str) -> None:
        self._keys = {}
        for text in pem.split(_PEM_END)[:-1]:
            key = serialization.load_pem_public_key((text + _PEM_END).encode())
            self._keys[next(number for kind, number in _KINDS.items()
                            if isinstance(key, kind))] = key

    @property
    def algorithm(self) -> int:
        """Return the number of the first algorithm on the wire."""
        return next(iter(self._keys))

    def has_signed(self, purpose: str, session: bytes, message: bytes, signature: bytes,
                   algorithm: int = 0) -> bool:
        """Return whether this key signed the message for this purpose in this session."""
        text = b"authenticast/1 " + purpose.encode() + b"\0" + session + message
        key = self._keys.get(algorithm or self.algorithm)
        try:
            if isinstance(key, dsa.DSAPublicKey):
                half = len(signature) // 2
                der = encode_dss_signature(int.from_bytes(signature[:half], "big"),
                                           int.from_bytes(signature[half:], "big"))
                key.verify(der, text, hashes.SHA256())
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
            elif isinstance(key, ed25519.Ed25519PublicKey):
                key.verify(signature, text)
            else:
                return False
        except (InvalidSignature, ValueError):
            return False
        return True

    def has_signed_block(self, purpose: str, session: bytes, message: bytes, block: bytes) -> bool:
        """Return whether a signature block of a message is valid.

        The block names the algorithm, which is also signed.
        """
        return block[:1] == bytes((self.algorithm,)) and self.has_signed(
            purpose, session, message + block[:1], block[1:])
