"""Derive the session keys of an Authenticast client and server, and authenticate their messages.

    client: hello, signed  ->  server: hello-ack, signed over both  ->  client: ack 0, MAC

Authenticast streams signed packets over UDP. `establish_session` takes both hellos, and returns the
`SessionSecrets` from an X25519 exchange. `seal_message` adds the MAC to a control message,
`seal_signed` also a signature, and `is_sealed` and others verify them. No stream starts before the
ack. The session's digest is part of everything that is signed later, so a message of one session is
invalid in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from protocols.authenticast.crypto import TAG_BYTES, Crypto, SigningKey, VerifyingKey
from protocols.authenticast.messages import ReceivedMessage
from protocols.authenticast.settings import Algorithm, Scheme

_LABEL = b"authenticast/1 "


@dataclass(frozen=True)
class SessionSecrets:
    """Secrets that client and server share: digest of both hellos, and a MAC key per direction."""

    digest: bytes
    client_key: bytes
    server_key: bytes


def signing_context(purpose: str, session: bytes) -> bytes:
    """Return the prefix of all signed bytes, made of a purpose and the session's digest."""
    return _LABEL + purpose.encode() + b"\0" + session


def signature_block(crypto: Crypto, key: SigningKey, message: bytes) -> bytes:
    """Sign a message, and return the number of the algorithm with the signature.

    The signature also covers that number.
    """
    return bytes((key.algorithm,)) + crypto.sign(key, message + bytes((key.algorithm,)))


def is_signed(crypto: Crypto, keys: Mapping[Algorithm, VerifyingKey], message: bytes,
              authentication: bytes) -> bool:
    """Return whether one of the given keys signed a message."""
    if not authentication:
        return False
    key = next((key for algorithm, key in keys.items() if algorithm == authentication[0]), None)
    return key is not None and crypto.verify(key, message + authentication[:1], authentication[1:])


def seal_message(crypto: Crypto, key: bytes, body: bytes) -> bytes:
    """Return a control message with its MAC."""
    return body + crypto.compute_mac(key, body)


def seal_signed(crypto: Crypto, key: bytes, signer: SigningKey, session: bytes,
                body: bytes) -> bytes:
    """Return a control message with its MAC and a signature."""
    return seal_message(crypto, key, body) + signature_block(crypto, signer,
                                                             signing_context("control", session)
                                                             + body)


def is_sealed(crypto: Crypto, key: bytes, received: ReceivedMessage) -> bool:
    """Return whether a message has a valid MAC and nothing after it."""
    return (len(received.authentication) == TAG_BYTES
            and crypto.is_valid_mac(key, received.body, received.authentication))


def is_from(crypto: Crypto, key: bytes, received: ReceivedMessage) -> bool:
    """Return whether a message has a valid MAC. A signature may follow, and is not checked."""
    return crypto.is_valid_mac(key, received.body, received.authentication[:TAG_BYTES])


def is_sealed_and_signed(crypto: Crypto, key: bytes, signers: Mapping[Algorithm, VerifyingKey],
                         session: bytes, received: ReceivedMessage) -> bool:
    """Return whether both the MAC and the signature of a message are valid.

    The MAC is checked first, so that forged messages cost little time.
    """
    tag, signature = (received.authentication[:TAG_BYTES], received.authentication[TAG_BYTES:])
    return crypto.is_valid_mac(key, received.body, tag) and is_signed(
        crypto, signers, signing_context("control", session) + received.body, signature)


def establish_session(crypto: Crypto, private: bytes, public: bytes, hello: bytes,
                      hello_ack: bytes) -> SessionSecrets:
    """Derive the keys of a session from the two hello messages.

    Args:
        crypto: cryptographic operations.
        private: this end's X25519 private key.
        public: the other end's X25519 public key.
        hello: the client's hello as sent.
        hello_ack: the server's answer as sent.

    Raises:
        ValueError: the X25519 exchange is not usable.
    """
    digest = crypto.compute_digest(signing_context("session", b"") + hello + hello_ack)
    client_key, server_key = crypto.derive_keys(crypto.compute_shared_secret(private, public),
                                                digest,
                                                "authenticast/1 control", 2)
    return SessionSecrets(digest, client_key, server_key)


def derive_secret_key(crypto: Crypto, private: bytes, public: bytes, session: bytes,
                      epoch: int) -> bytes:
    """Derive the shared secret key for packets that have MACs instead of signatures.

    The key belongs to one epoch (the packets under one setting).

    Raises:
        ValueError: the X25519 exchange is not usable.
    """
    salt = session + epoch.to_bytes(4, "big")
    return crypto.derive_keys(crypto.compute_shared_secret(private, public), salt,
                              "authenticast/1 secret key")[0]


def make_proof(crypto: Crypto, key: bytes, epoch: int) -> bytes:
    """Compute the proof that the client has the secret key of an epoch."""
    return crypto.compute_mac(key, signing_context("proof", epoch.to_bytes(4, "big")))


def to_mask(numbers: Iterable[Algorithm | Scheme]) -> int:
    """Return numbers of algorithms or schemes as the bits of an integer."""
    return sum({1 << number for number in numbers})


def algorithms_from_mask(bits: int) -> frozenset[Algorithm]:
    """Return the algorithms of a bit mask. Unknown bits are ignored."""
    return frozenset(algorithm for algorithm in Algorithm if bits >> algorithm & 1)


def schemes_from_mask(bits: int) -> frozenset[Scheme]:
    """Return the schemes of a bit mask. Unknown bits are ignored."""
    return frozenset(scheme for scheme in Scheme if bits >> scheme & 1)
