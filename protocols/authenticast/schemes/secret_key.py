"""Secret key connection: a tag of 16 bytes a packet, under a key that only the two ends know.

Cheap at both ends, every packet is verified; but either end could have made a tag, so nobody else
can be convinced by it.
"""

from __future__ import annotations

from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Data
from protocols.authenticast.schemes.base import AtOnce, NeverWaits, Verdict
from protocols.authenticast.session import context


class SecretKeySealer(AtOnce):
    """Tags each packet."""

    def __init__(self, crypto: Crypto, key: bytes, session: bytes) -> None:
        self._crypto = crypto
        self._key = key
        self._context = context("data", session)

    def add(self, packet: Data, now_ns: int) -> list[bytes]:
        """The packet with its tag."""
        text = packet.signed()
        return [text + self._crypto.mac(self._key, self._context + text)]


class SecretKeyOpener(NeverWaits):
    """Checks each packet's tag."""

    waiting = 0

    def __init__(self, crypto: Crypto, key: bytes, session: bytes) -> None:
        self._crypto = crypto
        self._key = key
        self._context = context("data", session)

    def open(self, packet: Data, now_ns: int) -> list[Verdict]:
        """The verdict, at once."""
        is_right = self._crypto.is_mac(self._key, self._context + packet.signed(),
                                       packet.authenticator)
        return [(packet, Fate.VERIFIED if is_right else Fate.FAILED)]
