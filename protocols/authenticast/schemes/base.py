"""Define the interfaces of authentication schemes for streams, and two simple schemes.

A scheme is a way to authenticate the packets of an Authenticast stream. It has two parts. A sealer
adds signatures or MACs to packets at the sender. An opener verifies them at the receiver. In the
schemes of this module, no packet has to wait. All schemes are:

- `percentage` (here): the sender signs each packet, and the receiver verifies a fraction of them.
  It has no opener, because the receiver itself decides which packets to verify (`receiver.py`).
- secret key (here): each packet has a MAC under a key that only the two ends know.
- `delayed.py`, `tesla.py`: packets wait at the receiver, for a common signature or a key.
- `tree.py`: packets wait at the sender, until a hash tree of them is full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from protocols.authenticast.crypto import Crypto, SigningKey, VerifyingKey
from protocols.authenticast.effects import PacketFate
from protocols.authenticast.packets import StreamPacket
from protocols.authenticast.session import signing_context
from protocols.authenticast.settings import Algorithm

PacketVerdict = tuple[StreamPacket, PacketFate]


class Sealer(Protocol):
    """A sender's part of a scheme: it adds a signature or MAC to each packet.

    Packets are passed to `seal_packet` in the order of their sequence numbers.
    """

    def seal_packet(self, packet: StreamPacket, now_ns: int) -> list[bytes]:
        """Add the signature or MAC to a packet, and return the datagrams to send now.

        Args:
            packet: the packet without signature or MAC.
            now_ns: current time of the server, ns since 1970.

        Returns:
            Datagrams in order. Empty while packets wait for others of their group.

        Raises:
            ValueError: no key is left (TESLA only).
        """

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return the datagrams that complete an open group of packets early.

        This is done before the setting changes and at the end of the stream.
        """

    def tick(self, now_ns: int) -> list[bytes]:
        """Return the datagrams that are due now, such as a group that has waited long enough."""

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which `tick` must be called next, or None."""


class Opener(Protocol):
    """A receiver's part of a scheme: it verifies packets, and holds them until it can."""

    def open_packet(self, packet: StreamPacket, now_ns: int) -> list[PacketVerdict]:
        """Verify a packet, and packets that waited for it.

        Args:
            packet: the packet as received.
            now_ns: current time of the receiver, ns since 1970 (TESLA: the packet's arrival time).

        Returns:
            Packets with the result for each. A packet without a result is held.
        """

    def tick(self, now_ns: int) -> list[PacketVerdict]:
        """Return results for packets that have waited too long."""

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which `tick` must be called next, or None."""


@dataclass(frozen=True)
class PacketSigner:
    """The sender's key to sign messages of one session.

    `session` is the digest of the session's handshake. Each signature covers it, so that a message
    is invalid in any other session.
    """

    crypto: Crypto
    key: SigningKey
    session: bytes

    def sign(self, purpose: str, message: bytes) -> bytes:
        """Sign a message for one purpose in this session."""
        return self.crypto.sign(self.key, signing_context(purpose, self.session) + message)


@dataclass(frozen=True)
class PacketVerifier:
    """The server's public keys, to verify messages of one session.

    `session` is the digest of the session's handshake, which each signature covers.
    """

    crypto: Crypto
    keys: Mapping[Algorithm, VerifyingKey]
    session: bytes

    def is_signed(self, algorithm: Algorithm, purpose: str, message: bytes,
                  signature: bytes) -> bool:
        """Return whether the server signed a message for this purpose in this session."""
        key = self.keys.get(algorithm)
        return key is not None and self.crypto.verify(
            key, signing_context(purpose, self.session) + message, signature)

    def is_authentic(self, packet: StreamPacket) -> bool:
        """Return whether a packet's own signature is valid."""
        return self.is_signed(packet.algorithm, "data", packet.signed_bytes(), packet.authenticator)


class ImmediateSealer:
    """A base class of senders' schemes that hold no packets."""

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return no datagrams, because this scheme has no groups."""
        return []

    def tick(self, now_ns: int) -> list[bytes]:
        """Return no datagrams, because none is ever delayed."""
        return []

    def deadline_ns(self) -> int | None:
        """Return None, because `tick` is never needed."""
        return None


class ImmediateOpener:
    """A base class of receivers' schemes that hold no packets."""

    def tick(self, now_ns: int) -> list[PacketVerdict]:
        """Return no results, because no packet waits."""
        return []

    def deadline_ns(self) -> int | None:
        """Return None, because `tick` is never needed."""
        return None


# --- Scheme percentage: every packet is signed, the receiver verifies a secret choice ---

class PercentageSealer(ImmediateSealer):
    """A sender's scheme that signs each packet. The receiver decides which ones it verifies."""

    def __init__(self, signer: PacketSigner) -> None:
        self._signer = signer

    def seal_packet(self, packet: StreamPacket, now_ns: int) -> list[bytes]:
        """Return the packet with its own signature."""
        text = packet.signed_bytes()
        return [text + self._signer.sign("data", text)]


# --- Secret key connection: a MAC of 16 bytes in each packet ---
# Only the two ends have the key. The MAC costs both ends little, and every packet is verified. It
# convinces no third party, because either end could have made it.

class SecretKeySealer(ImmediateSealer):
    """A sender's scheme that adds a MAC under a shared secret key to each packet."""

    def __init__(self, crypto: Crypto, key: bytes, session: bytes) -> None:
        self._crypto = crypto
        self._key = key
        self._context = signing_context("data", session)

    def seal_packet(self, packet: StreamPacket, now_ns: int) -> list[bytes]:
        """Return the packet with its MAC."""
        text = packet.signed_bytes()
        return [text + self._crypto.compute_mac(self._key, self._context + text)]


class SecretKeyOpener(ImmediateOpener):
    """A receiver's scheme that checks the MAC of each packet under a shared secret key."""

    waiting = 0

    def __init__(self, crypto: Crypto, key: bytes, session: bytes) -> None:
        self._crypto = crypto
        self._key = key
        self._context = signing_context("data", session)

    def open_packet(self, packet: StreamPacket, now_ns: int) -> list[PacketVerdict]:
        """Check the MAC of a packet at once, and return the result."""
        is_right = self._crypto.is_valid_mac(self._key, self._context + packet.signed_bytes(),
                                             packet.authenticator)
        return [(packet, PacketFate.VERIFIED if is_right else PacketFate.FAILED)]
