"""Datagrams of the protocol are read from captures here, by the formats of docs/authenticast.md.

Nothing here is shared with the protocol's own programs: they are what is judged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measure.errors import MeasureError

_PCAP_BYTES, _RECORD, _MAGIC, _ETHERNET = 24, struct.Struct("<IIII"), 0xA1B2C3D4, 1
_ETHERNET_BYTES, _IP_BYTES, _UDP = 14, 20, struct.Struct("!HHHH")
_HEADER = struct.Struct("!BBBBIQQIIHHH")
DATA, BUNDLE, REPORT, CONTROL, CHANGE, ACK, HELLO, HELLO_ACK, BYE, DISCLOSE = range(0x11, 0x1B)
PERCENTAGE, DELAYED, SECRET_KEY, TREE, TESLA = range(1, 6)
#: So much of each datagram both captures have: what tells an altered one from what was sent.
COMMON_BYTES = 120


@dataclass(frozen=True)
class WireDatagram:
    """One UDP datagram on its way; cut short where the capture keeps heads."""

    source: str
    target: str
    payload: bytes

    @property
    def kind(self) -> int:
        """Version and type."""
        return self.payload[0] if self.payload else 0


@dataclass(frozen=True)
class DataPacket:
    """A packet of the stream; `said` is all that is authenticated."""

    scheme: int
    algorithm: int
    stream: int
    sequence: int
    sent_ns: int
    epoch: int
    position: int
    bundle: int
    said: bytes
    payload: bytes
    authenticator: bytes

    @property
    def place(self) -> tuple[int, int]:
        """Stream and sequence number."""
        return self.stream, self.sequence


def read(file: Path) -> Iterator[WireDatagram]:
    """All UDP datagrams of a capture on Ethernet. Raises MeasureError."""
    data = file.read_bytes()
    if len(data) < _PCAP_BYTES or struct.unpack_from("<I", data)[0] != _MAGIC or (
            struct.unpack_from("<I", data, 20)[0] != _ETHERNET):
        raise MeasureError("evidence", f"{file.name} is no capture of Ethernet frames")
    at = _PCAP_BYTES
    while at + _RECORD.size <= len(data):
        _, _, held, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        frame = data[at:at + held]
        at += held
        ip = frame[_ETHERNET_BYTES:]
        if len(ip) < _IP_BYTES + _UDP.size or ip[9] != 17:
            continue
        start = (ip[0] & 15) * 4 + _UDP.size
        yield WireDatagram(_address(ip[12:16]), _address(ip[16:20]), ip[start:])


def parse(payload: bytes) -> DataPacket | None:
    """A whole packet of the stream; None for what is none."""
    if len(payload) < _HEADER.size or payload[0] != DATA:
        return None
    _, scheme, algorithm, _, stream, sequence, sent_ns, _, epoch, position, size, length = \
        _HEADER.unpack_from(payload)
    end = _HEADER.size + length
    return DataPacket(scheme, algorithm, stream, sequence, sent_ns, epoch, position, size,
                      payload[:end], payload[_HEADER.size:end], payload[end:])


def _address(raw: bytes) -> str:
    return ".".join(map(str, raw))
