"""Frames that say they are encrypted and are not, read as bytes: heads of streams suffice.

Only whole frames are decrypted. Of one whose end no capture has, what stands behind its counter is
at least not what every readable frame of the project's begins with.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from measure import pcap
from measure.air_header import DATA, MAC_HEADER_BYTES, NULL, PROTECTED, TYPE, header_bytes

#: WEP's initialisation vector, and the longer packet number of all others.
_COUNTERS_BYTES = (4, 8)
#: LLC and SNAP (RFC 1042), before the kind of what follows; by chance one time in 10^14.
_READABLE = bytes.fromhex("aaaa03000000")


def among(files: Iterable[Path]) -> tuple[int, str]:
    """How many marked data frames of captures of the air are there to be read, and words for it.

    Raises MeasureError for a capture that is none of the air.
    """
    found = sum(map(readable, files))
    return found, f"; {found} are readable behind their mark" if found else ""


def readable(file: Path) -> int:
    """How many of one capture are; 0 without a file. Raises MeasureError."""
    if not file.exists():
        return 0
    has_radio = pcap.link_type(file) == pcap.RADIOTAP
    return sum(_is_readable(frame.data[int.from_bytes(frame.data[2:4], "little")
                                       if has_radio else 0:])
               for frame in pcap.frames(file, pcap.IEEE802_11))


def _is_readable(data: bytes) -> bool:
    if len(data) < MAC_HEADER_BYTES or data[0] & (TYPE | NULL) != DATA or not data[1] & PROTECTED:
        return False
    start = header_bytes(data)
    return any(data[start + size:].startswith(_READABLE) for size in _COUNTERS_BYTES)
