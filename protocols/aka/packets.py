"""EAP-AKA's packets are read here: subtype and attributes (RFC 4187, sections 8 to 10)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

EAP_AKA = 23
CHALLENGE, SYNCHRONIZATION_FAILURE = 1, 4
_AT_RAND, _AT_AUTN, _AT_RES, _AT_MAC, _AT_IDENTITY = 1, 2, 3, 11, 14
_HEADER_BYTES, _UNIT = 8, 4


@dataclass(frozen=True)
class AkaPacket:
    """A packet's subtype, its attributes by kind without kind and length, and where AT_MAC is."""

    subtype: int
    attributes: dict[int, bytes] = field(default_factory=dict)
    unsigned: bytes = b""

    @property
    def rand(self) -> bytes:
        """The challenge."""
        return self.attributes.get(_AT_RAND, b"")[2:18]

    @property
    def autn(self) -> bytes:
        """What authenticates the network."""
        return self.attributes.get(_AT_AUTN, b"")[2:18]

    @property
    def res(self) -> bytes:
        """The card's response; its length is in bits."""
        value = self.attributes.get(_AT_RES, b"")
        return value[2:2 + struct.unpack("!H", value[:2])[0] // 8] if len(value) >= 2 else b""

    @property
    def mac(self) -> bytes:
        """What authenticates the packet."""
        return self.attributes.get(_AT_MAC, b"")[2:18]

    @property
    def identity(self) -> str:
        """Who the station says it is."""
        value = self.attributes.get(_AT_IDENTITY, b"")
        size = struct.unpack("!H", value[:2])[0] if len(value) >= 2 else 0
        return value[2:2 + size].decode("utf-8", "replace")


def parse(eap: bytes) -> AkaPacket | None:
    """An EAP packet of this method; None for another, and for what is none."""
    if len(eap) < _HEADER_BYTES or eap[4] != EAP_AKA:
        return None
    attributes: dict[int, bytes] = {}
    unsigned, place = eap, _HEADER_BYTES
    while place + 2 <= len(eap):
        kind, size = eap[place], eap[place + 1] * _UNIT
        if size == 0 or place + size > len(eap):
            return None
        attributes[kind] = eap[place + 2:place + size]
        if kind == _AT_MAC:
            unsigned = eap[:place + 4] + bytes(size - 4) + eap[place + size:]
        place += size
    return AkaPacket(eap[5], attributes, unsigned)
