"""What captures hold of a channel: whole ADP messages, and when each was put on the wire."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from measure import pcap
from measure.pcap import CapturedFrame
from protocols.adp import packets
from protocols.adp.errors import PacketError
from protocols.adp.packets import HEADER, Frame

PROTOCOL = 253
_OFFSET, _IPV4 = 0x1FFF, 0x0800


@dataclass(frozen=True)
class SniffedMessage:
    """An ADP message as it was on the wire; `frame` is None for what is none."""

    time_s: float
    source: str
    payload: bytes
    frame: Frame | None


@dataclass(frozen=True)
class SniffedHead:
    """The first fragment of an ADP message, as it was captured: its time, and its IP packet's size.

    `count` is how many user messages its header says, `flags` how they are protected. What was
    captured before, byte for byte, `is_again`, and counts none.
    """

    at_s: float
    ip_bytes: int
    count: int
    flags: int
    is_again: bool = False


def whole(frames: Iterable[CapturedFrame]) -> list[SniffedMessage]:
    """The ADP messages of whole frames, in order, put together of IP's fragments."""
    return [SniffedMessage(packet.at_s, packet.source, packet.payload, _parsed(packet.payload))
            for packet in pcap.packets(frames, PROTOCOL)]


def heads(frames: Iterable[CapturedFrame], source: str, *,
          once: bool = False) -> Iterator[SniffedHead]:
    """The first fragments of a source's ADP messages; `once`: what is there again says so."""
    sender, known = ipaddress.IPv4Address(source).packed, set()
    for frame in frames:
        packet = frame.payload
        if (frame.kind != _IPV4 or packet[9] != PROTOCOL or packet[12:16] != sender
                or int.from_bytes(packet[6:8]) & _OFFSET):
            continue
        content = packet[(packet[0] & 15) * 4:]
        if len(content) < HEADER:
            continue
        is_again = once and content in known
        known.add(content)
        count = 0 if is_again else int.from_bytes(content[2:4])
        yield SniffedHead(frame.at_s, int.from_bytes(packet[2:4]), count, content[1], is_again)


def _parsed(payload: bytes) -> Frame | None:
    try:
        return packets.parse(payload)
    except PacketError:
        return None
