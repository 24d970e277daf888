"""By-percentage: every packet has a signature, the receiver verifies a secret choice of them."""

from __future__ import annotations

from protocols.authenticast.packets import Data
from protocols.authenticast.schemes.base import AtOnce, Signer


class PercentageSealer(AtOnce):
    """Signs each packet; which of them are verified is the receiver's business alone."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def add(self, packet: Data, now_ns: int) -> list[bytes]:
        """The signed packet."""
        text = packet.signed()
        return [text + self._signer.sign("data", text)]
