"""Parser for the datagrams of the protocol in captures, by the formats of docs/authenticast.md.

This module shares no code with the protocol's programs, because it is used to judge them.
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
#: Length (bytes) of each datagram's head that both captures keep. Comparing the heads tells an
#: altered datagram from the sent one.
COMMON_BYTES = 120


@dataclass(frozen=True)
class WireDatagram:
    """A UDP datagram in a capture. The payload is cut short where the capture keeps heads only."""

    source: str
    target: str
    payload: bytes
    at_s: float = 0.0

    @property
    def kind(self) -> int:
        """Return the first byte: version and message type."""
        return self.payload[0] if self.payload else 0

    @property
    def is_far_ahead(self) -> bool:
        """Return whether this is a forged data packet: its number is beyond every stream's."""
        return self.kind == DATA and int.from_bytes(self.payload[8:16], "big") >= _FAR_AHEAD


@dataclass(frozen=True)
class DataPacket:
    """A data packet of the stream. `said` is the authenticated part."""

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
    def stream_and_sequence(self) -> tuple[int, int]:
        """Return stream and sequence number."""
        return self.stream, self.sequence


def read_datagrams(file: Path, keys: Sequence[Mapping[str, str]] = ()) -> Iterator[WireDatagram]:
    """Yield all UDP datagrams of an Ethernet capture.

    With `keys` of IPsec SAs, the packets inside ESP tunnels are decrypted and included.

    Raises MeasureError.
    """
    for frame in esp.decrypt_frames(pcap.read_frames(file), keys):
        ip = frame.payload
        if len(ip) < _IP_BYTES + _UDP_BYTES or ip[9] != 17:
            continue
        start = (ip[0] & 15) * 4 + _UDP_BYTES
        # The last block of a cipher may hold more than the packet. A capture may hold less of it.
        end = int.from_bytes(ip[2:4], "big")
        yield WireDatagram(format_address(ip[12:16]), format_address(ip[16:20]), ip[start:end],
                           frame.at_s)


def parse_data_packet(payload: bytes) -> DataPacket | None:
    """Parse a whole data packet. Return None for any other payload."""
    if len(payload) < _HEADER.size or payload[0] != DATA:
        return None
    _, scheme, algorithm, _, stream, sequence, sent_ns, _, epoch, position, size, length = \
        _HEADER.unpack_from(payload)
    end = _HEADER.size + length
    return DataPacket(scheme, algorithm, stream, sequence, sent_ns, epoch, position, size,
                      payload[:end], payload[_HEADER.size:end], payload[end:])


def format_address(raw: bytes) -> str:
    """Return an IPv4 address in dotted decimal notation."""
    return ".".join(map(str, raw))
