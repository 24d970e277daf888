"""What a version of the protocol has to provide: how channels are keyed and messages protected.

The state machine (host.py, peer.py, channel.py) is one and the same for both versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from protocols.adp.crypto import Crypto, RsaPrivate, RsaPublic
from protocols.adp.effects import Scope
from protocols.adp.packets import Frame

PublicKey = RsaPublic | Ed25519PublicKey
PrivateKey = RsaPrivate | Ed25519PrivateKey
Random = Callable[[int], bytes]


@dataclass(frozen=True)
class Identity:
    """A host in one kernel session: its name, its kernel's owner, and private keys of owners."""

    host: str
    kernel_owner: str
    keys: Mapping[str, PrivateKey]
    session: bytes


@dataclass(frozen=True)
class Directory:
    """The name server: which owner boots a host, and owners' public keys."""

    kernel_owners: Mapping[str, str]
    keys: Mapping[str, PublicKey]


@dataclass(frozen=True)
class SessionRequest:
    """A request of ours, and what only we know of it."""

    channel: bytes
    peer: str
    encoded: bytes
    secret: bytes
    challenge: bytes = b""


class Security(Protocol):
    """The keys of one channel, in both directions."""

    @property
    def can_prove(self) -> bool:
        """Whether the other end's challenge is known, so that owners can sign."""

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """The protected part of a message; `clear` is what stands before it."""

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """The body of a frame, once and unaltered as far as it is protected.

        Raises PacketError.
        """

    def prove(self, owner: str, key: PrivateKey) -> bytes:
        """An owner's signature for this channel, to the other end."""

    def is_proof(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Whether an owner of the other end has signed."""


@dataclass(frozen=True)
class Tools:
    """What suites are made with."""

    identity: Identity
    directory: Directory
    crypto: Crypto
    random: Random = field(repr=False)
    scope: Scope
    window: int


class Suite(Protocol):
    """A version of the protocol."""

    #: In the header's first byte.
    version: int
    #: Whether messages go before the acknowledgement, and the first signature confirms a channel.
    early: bool
    #: Less than so many zeros may follow a body.
    padding: int
    #: Whether a channel's keys are replaced as it ages.
    rekeys: bool

    def flags(self, *, private: bool) -> int:
        """How a message is protected, for its header."""

    def is_acceptable(self, flags: int) -> bool:
        """Whether a message is protected as our own settings demand at least."""

    def request(self, peer: str) -> tuple[SessionRequest, Security | None]:
        """Ask a host for a channel; keys only if messages may go before the acknowledgement."""

    def accept(self, peer: str, frame: Frame) -> tuple[Security, bytes]:
        """Answer a request: the channel's keys and the acknowledgement. Raises PacketError."""

    def acknowledged(self, request: SessionRequest, security: Security | None,
                     frame: Frame) -> Security:
        """The keys that an acknowledgement leads to. Raises PacketError."""

    def rekey(self, peer: str) -> SessionRequest:
        """Ask for a channel's next key, inside the channel."""

    def accept_rekey(self, security: Security, frame: Frame) -> tuple[Security, bytes]:
        """Answer a request for the next key. Raises PacketError."""

    def rekeyed(self, request: SessionRequest, security: Security, frame: Frame) -> Security:
        """The next key. Raises PacketError."""
