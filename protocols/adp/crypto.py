"""Compute the cryptographic operations of ADP, and report each one to a function (`meter`).

ADP is the Authenticated Datagram Protocol of 1987. The operations are really computed: RSA without
padding, DES-CBC with a zero initialisation vector, and those of the modern version. Those of 1987
protect nothing today. `meter` gets the kind (`Operation`) and the size in bytes of each operation.
So a program can imitate a computer of 1987: it waits for the time that the operation took there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from protocols.adp.packets import PacketError

BLOCK = 8  # block size of DES, in bytes
TAG = 16  # tag size of Poly1305, in bytes


class Operation(enum.StrEnum):
    """Kinds of work that take time on a modelled processor."""

    RSA_PUBLIC = "rsa-public"
    RSA_PRIVATE = "rsa-private"
    DES = "des"
    DES_MAC = "des-mac"
    X25519 = "x25519"
    ED25519_SIGN = "ed25519-sign"
    ED25519_VERIFY = "ed25519-verify"
    CHACHA20_POLY1305 = "chacha20-poly1305"
    SHA256 = "sha256"
    # The work of each end for every user message and every ADP message, without cryptography.
    USER_MESSAGE = "user-message"
    ADP_MESSAGE = "adp-message"


PUBLIC_KEY = frozenset({Operation.RSA_PUBLIC, Operation.RSA_PRIVATE, Operation.X25519,
                        Operation.ED25519_SIGN, Operation.ED25519_VERIFY})
Meter = Callable[[Operation, int], None]
#: Receiver of each ephemeral key (public half, private half), like a TLS key log.
KeyLog = Callable[[bytes, bytes], None]


@dataclass(frozen=True)
class RsaPublicKey:
    """An owner's RSA public key (version of 1987)."""

    modulus: int
    exponent: int

    @property
    def size(self) -> int:
        """Return the size of a block in bytes."""
        return (self.modulus.bit_length() + 7) // 8


@dataclass(frozen=True)
class RsaPrivateKey:
    """An owner's RSA private key (version of 1987): the primes and the public exponent."""

    p: int
    q: int
    exponent: int

    @property
    def public(self) -> RsaPublicKey:
        """Return the public key that belongs to this private key."""
        return RsaPublicKey(self.p * self.q, self.exponent)


class Crypto:
    """Cryptographic operations, each reported to a meter before it is done.

    They raise PacketError and nothing else.
    """

    def __init__(self, meter: Meter) -> None:
        self.charge = meter
        self.key_log: KeyLog | None = None

    def rsa_public(self, key: RsaPublicKey, block: bytes) -> bytes:
        """Encrypt a block, or verify a signature, with a public key and without padding."""
        self.charge(Operation.RSA_PUBLIC, key.size)
        value = int.from_bytes(block)
        if value >= key.modulus:
            raise PacketError("a block larger than the RSA modulus")
        return pow(value, key.exponent, key.modulus).to_bytes(key.size)

    def rsa_private(self, key: RsaPrivateKey, block: bytes) -> bytes:
        """Decrypt or sign a block with a private key, without padding."""
        public = key.public
        self.charge(Operation.RSA_PRIVATE, public.size)
        value = int.from_bytes(block)
        if value >= public.modulus:
            raise PacketError("a block larger than the RSA modulus")
        # The Chinese remainder theorem quarters the work.
        by_p = pow(value, pow(key.exponent, -1, key.p - 1), key.p)
        by_q = pow(value, pow(key.exponent, -1, key.q - 1), key.q)
        result = by_q + key.q * ((by_p - by_q) * pow(key.q, -1, key.p) % key.p)
        return result.to_bytes(public.size)

    def des_encrypt(self, key: bytes, data: bytes) -> bytes:
        """Encrypt complete blocks with DES-CBC and a zero initialisation vector."""
        self.charge(Operation.DES, len(data))
        encryptor = _des_cipher(key).encryptor()
        return encryptor.update(data) + encryptor.finalize()

    def des_decrypt(self, key: bytes, data: bytes) -> bytes:
        """Decrypt data of `des_encrypt`."""
        if len(data) % BLOCK:
            raise PacketError(f"{len(data)} bytes are no whole blocks of DES")
        self.charge(Operation.DES, len(data))
        decryptor = _des_cipher(key).decryptor()
        return decryptor.update(data) + decryptor.finalize()

    def des_mac(self, key: bytes, data: bytes) -> bytes:
        """Return the CBC-MAC of zero-padded data with its length in front.

        The MAC has a variant of the key, as later in Kerberos (RFC 1510). A CBC-MAC under the
        encryption key would end like the CBC ciphertext of the data.
        """
        variant = bytes(byte ^ 0xF0 for byte in key)
        padded = len(data).to_bytes(BLOCK) + data + bytes(-len(data) % BLOCK)
        self.charge(Operation.DES_MAC, len(padded))
        return _des_cipher(variant).encryptor().update(padded)[-BLOCK:]

    def x25519_public(self, private: bytes) -> bytes:
        """Return the public half of an ephemeral key, and log the key to decrypt captures."""
        self.charge(Operation.X25519, 32)
        public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
        if self.key_log is not None:
            self.key_log(public, private)
        return public

    def x25519_secret(self, private: bytes, public: bytes) -> bytes:
        """Return the shared secret of an X25519 key exchange."""
        self.charge(Operation.X25519, 32)
        try:
            other = X25519PublicKey.from_public_bytes(public)
            return X25519PrivateKey.from_private_bytes(private).exchange(other)
        except ValueError:
            raise PacketError("no usable ephemeral key") from None

    def sign(self, key: Ed25519PrivateKey, text: bytes) -> bytes:
        """Sign text with Ed25519."""
        self.charge(Operation.ED25519_SIGN, len(text))
        return key.sign(text)

    def verify(self, key: Ed25519PublicKey, signature: bytes, text: bytes) -> bool:
        """Return whether an Ed25519 signature is valid."""
        self.charge(Operation.ED25519_VERIFY, len(text))
        try:
            key.verify(signature, text)
        except InvalidSignature:
            return False
        return True

    def seal(self, key: ChaCha20Poly1305, sequence: int, plain: bytes, clear: bytes) -> bytes:
        """Encrypt `plain` with ChaCha20-Poly1305, and authenticate it together with `clear`.

        The tag adds 16 bytes.
        """
        self.charge(Operation.CHACHA20_POLY1305, len(plain) + len(clear))
        return key.encrypt(sequence.to_bytes(12), plain, clear)

    def open(self, key: ChaCha20Poly1305, sequence: int, sealed: bytes, clear: bytes) -> bytes:
        """Verify and decrypt data of `seal`."""
        self.charge(Operation.CHACHA20_POLY1305, len(sealed) - TAG + len(clear))
        try:
            return key.decrypt(sequence.to_bytes(12), sealed, clear)
        except InvalidTag:
            raise PacketError("altered, or under another key") from None

    def digest(self, data: bytes) -> bytes:
        """Return the SHA-256 digest of data."""
        self.charge(Operation.SHA256, len(data))
        state = Hash(SHA256())
        state.update(data)
        return state.finalize()

    def derive_key(self, secret: bytes, salt: bytes, purpose: bytes, size: int) -> bytes:
        """Derive `size` bytes from a secret with HKDF-SHA-256."""
        # Extract and expand call HMAC; each of its hashes covers about two 64-byte blocks.
        self.charge(Operation.SHA256, 128 * (2 + 2 * -(-size // 32)))
        return HKDF(SHA256(), size, salt, purpose).derive(secret)


def _des_cipher(key: bytes) -> Cipher[modes.CBC]:
    # The library offers only triple DES; with three equal keys it computes DES.
    return Cipher(TripleDES(key * 3), modes.CBC(bytes(BLOCK)))
