"""802.11's header as bytes: its marks, and where it ends (IEEE 802.11-2020, 9.2.4)."""

from __future__ import annotations

#: In the first byte: a frame's type, that nothing follows the header, and that it has a priority.
TYPE, DATA, NULL, QOS = 0x0C, 0x08, 0x40, 0x80
#: In the second: by whom to whom, encrypted, and (with a priority) HT Control.
TO_DS, FROM_DS, PROTECTED, ORDER = 0x01, 0x02, 0x40, 0x80
#: With three addresses, without more.
MAC_HEADER_BYTES = 24
_BETWEEN, _ADDRESS_BYTES, _QOS_BYTES, _HT_BYTES = TO_DS | FROM_DS, 6, 2, 4


def addresses_end(data: bytes) -> int:
    """Where a data frame's addresses end, three or four."""
    return MAC_HEADER_BYTES + _ADDRESS_BYTES * (data[1] & _BETWEEN == _BETWEEN)


def header_bytes(data: bytes) -> int:
    """How long a data frame's header is."""
    has_qos = bool(data[0] & QOS)
    return (addresses_end(data) + _QOS_BYTES * has_qos
            + _HT_BYTES * (has_qos and bool(data[1] & ORDER)))
