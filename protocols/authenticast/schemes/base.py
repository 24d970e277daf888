"""Interfaces of the schemes: a sealer at the sender, an opener at the receiver.

A sealer adds authenticators to packets. An opener verifies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from protocols.authenticast.crypto import Crypto, SigningKey, VerifyingKey
from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Data
from protocols.authenticast.session import signing_context
from protocols.authenticast.settings import Algorithm

Verdict = tuple[Data, Fate]


class Sealer(Protocol):
    """A converter of packets into datagrams with authenticators.

    Packets are sealed in the order of `seal_packet`, which is the order of their sequence numbers.
    """

    def seal_packet(self, packet: Data, now_ns: int) -> list[bytes]:
        """Seal a packet.

        Args:
            packet: Packet without authenticator.
            now_ns: Current time of the server, ns since 1970.

        Returns:
            Datagrams to send now, in order. Empty while packets have to wait.

        Raises:
            ValueError: No key is left (TESLA only).
        """

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return the datagrams that close an open group early.

        Called at a change of setting and at the end of the stream.
        """

    def tick(self, now_ns: int) -> list[bytes]:
        """Return the datagrams that are due."""

    def deadline_ns(self) -> int | None:
        """Return the time at which `tick` is due next, or None."""


class Opener(Protocol):
    """A verifier of packets that are new and may belong to their epoch."""

    def open_packet(self, packet: Data, now_ns: int) -> list[Verdict]:
        """Return verdicts on this packet and on others that waited for it.

        Args:
            packet: Packet as received.
            now_ns: Current time of the receiver, ns since 1970 (TESLA: the packet's arrival time).

        Returns:
            Packets with their fates. A packet without a verdict is held.
        """

    def tick(self, now_ns: int) -> list[Verdict]:
        """Return verdicts on packets that have waited too long."""

    def deadline_ns(self) -> int | None:
        """Return the time at which `tick` is due next, or None."""


@dataclass(frozen=True)
class Signer:
    """The sender's part of a session: cryptographic operations, signing key and digest."""

    crypto: Crypto
    key: SigningKey
    session: bytes

    def sign(self, purpose: str, message: bytes) -> bytes:
        """Return a signature of a message for one purpose in this session."""
        return self.crypto.sign(self.key, signing_context(purpose, self.session) + message)


@dataclass(frozen=True)
class Verifier:
    """The receiver's part of a session: operations, the server's keys and the digest."""

    crypto: Crypto
    keys: Mapping[Algorithm, VerifyingKey]
    session: bytes

    def is_signed(self, algorithm: Algorithm, purpose: str, message: bytes,
                  signature: bytes) -> bool:
        """Return whether the server signed a message for a purpose in this session."""
        key = self.keys.get(algorithm)
        return key is not None and self.crypto.verify(
            key, signing_context(purpose, self.session) + message, signature)

    def is_authentic(self, packet: Data) -> bool:
        """Return whether a packet's own signature is valid."""
        return self.is_signed(packet.algorithm, "data", packet.signed_bytes(), packet.authenticator)


class AtOnce:
    """A base of sealers that hold no packets."""

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return no datagrams, because no group is open."""
        return []

    def tick(self, now_ns: int) -> list[bytes]:
        """Return no datagrams, because none is ever due."""
        return []

    def deadline_ns(self) -> int | None:
        """Return None, because `tick` is never due."""
        return None


class NeverWaits:
    """A base of openers that hold no packets."""

    def tick(self, now_ns: int) -> list[Verdict]:
        """Return no verdicts, because no packet waits."""
        return []

    def deadline_ns(self) -> int | None:
        """Return None, because `tick` is never due."""
        return None
