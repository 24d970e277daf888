"""The handshake: identities sign what was said, X25519 makes the session's keys.

    client: hello, signed  ->  server: hello-ack, signed over both  ->  client: ack 0, MAC
No stream starts before the ack. The session's digest is part of everything that is signed later, so
nothing of one session is of any use in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from protocols.authenticast.crypto import TAG_BYTES, Crypto, SigningKey, VerifyingKey
from protocols.authenticast.messages import Received
from protocols.authenticast.settings import Algorithm, Scheme

_LABEL = b"authenticast/1 "


@dataclass(frozen=True)
class SessionSecrets:
    """What both ends know after the handshake: the digest of all of it, and a key each way."""

    digest: bytes
    client_key: bytes
    server_key: bytes


def context(purpose: str, session: bytes) -> bytes:
    """What precedes everything that is signed."""
    return _LABEL + purpose.encode() + b"\0" + session


def signature_block(crypto: Crypto, key: SigningKey, message: bytes) -> bytes:
    """The algorithm's number, then the signature over it and the message."""
    return bytes((key.algorithm,)) + crypto.sign(key, message + bytes((key.algorithm,)))


def is_signed(crypto: Crypto, keys: Mapping[Algorithm, VerifyingKey], message: bytes,
              authentication: bytes) -> bool:
    """Whether a signature block is by one of these keys."""
    if not authentication:
        return False
    key = next((key for algorithm, key in keys.items() if algorithm == authentication[0]), None)
    return key is not None and crypto.verify(key, message + authentication[:1], authentication[1:])


def seal(crypto: Crypto, key: bytes, body: bytes) -> bytes:
    """A control message with its MAC."""
    return body + crypto.mac(key, body)


def seal_signed(crypto: Crypto, key: bytes, signer: SigningKey, session: bytes,
                body: bytes) -> bytes:
    """A control message with its MAC and a signature."""
    return seal(crypto, key, body) + signature_block(crypto, signer,
                                                     context("control", session) + body)


def is_sealed(crypto: Crypto, key: bytes, received: Received) -> bool:
    """Whether a message has this key's MAC, and nothing behind it."""
    return (len(received.authentication) == TAG_BYTES
            and crypto.is_mac(key, received.body, received.authentication))


def is_from(crypto: Crypto, key: bytes, received: Received) -> bool:
    """Whether a message starts with this key's MAC, whatever signature follows."""
    return crypto.is_mac(key, received.body, received.authentication[:TAG_BYTES])


def is_sealed_and_signed(crypto: Crypto, key: bytes, signers: Mapping[Algorithm, VerifyingKey],
                         session: bytes, received: Received) -> bool:
    """Whether MAC and signature fit; the MAC first, which costs a flood of forgeries little."""
    tag, signature = (received.authentication[:TAG_BYTES], received.authentication[TAG_BYTES:])
    return crypto.is_mac(key, received.body, tag) and is_signed(
        crypto, signers, context("control", session) + received.body, signature)


def establish(crypto: Crypto, private: bytes, public: bytes, hello: bytes,
              hello_ack: bytes) -> SessionSecrets:
    """The session of two messages as they were sent. Raises ValueError for a useless exchange."""
    digest = crypto.digest(context("session", b"") + hello + hello_ack)
    client_key, server_key = crypto.derive(crypto.exchange(private, public), digest,
                                           "authenticast/1 control", 2)
    return SessionSecrets(digest, client_key, server_key)


def secret_key(crypto: Crypto, private: bytes, public: bytes, session: bytes,
               epoch: int) -> bytes:
    """The key of a secret key connection that starts with an epoch. Raises ValueError."""
    salt = session + epoch.to_bytes(4, "big")
    return crypto.derive(crypto.exchange(private, public), salt, "authenticast/1 secret key")[0]


def proof(crypto: Crypto, key: bytes, epoch: int) -> bytes:
    """What shows the other end that one has the key."""
    return crypto.mac(key, context("proof", epoch.to_bytes(4, "big")))


def mask(numbers: Iterable[Algorithm | Scheme]) -> int:
    """A set as bits of an integer."""
    return sum({1 << number for number in numbers})


def algorithms_in(bits: int) -> frozenset[Algorithm]:
    """The algorithms that bits stand for; unknown ones are left out."""
    return frozenset(algorithm for algorithm in Algorithm if bits >> algorithm & 1)


def schemes_in(bits: int) -> frozenset[Scheme]:
    """The schemes that bits stand for; unknown ones are left out."""
    return frozenset(scheme for scheme in Scheme if bits >> scheme & 1)
