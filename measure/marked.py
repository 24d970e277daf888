"""Find frames that are marked as protected but readable, even if truncated.

Only whole frames are decrypted. A truncated frame must at least not show, after its counter, the
bytes that every readable frame of the project begins with.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from measure import pcap
from measure.air_header import DATA, MAC_HEADER_BYTES, NULL, PROTECTED, TYPE, header_bytes

#: Length of WEP's initialisation vector, and of the packet number of all other ciphers.
_COUNTERS_BYTES = (4, 8)
#: LLC and SNAP header (RFC 1042) before the EtherType; occurs by chance once in 10^14.
_READABLE = bytes.fromhex("aaaa03000000")


def count_in_files(files: Iterable[Path]) -> tuple[int, str]:
    """Return the number of readable protected data frames in captures, and a description.

    Raises:
        MeasureError: A file is no capture of the air.
    """
    found = sum(map(count_readable, files))
    return found, f"; {found} are readable behind their mark" if found else ""


def count_readable(file: Path) -> int:
    """Return the number of readable protected data frames in a capture, 0 without a file.

    Raises:
        MeasureError: The file is no capture of the air.
    """
    if not file.exists():
        return 0
    has_radio = pcap.read_link_type(file) == pcap.RADIOTAP
    return sum(_is_readable(frame.data[int.from_bytes(frame.data[2:4], "little")
                                       if has_radio else 0:])
               for frame in pcap.read_frames(file, pcap.IEEE802_11))


def _is_readable(data: bytes) -> bool:
    if len(data) < MAC_HEADER_BYTES or data[0] & (TYPE | NULL) != DATA or not data[1] & PROTECTED:
        return False
    start = header_bytes(data)
    return any(data[start + size:].startswith(_READABLE) for size in _COUNTERS_BYTES)
