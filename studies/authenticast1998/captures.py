"""Datagrams of the protocol are read from captures here, by the formats of docs/authenticast.md.

Nothing here is shared with the protocol's own programs: they are what is judged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import esp, pcap

_IP_BYTES, _UDP_BYTES = 20, 8
_HEADER = struct.Struct("!BBBBIQQIIHHH")
DATA, BUNDLE, REPORT, CONTROL, CHANGE, ACK, HELLO, HELLO_ACK, BYE, DISCLOSE = range(0x11, 0x1B)
PERCENTAGE, DELAYED, SECRET_KEY, TREE, TESLA = range(1, 6)
_FAR_AHEAD = 2 ** 40
#: So much of each datagram both captures have: what tells an altered one from what was sent.
COMMON_BYTES = 120


@dataclass(frozen=True)
class WireDatagram:
    """One UDP datagram on its way; cut short where the capture keeps heads."""

    source: str
    target: str
    payload: bytes
    at_s: float = 0.0

    @property
    def kind(self) -> int:
        """Version and type."""
        return self.payload[0] if self.payload else 0

    @property
    def is_far_ahead(self) -> bool:
        """Whether it is a data packet of a number that no stream of ours reaches: made up."""
        return self.kind == DATA and int.from_bytes(self.payload[8:16], "big") >= _FAR_AHEAD


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


def read(file: Path, keys: Sequence[Mapping[str, str]] = ()) -> Iterator[WireDatagram]:
    """All UDP datagrams of a capture on Ethernet. Raises MeasureError.

    With the `keys` of IPsec SAs, also what left in a tunnel.
    """
    for frame in esp.opened(pcap.frames(file), keys):
        ip = frame.payload
        if len(ip) < _IP_BYTES + _UDP_BYTES or ip[9] != 17:
            continue
        start = (ip[0] & 15) * 4 + _UDP_BYTES
        # A cipher's last block may hold more than the packet; a capture may hold less.
        end = int.from_bytes(ip[2:4], "big")
        yield WireDatagram(_address(ip[12:16]), _address(ip[16:20]), ip[start:end], frame.at_s)


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
