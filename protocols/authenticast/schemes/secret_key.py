"""Secret key connection: a MAC of 16 bytes in each packet.

Only the two ends have the key. The MAC costs both ends little, and every packet is verified. It
convinces no third party, because either end could have made it.
"""

from __future__ import annotations

from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Data
from protocols.authenticast.schemes.base import AtOnce, NeverWaits, Verdict
from protocols.authenticast.session import signing_context


class SecretKeySealer(AtOnce):
    """A sealer that adds a MAC to each packet."""

    def __init__(self, crypto: Crypto, key: bytes, session: bytes) -> None:
        self._crypto = crypto
        self._key = key
        self._context = signing_context("data", session)

    def seal_packet(self, packet: Data, now_ns: int) -> list[bytes]:
        """Return the packet with its MAC."""
        text = packet.signed_bytes()
        return [text + self._crypto.compute_mac(self._key, self._context + text)]


class SecretKeyOpener(NeverWaits):
    """An opener that checks the MAC of each packet."""

    waiting = 0

    def __init__(self, crypto: Crypto, key: bytes, session: bytes) -> None:
        self._crypto = crypto
        self._key = key
        self._context = signing_context("data", session)

    def open_packet(self, packet: Data, now_ns: int) -> list[Verdict]:
        """Return the verdict on the packet at once."""
        is_right = self._crypto.is_valid_mac(self._key, self._context + packet.signed_bytes(),
                                             packet.authenticator)
        return [(packet, Fate.VERIFIED if is_right else Fate.FAILED)]
