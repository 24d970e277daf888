"""Parser of EAP-AKA packets: subtype and attributes (RFC 4187, sections 8 to 10).

EAP-AKA' packets differ in their EAP type and have two more attributes (RFC 9048, section 3).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

EAP_AKA, EAP_AKA_PRIME = 23, 50
CHALLENGE, SYNCHRONIZATION_FAILURE = 1, 4
_AT_RAND, _AT_AUTN, _AT_RES, _AT_MAC, _AT_IDENTITY, _AT_KDF_INPUT = 1, 2, 3, 11, 14, 23
_HEADER_BYTES, _UNIT = 8, 4


@dataclass(frozen=True)
class AkaPacket:
    """A parsed EAP-AKA packet.

    `attributes` holds the values by attribute type, without type and length. `unsigned` is the
    packet with zeros as AT_MAC. `method` is the EAP type.
    """

    subtype: int
    attributes: dict[int, bytes] = field(default_factory=dict)
    unsigned: bytes = b""
    method: int = EAP_AKA

    @property
    def rand(self) -> bytes:
        """Return the challenge RAND."""
        return self.attributes.get(_AT_RAND, b"")[2:18]

    @property
    def autn(self) -> bytes:
        """Return AUTN, which authenticates the network."""
        return self.attributes.get(_AT_AUTN, b"")[2:18]

    @property
    def res(self) -> bytes:
        """Return the card's response RES.

        AT_RES gives its length in bits.
        """
        value = self.attributes.get(_AT_RES, b"")
        return value[2:2 + struct.unpack("!H", value[:2])[0] // 8] if len(value) >= 2 else b""

    @property
    def mac(self) -> bytes:
        """Return AT_MAC, which authenticates the packet."""
        return self.attributes.get(_AT_MAC, b"")[2:18]

    @property
    def identity(self) -> str:
        """Return the identity that the station claims."""
        return self._text_attribute(_AT_IDENTITY)

    @property
    def network(self) -> str:
        """Return the access network's name, which EAP-AKA' keys are bound to."""
        return self._text_attribute(_AT_KDF_INPUT)

    def _text_attribute(self, kind: int) -> str:
        """Return the text of an attribute that begins with its length in bytes."""
        value = self.attributes.get(kind, b"")
        size = struct.unpack("!H", value[:2])[0] if len(value) >= 2 else 0
        return value[2:2 + size].decode("utf-8", "replace")


def parse_packet(eap: bytes) -> AkaPacket | None:
    """Parse an EAP-AKA or EAP-AKA' packet.

    Return None for another method or malformed data.
    """
    if len(eap) < _HEADER_BYTES or eap[4] not in (EAP_AKA, EAP_AKA_PRIME):
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
    return AkaPacket(eap[5], attributes, unsigned, eap[4])
