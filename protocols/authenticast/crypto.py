"""Compute signatures, MACs and key exchange of Authenticast, and report each operation's kind.

Authenticast streams signed packets. `Crypto` performs the real operations by the library
`cryptography`. It calls `charge(kind, bytes)` for each, so that a program can imitate a slow
processor. Kinds are `dsa-1024-sign`, `rsa-1024-verify`, ..., `hash`, `hmac` and `x25519`. A
signature counts as a `hash` of the bytes and an operation on the digest. `generate_key`,
`load_private` and `load_public` are for keys. `is_chosen` selects in secret which packets a
receiver verifies.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, padding, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from protocols.authenticast.settings import SIGNATURES, Algorithm

Charge = Callable[[str, int], None]
PrivateKey = (dsa.DSAPrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
              | ec.EllipticCurvePrivateKey)
PublicKey = (dsa.DSAPublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
             | ec.EllipticCurvePublicKey)
TAG_BYTES = 16
HASH_BYTES = 32
# Smallest keys that the library makes and the protocol accepts. The papers' 512 bits are refused.
MIN_BITS = {Algorithm.DSA: 1024, Algorithm.RSA: 1024, Algorithm.ED25519: 256, Algorithm.ECDSA: 256}
_OF_ONE_SIZE = frozenset({Algorithm.ED25519, Algorithm.ECDSA})
_SHA256 = hashes.SHA256()


class UnusableKey(ValueError):
    """A key that cannot be used. The text gives the reason."""


@dataclass(frozen=True)
class SigningKey:
    """A private key for signatures, with its algorithm and its size in bits."""

    algorithm: Algorithm
    bits: int
    private: PrivateKey

    @functools.cached_property
    def public(self) -> VerifyingKey:
        """Return the public key that belongs to this private key."""
        return VerifyingKey(self.algorithm, self.bits, self.private.public_key())

    def to_pem(self) -> bytes:
        """Return the private key in PEM (PKCS #8, unencrypted)."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption())


@dataclass(frozen=True)
class VerifyingKey:
    """A public key for signatures, with its algorithm and its size in bits."""

    algorithm: Algorithm
    bits: int
    public: PublicKey

    @functools.cached_property
    def half_bytes(self) -> int:
        """Return the largest length in bytes of r and of s in a DSA or ECDSA signature."""
        if isinstance(self.public, dsa.DSAPublicKey):
            return -(-self.public.parameters().parameter_numbers().q.bit_length() // 8)
        return -(-self.bits // 8)

    def to_pem(self) -> bytes:
        """Return the public key in PEM."""
        return self.public.public_bytes(serialization.Encoding.PEM,
                                        serialization.PublicFormat.SubjectPublicKeyInfo)


def generate_key(algorithm: Algorithm, bits: int | None = None) -> SigningKey:
    """Generate a key pair for signatures.

    Args:
        algorithm: algorithm of the signatures.
        bits: size of the key, by default 1024 bits for DSA and RSA, 256 bits for others.

    Raises:
        UnusableKey: the library or this protocol refuses the size.
    """
    if algorithm not in SIGNATURES:
        raise UnusableKey(f"{algorithm.name}: no algorithm for signatures")
    if bits is None:
        bits = {Algorithm.DSA: 1024, Algorithm.RSA: 1024}.get(algorithm, 256)
    _check_bits(algorithm, bits)
    if algorithm in _OF_ONE_SIZE and bits != MIN_BITS[algorithm]:
        raise UnusableKey(f"{algorithm.name}: keys have {MIN_BITS[algorithm]} bits, not {bits}")
    makers: dict[Algorithm, Callable[[], PrivateKey]] = {
        Algorithm.DSA: lambda: dsa.generate_private_key(bits),
        Algorithm.RSA: lambda: rsa.generate_private_key(65537, bits),
        Algorithm.ED25519: ed25519.Ed25519PrivateKey.generate,
        Algorithm.ECDSA: lambda: ec.generate_private_key(ec.SECP256R1()),
    }
    try:
        return SigningKey(algorithm, bits, makers[algorithm]())
    except ValueError as error:
        raise UnusableKey(f"{algorithm.name}, {bits} bits: {error}") from None


def load_private(pem: bytes) -> SigningKey:
    """Read a private key from PEM.

    Raises:
        UnusableKey: the text has no key of a supported algorithm.
    """
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UnusableKey("no unencrypted private key in PEM") from None
    if not isinstance(key, PrivateKey):
        raise UnusableKey(f"a {type(key).__name__} does not sign")
    public = _to_verifying_key(key.public_key())
    return SigningKey(public.algorithm, public.bits, key)


def load_public(pem: bytes) -> VerifyingKey:
    """Read a public key from PEM.

    Raises:
        UnusableKey: the text has no key of a supported algorithm.
    """
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableKey("no public key in PEM") from None
    if not isinstance(key, PublicKey):
        raise UnusableKey(f"a {type(key).__name__} verifies nothing")
    return _to_verifying_key(key)


def _to_verifying_key(key: PublicKey) -> VerifyingKey:
    if isinstance(key, dsa.DSAPublicKey):
        described = VerifyingKey(Algorithm.DSA, key.key_size, key)
    elif isinstance(key, rsa.RSAPublicKey):
        described = VerifyingKey(Algorithm.RSA, key.key_size, key)
    elif isinstance(key, ed25519.Ed25519PublicKey):
        described = VerifyingKey(Algorithm.ED25519, 256, key)
    else:
        described = VerifyingKey(Algorithm.ECDSA, key.key_size, key)
    _check_bits(described.algorithm, described.bits)
    return described


def _check_bits(algorithm: Algorithm, bits: int) -> None:
    if bits < MIN_BITS[algorithm]:
        raise UnusableKey(f"{algorithm.name}: a key of {bits} bits is too short; give at least "
                          f"{MIN_BITS[algorithm]} (and charge a device for fewer, see charged_as)")


def _to_fixed_length(signature: bytes, key: VerifyingKey) -> bytes:
    """Convert a DER signature to r and s in fixed length, because the length of DER varies."""
    first, second = decode_dss_signature(signature)
    return first.to_bytes(key.half_bytes, "big") + second.to_bytes(key.half_bytes, "big")


def _to_der(signature: bytes, key: VerifyingKey) -> bytes:
    """Convert a signature of fixed length to DER, which the library expects.

    Raises:
        InvalidSignature: the length is wrong.
    """
    half = key.half_bytes
    if len(signature) != 2 * half:
        raise InvalidSignature
    return encode_dss_signature(int.from_bytes(signature[:half], "big"),
                                int.from_bytes(signature[half:], "big"))


class Crypto:
    """The cryptographic operations of one program, each reported as a cost.

    `charged_as` reports an algorithm under another name, for example DSA as `dsa-512`.
    """

    def __init__(self, charge: Charge = lambda _kind, _size: None,
                 charged_as: Mapping[Algorithm, str] | None = None) -> None:
        self._charge = charge
        self._charged_as = dict(charged_as or {})
        #: Signatures made and verified so far. Their rate is the security-based load of a host.
        self.signed = self.verified = 0

    def sign(self, key: SigningKey, message: bytes) -> bytes:
        """Sign a message: over its SHA-256 digest, or with Ed25519 over the message."""
        self._charge("hash", len(message))
        self._charge(f"{self._charge_name(key)}-sign", HASH_BYTES)
        self.signed += 1
        private = key.private
        if isinstance(private, rsa.RSAPrivateKey):
            return private.sign(message, padding.PKCS1v15(), _SHA256)
        if isinstance(private, ec.EllipticCurvePrivateKey):
            return _to_fixed_length(private.sign(message, ec.ECDSA(_SHA256)), key.public)
        if isinstance(private, dsa.DSAPrivateKey):
            return _to_fixed_length(private.sign(message, _SHA256), key.public)
        return private.sign(message)

    def verify(self, key: VerifyingKey, message: bytes, signature: bytes) -> bool:
        """Return whether a signature of a message was made with the private part of `key`."""
        self._charge("hash", len(message))
        self._charge(f"{self._charge_name(key)}-verify", HASH_BYTES)
        self.verified += 1
        public = key.public
        try:
            if isinstance(public, rsa.RSAPublicKey):
                public.verify(signature, message, padding.PKCS1v15(), _SHA256)
            elif isinstance(public, ec.EllipticCurvePublicKey):
                public.verify(_to_der(signature, key), message, ec.ECDSA(_SHA256))
            elif isinstance(public, dsa.DSAPublicKey):
                public.verify(_to_der(signature, key), message, _SHA256)
            else:
                public.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def compute_digest(self, message: bytes) -> bytes:
        """Return the SHA-256 digest of a message."""
        self._charge("hash", len(message))
        return hashlib.sha256(message).digest()

    def compute_mac(self, key: bytes, message: bytes) -> bytes:
        """Return the first 16 bytes of HMAC-SHA256."""
        self._charge("hmac", len(message))
        return hmac.digest(key, message, "sha256")[:TAG_BYTES]

    def is_valid_mac(self, key: bytes, message: bytes, tag: bytes) -> bool:
        """Return whether a tag is the MAC of a message under a key."""
        return hmac.compare_digest(self.compute_mac(key, message), tag)

    def compute_shared_secret(self, private: bytes, public: bytes) -> bytes:
        """Return the shared secret of an X25519 key exchange.

        Raises:
            ValueError: the public key has a small order.
        """
        self._charge("x25519", len(public))
        return x25519.X25519PrivateKey.from_private_bytes(private).exchange(
            x25519.X25519PublicKey.from_public_bytes(public))

    def compute_public_key(self, private: bytes) -> bytes:
        """Return the X25519 public key that belongs to a private key of 32 random bytes."""
        self._charge("x25519", len(private))
        return x25519.X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()

    def derive_keys(self, secret: bytes, salt: bytes, label: str, count: int = 1) -> list[bytes]:
        """Derive keys of 32 bytes from a shared secret (HKDF-SHA256)."""
        self._charge("hmac", len(secret) + len(salt))
        key_material = HKDF(algorithm=_SHA256, length=32 * count, salt=salt,
                            info=label.encode()).derive(secret)
        return [key_material[32 * n:32 * n + 32] for n in range(count)]

    def _charge_name(self, key: SigningKey | VerifyingKey) -> str:
        return self._charged_as.get(key.algorithm, f"{key.algorithm.name.lower()}-{key.bits}")


# --- Secret choice of the packets to verify ---
# The choice is a keyed function of the packet's number. Without the receiver's secret, no other
# party can predict it. With the secret, disclosed afterwards, every choice can be recomputed: a
# recorded level is checked that way. A packet chosen at one level is chosen at every higher level.

_PACKET_NUMBER = struct.Struct("!IQ")
_CHOICE_RANGE = 2 ** 64
CHOICE_SECRET_BYTES = 32


def is_chosen(secret: bytes, purpose: bytes, packet_id: tuple[int, int], share: float) -> bool:
    """Return whether a packet belongs to a secretly chosen fraction of all packets.

    The choice is repeatable with the secret, and cannot be predicted without it.

    Args:
        secret: key of the choice, at most 64 bytes (BLAKE2b).
        purpose: `verify` or `shed` (drop), at most 16 bytes. It makes choices independent.
        packet_id: stream and sequence number of the packet.
        share: fraction of packets to choose, 0 to 1.
    """
    value = hashlib.blake2b(_PACKET_NUMBER.pack(*packet_id), digest_size=8, key=secret,
                            person=purpose)
    return int.from_bytes(value.digest(), "big") < share * _CHOICE_RANGE
