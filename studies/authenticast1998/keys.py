"""Public keys of a run verify here what its ends have signed, by code of the library's alone."""

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
    """A public key of the run; of a server, one for each algorithm, of which the first names it."""

    def __init__(self, pem: str) -> None:
        self._keys = {}
        for text in pem.split(_PEM_END)[:-1]:
            key = serialization.load_pem_public_key((text + _PEM_END).encode())
            self._keys[next(number for kind, number in _KINDS.items()
                            if isinstance(key, kind))] = key

    @property
    def algorithm(self) -> int:
        """The number of its first algorithm on the wire."""
        return next(iter(self._keys))

    def has_signed(self, purpose: str, session: bytes, said: bytes, signature: bytes,
                   algorithm: int = 0) -> bool:
        """Whether it has signed this, for this purpose, in this session."""
        text = b"authenticast/1 " + purpose.encode() + b"\0" + session + said
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

    def has_blocked(self, purpose: str, session: bytes, said: bytes, block: bytes) -> bool:
        """The same for a message's signature block: the algorithm is said, and signed, too."""
        return block[:1] == bytes((self.algorithm,)) and self.has_signed(
            purpose, session, said + block[:1], block[1:])
