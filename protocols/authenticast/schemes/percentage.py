"""Scheme percentage: every packet is signed, the receiver verifies a secret choice of them."""

from __future__ import annotations

from protocols.authenticast.packets import Data
from protocols.authenticast.schemes.base import AtOnce, Signer


class PercentageSealer(AtOnce):
    """A sealer that signs each packet.

    Only the receiver decides which packets are verified.
    """

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def seal_packet(self, packet: Data, now_ns: int) -> list[bytes]:
        """Return the signed packet."""
        text = packet.signed_bytes()
        return [text + self._signer.sign("data", text)]
