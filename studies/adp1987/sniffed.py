"""What captures hold of a channel: whole ADP messages, and headers of first fragments."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from measure import pcap
from protocols.adp import packets
from protocols.adp.errors import PacketError
from protocols.adp.packets import HEADER, Frame

PROTOCOL = 253


@dataclass(frozen=True)
class SniffedMessage:
    """An ADP message as it was on the wire; `frame` is None for what is none."""

    time_s: float
    source: str
    payload: bytes
    frame: Frame | None


def whole(capture: Path) -> list[SniffedMessage]:
    """The ADP messages of a whole capture, in order, put together of IP's fragments.

    Raises MeasureError.
    """
    return [SniffedMessage(packet.at_s, packet.source, packet.payload, _parsed(packet.payload))
            for packet in pcap.packets(capture, PROTOCOL)]


def counts(capture: Path, source: str) -> list[int]:
    """How many user messages each ADP message of a source has, by its first fragment's header.

    Those without any are left out. Raises MeasureError.
    """
    sender = ipaddress.IPv4Address(source).packed
    numbers = [int.from_bytes(_content(frame.payload)[2:4]) for frame in pcap.frames(capture)
               if frame.payload[12:16] == sender and len(_content(frame.payload)) >= HEADER]
    return [number for number in numbers if number]


def _content(packet: bytes) -> bytes:
    return packet[(packet[0] & 15) * 4:]


def _parsed(payload: bytes) -> Frame | None:
    try:
        return packets.parse(payload)
    except PacketError:
        return None
