"""Frames that say they are encrypted and are not, read as bytes: heads of streams suffice.

Only whole frames are decrypted. Of one whose end no capture has, what stands behind its counter is
at least not what every readable frame of the project's begins with.
"""

from __future__ import annotations

from pathlib import Path

from measure import pcap

#: In the first byte of a frame: its type, and that nothing follows; in the second: its mark.
_TYPE, _DATA, _NULL, _QOS, _PROTECTED = 0x0C, 0x08, 0x40, 0x80, 0x40
_BOTH = 0x03
_HEADER_BYTES, _ADDRESS_BYTES, _QOS_BYTES = 24, 6, 2
#: WEP's initialisation vector, and the longer packet number of all others.
_COUNTERS_BYTES = (4, 8)
#: LLC and SNAP (RFC 1042), before the kind of what follows; by chance one time in 10^14.
_READABLE = bytes.fromhex("aaaa03000000")


def readable(file: Path) -> int:
    """How many marked data frames of a capture of the air are there to be read; 0 without a file.

    Raises MeasureError for a capture that is none of the air.
    """
    if not file.exists():
        return 0
    has_radio = pcap.link_type(file) == pcap.RADIOTAP
    return sum(_is_readable(frame.data[int.from_bytes(frame.data[2:4], "little")
                                       if has_radio else 0:])
               for frame in pcap.frames(file, pcap.IEEE802_11))


def _is_readable(data: bytes) -> bool:
    if len(data) < _HEADER_BYTES or data[0] & (_TYPE | _NULL) != _DATA or (
            not data[1] & _PROTECTED):
        return False
    start = (_HEADER_BYTES + _ADDRESS_BYTES * (data[1] & _BOTH == _BOTH)
             + _QOS_BYTES * bool(data[0] & _QOS))
    return any(data[start + size:].startswith(_READABLE) for size in _COUNTERS_BYTES)
