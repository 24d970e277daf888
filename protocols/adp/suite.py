"""Define the interface of an ADP version: how hosts agree on keys and protect datagrams.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. `Suite` is the
interface, which `suite_1987.py` and `suite_modern.py` implement. It creates and accepts requests
for a channel. The result is a `ChannelSecurity`: the keys of the channel, with methods that protect
and verify datagrams. `ReplayWindow` accepts each sequence number once. The rest of the protocol
(`host.py`, `peer.py`, `channel.py`) is common to both versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from protocols.adp.crypto import Crypto, RsaPrivateKey, RsaPublicKey
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import Frame

PublicKey = RsaPublicKey | Ed25519PublicKey
PrivateKey = RsaPrivateKey | Ed25519PrivateKey
Random = Callable[[int], bytes]


@dataclass(frozen=True)
class Identity:
    """The identity of a host: its name, the owner that represents it, and private keys.

    `keys` has the private keys of all owners (users and services) on the host, by name.
    """

    host: str
    kernel_owner: str
    keys: Mapping[str, PrivateKey]
    session: bytes


@dataclass(frozen=True)
class KeyDirectory:
    """The directory of all hosts and owners: which owner represents a host, and public keys."""

    kernel_owners: Mapping[str, str]
    keys: Mapping[str, PublicKey]


@dataclass(frozen=True)
class SessionRequest:
    """A request for a channel that this host sent, with the secrets that its answer needs.

    - `channel`, `peer`: identifier of the channel, and name of the other host
    - `encoded`: the request as it is sent
    - `secret`: the key, or the private key of the key exchange
    - `challenge`: the random number that the other host's owners sign (version of 1987)
    """

    channel: bytes
    peer: str
    encoded: bytes
    secret: bytes
    challenge: bytes = b""


class ChannelSecurity(Protocol):
    """The keys of one channel for both directions."""

    @property
    def can_sign(self) -> bool:
        """Return whether the challenge that local owners (users or services) sign has arrived."""

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """Protect the content of a datagram.

        Args:
            clear: the bytes in front of the protected part.
            body: the encoded content.
            private: encrypt all of the content, whatever the host's setting.

        Returns:
            The protected part.
        """

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """Verify a datagram, and return its content.

        Each datagram is accepted only once. Changes are detected as far as the version protects it.

        Args:
            clear: the bytes in front of the protected part.
            frame: the parsed datagram.

        Raises:
            PacketError: the datagram was altered, is a duplicate or is too old.
        """

    def sign_owner(self, owner: str, key: PrivateKey) -> bytes:
        """Return the signature that proves an owner of this host on this channel."""

    def is_owner_signature(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Return whether a signature proves the other host's owner on this channel."""


@dataclass(frozen=True)
class SuiteTools:
    """Values and functions that a protocol version needs, such as keys and random bytes."""

    identity: Identity
    directory: KeyDirectory
    crypto: Crypto
    random: Random = field(repr=False)
    scope: EncryptionScope
    window: int


class Suite(Protocol):
    """A version of the protocol: how hosts agree on keys and protect datagrams."""

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
        """Return the header flags that describe how a datagram is protected.

        `private` says whether all of its content is encrypted.
        """

    def is_acceptable(self, flags: int) -> bool:
        """Return whether header flags announce the protection that this host requires."""

    def create_request(self, peer: str) -> tuple[SessionRequest, ChannelSecurity | None]:
        """Create a request for a channel to another host.

        Returns:
            The request with its secrets. Also the keys, if messages may be sent before the
            acknowledgement.
        """

    def accept_request(self, peer: str, frame: Frame) -> tuple[ChannelSecurity, bytes]:
        """Accept a request for a channel from another host.

        Returns:
            The keys of the channel, and the acknowledgement to send.

        Raises:
            PacketError: the request is malformed, or not authentic.
        """

    def complete_request(self, request: SessionRequest, security: ChannelSecurity | None,
                         frame: Frame) -> ChannelSecurity:
        """Return the keys of a channel after the acknowledgement of this host's request.

        Raises:
            PacketError: the acknowledgement is malformed, or not authentic.
        """

    def create_rekey(self, peer: str) -> SessionRequest:
        """Create a request for the next key of a channel, which is sent inside the channel."""

    def accept_rekey(self, security: ChannelSecurity,
                     frame: Frame) -> tuple[ChannelSecurity, bytes]:
        """Accept the other host's request for the next key of a channel.

        Returns:
            The next keys, and the answer to send.

        Raises:
            PacketError: the request is malformed.
        """

    def complete_rekey(self, request: SessionRequest, security: ChannelSecurity,
                       frame: Frame) -> ChannelSecurity:
        """Return the next keys of a channel from the answer to this host's request.

        Raises:
            PacketError: the answer is malformed.
        """


# --- Replay window of one direction ---

class ReplayWindow:
    """A window that accepts each sequence number once, to detect replayed datagrams.

    A number that is `width` or more behind the highest is refused.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._mask = (1 << width) - 1
        self._highest = 0
        self._seen = 0  # bit n: the number `highest - n` has arrived

    def is_fresh(self, sequence: int) -> bool:
        """Return whether a sequence number has not been accepted yet, and is not too old.

        Numbers start at 1. A number above the highest is fresh. Up to the highest, the window has a
        bit for each number.
        """
        behind = self._highest - sequence
        return sequence > 0 and (behind < 0 or (behind < self._width
                                                and not self._seen >> behind & 1))

    def accept(self, sequence: int) -> None:
        """Record a sequence number after its datagram proved authentic."""
        behind = self._highest - sequence
        if behind >= 0:
            self._seen |= 1 << behind
            return
        # A sender can jump arbitrarily far; shifting by the jump would use as much memory.
        self._seen = (self._seen << -behind & self._mask if -behind < self._width else 0) | 1
        self._highest = sequence
