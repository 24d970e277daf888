"""What schemes have in common: a sealer for the sender, an opener for the receiver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from protocols.authenticast.crypto import Crypto, SigningKey, VerifyingKey
from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Data
from protocols.authenticast.session import context
from protocols.authenticast.settings import Algorithm

Verdict = tuple[Data, Fate]


class Sealer(Protocol):
    """Makes datagrams of packets; the order of their sequence numbers is that of `add`."""

    def add(self, packet: Data, now_ns: int) -> list[bytes]:
        """Datagrams that are to be sent now; none where the packet has to wait."""

    def close(self, now_ns: int) -> list[bytes]:
        """Finish an open group early: a change is coming, or the end."""

    def tick(self, now_ns: int) -> list[bytes]:
        """Whatever is due."""

    def deadline_ns(self) -> int | None:
        """When `tick` is due next."""


class Opener(Protocol):
    """Says what becomes of packets that are in force and new."""

    def open(self, packet: Data, now_ns: int) -> list[Verdict]:
        """Verdicts on this packet and on others that waited for it."""

    def tick(self, now_ns: int) -> list[Verdict]:
        """Verdicts on what has waited too long."""

    def deadline_ns(self) -> int | None:
        """When `tick` is due next."""


@dataclass(frozen=True)
class Signer:
    """The sender's side of a session: operations, key and the context of all that it signs."""

    crypto: Crypto
    key: SigningKey
    session: bytes

    def sign(self, purpose: str, message: bytes) -> bytes:
        """A signature for one purpose in this session."""
        return self.crypto.sign(self.key, context(purpose, self.session) + message)


@dataclass(frozen=True)
class Verifier:
    """The receiver's side of a session: operations, the server's keys, the context."""

    crypto: Crypto
    keys: Mapping[Algorithm, VerifyingKey]
    session: bytes

    def is_signed(self, algorithm: Algorithm, purpose: str, message: bytes,
                  signature: bytes) -> bool:
        """Whether the server has signed this for this purpose in this session."""
        key = self.keys.get(algorithm)
        return key is not None and self.crypto.verify(
            key, context(purpose, self.session) + message, signature)

    def is_authentic(self, packet: Data) -> bool:
        """Whether a packet's own signature is right."""
        return self.is_signed(packet.algorithm, "data", packet.signed(), packet.authenticator)


class AtOnce:
    """What sealers and openers without memory share: nothing ever waits."""

    def close(self, now_ns: int) -> list[bytes]:
        """Nothing is open."""
        return []

    def tick(self, now_ns: int) -> list[bytes]:
        """Nothing is due."""
        return []

    def deadline_ns(self) -> int | None:
        """Never."""
        return None


class NeverWaits:
    """The same for openers."""

    def tick(self, now_ns: int) -> list[Verdict]:
        """Nothing has waited."""
        return []

    def deadline_ns(self) -> int | None:
        """Never."""
        return None
