"""Fields and length of an 802.11 header, as bytes (IEEE 802.11-2020, 9.2.4)."""

from __future__ import annotations

#: Bits of the first byte: the frame's type, null frame, QoS.
TYPE, DATA, NULL, QOS = 0x0C, 0x08, 0x40, 0x80
#: Bits of the second byte: To DS, From DS, protected, and (with QoS) HT Control present.
TO_DS, FROM_DS, PROTECTED, ORDER = 0x01, 0x02, 0x40, 0x80
#: Header with three addresses and no further fields.
MAC_HEADER_BYTES = 24
_BETWEEN, _ADDRESS_BYTES, _QOS_BYTES, _HT_BYTES = TO_DS | FROM_DS, 6, 2, 4


def addresses_end(data: bytes) -> int:
    """Return the offset at which a data frame's three or four addresses end."""
    return MAC_HEADER_BYTES + _ADDRESS_BYTES * (data[1] & _BETWEEN == _BETWEEN)


def header_bytes(data: bytes) -> int:
    """Return the length of a data frame's header."""
    has_qos = bool(data[0] & QOS)
    return (addresses_end(data) + _QOS_BYTES * has_qos
            + _HT_BYTES * (has_qos and bool(data[1] & ORDER)))
