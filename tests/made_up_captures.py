"""Captures that tests make up, in the classic pcap format."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from measure.capture import pcap as captures

#: What a capture's frames are: link types of pcap; 802.11's without a radio's header and
#: with it.
ETHERNET, RAW_IP, IEEE802_11, RADIOTAP = 1, 101, 105, 127


def pcap(frames: Iterable[tuple[float, bytes]], link_type: int = ETHERNET) -> bytes:
    """A capture's content: seconds, to the microsecond, and bytes of each frame, which is whole."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, link_type)
    return head + b"".join(
        struct.pack("<IIII", *divmod(round(at_s * 1e6), 1_000_000), len(data), len(data)) + data
        for at_s, data in frames)


def written(file: Path, frames: Iterable[tuple[float, bytes]], link_type: int = ETHERNET) -> Path:
    """The same as a file."""
    file.write_bytes(pcap(frames, link_type))
    return file


def add_stray_icmp(file: Path) -> None:
    """Add to an Ethernet capture its last packet once more, as one of ICMP."""
    frames = [(frame.at_s, frame.data) for frame in captures.read_frames(file)]
    at_s, data = frames[-1]
    stray = data[:14 + 9] + b"\x01" + data[14 + 10:14 + 20] + b"\x08" + data[14 + 21:]
    written(file, [*frames, (at_s, stray)], ETHERNET)


def datagram(size: int, source: str, target: str) -> bytes:
    """An IPv4 packet of so many bytes that says it is UDP's, with a right checksum."""
    ends = b"".join(bytes(map(int, address.split("."))) for address in (source, target))
    head = struct.pack("!BBHHHBBH", 0x45, 0, size, 7, 0, 64, 17, 0) + ends
    total = sum(struct.unpack("!10H", head))
    check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return (head[:10] + check.to_bytes(2, "big") + head[12:]
            + (bytes(range(200)) * 8)[:size - len(head)])
