"""Interface of a protocol version: how channels are keyed and messages protected.

Both versions use one state machine (host.py, peer.py, channel.py).
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
    """A host in one kernel session: its name, kernel owner and private keys.

    `keys` holds the private keys of the host's owners by name.
    """

    host: str
    kernel_owner: str
    keys: Mapping[str, PrivateKey]
    session: bytes


@dataclass(frozen=True)
class Directory:
    """The name server: the kernel owner of each host and the owners' public keys."""

    kernel_owners: Mapping[str, str]
    keys: Mapping[str, PublicKey]


@dataclass(frozen=True)
class SessionRequest:
    """A request that this host sent, with the secrets needed for the answer."""

    channel: bytes
    peer: str
    encoded: bytes
    secret: bytes
    challenge: bytes = b""


class Security(Protocol):
    """The keys of one channel, in both directions."""

    @property
    def can_prove(self) -> bool:
        """Return whether the peer's challenge is known, so that owners can sign."""

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """Return the protected part of a message.

        Args:
            clear: The bytes that precede the protected part.
            body: The encoded body.
            private: Encrypt the whole body, whatever the scope of the host.
        """

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """Verify a frame and return its body.

        A frame opens only once. Alterations are detected as far as the frame is protected.

        Args:
            clear: The bytes that precede the protected part.
            frame: The parsed frame.

        Raises:
            PacketError: The frame was altered, is a duplicate or is too old.
        """

    def sign_owner(self, owner: str, key: PrivateKey) -> bytes:
        """Return an owner's signature for this channel, to be sent to the peer."""

    def is_proof(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Return whether a signature for this channel is by an owner of the peer."""


@dataclass(frozen=True)
class Tools:
    """Values and functions that a suite is created with."""

    identity: Identity
    directory: Directory
    crypto: Crypto
    random: Random = field(repr=False)
    scope: Scope
    window: int


class Suite(Protocol):
    """A version of the protocol."""

    #: Version number in the header's first byte.
    version: int
    #: Whether messages are sent before the acknowledgement, and the first signature confirms a
    #: channel.
    early: bool
    #: Exclusive upper limit of the zero bytes after a body.
    padding: int
    #: Whether the keys of a channel are replaced as it ages.
    rekeys: bool

    def header_flags(self, *, private: bool) -> int:
        """Return the header flags that describe a message's protection."""

    def is_acceptable(self, flags: int) -> bool:
        """Return whether flags promise the protection that this host requires."""

    def create_request(self, peer: str) -> tuple[SessionRequest, Security | None]:
        """Return a request for a channel to a host.

        Keys are returned only if messages may be sent before the acknowledgement.
        """

    def accept_request(self, peer: str, frame: Frame) -> tuple[Security, bytes]:
        """Return the keys and the acknowledgement for a received request.

        Raises PacketError.
        """

    def complete_request(self, request: SessionRequest, security: Security | None,
                         frame: Frame) -> Security:
        """Return the keys that result from an acknowledgement. Raises PacketError."""

    def create_rekey(self, peer: str) -> SessionRequest:
        """Return a request for the channel's next key, to be sent inside the channel."""

    def accept_rekey(self, security: Security, frame: Frame) -> tuple[Security, bytes]:
        """Return keys and answer for a received rekey request. Raises PacketError."""

    def complete_rekey(self, request: SessionRequest, security: Security, frame: Frame) -> Security:
        """Return the next keys from the answer to a rekey request. Raises PacketError."""
