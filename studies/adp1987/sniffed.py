"""What captures hold of a channel: whole ADP messages, and when each was put on the wire."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from measure import pcap
from measure.pcap import FRAGMENT_OFFSET, CapturedFrame
from protocols.adp import packets
from protocols.adp.errors import PacketError
from protocols.adp.packets import HEADER, Flag, Frame

PROTOCOL = 253
_IPV4 = 0x0800
_NUMBER_BYTES = 8


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
    captured before, byte for byte, `is_again`, and counts none. `channel` is the number of the one
    that it is on, `announced` the one that follows; `signatures` are those of owners in the clear.
    """

    at_s: float
    ip_bytes: int
    count: int
    flags: int
    is_again: bool = False
    channel: bytes = b""
    announced: bytes = b""
    signatures: int = 0

    @property
    def asks(self) -> bool:
        """Whether a request for a channel rides on it; one for the next keys is none."""
        return bool(self.flags & Flag.REQUEST) and not self.flags & Flag.REKEY


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
                or int.from_bytes(packet[6:8]) & FRAGMENT_OFFSET):
            continue
        content = packet[(packet[0] & 15) * 4:]
        if len(content) < HEADER:
            continue
        is_again = once and content in known
        if once:
            known.add(content)
        count = 0 if is_again else int.from_bytes(content[2:4])
        yield SniffedHead(frame.at_s, int.from_bytes(packet[2:4]), count, content[1], is_again,
                          channel_of(content), announced(content), _signatures(content))


def strangers(frames: Iterable[CapturedFrame]) -> Counter[int]:
    """IPv4 packets of no ADP message, by their protocol."""
    return Counter(frame.payload[9] for frame in frames
                   if frame.kind == _IPV4 and frame.payload[9] != PROTOCOL)


def channel_of(content: bytes) -> bytes:
    """The number of the channel that an ADP message is on."""
    return content[4:12]


def establishes(content: bytes) -> bool:
    """Whether an ADP message asks for a channel or acknowledges it; next keys are part of one."""
    return bool(content[1] & (Flag.REQUEST | Flag.ACKNOWLEDGE)) and not content[1] & Flag.REKEY


def announced(content: bytes) -> bytes:
    """The number that the channel has with its next keys, where a message is about those."""
    is_about = content[1] & Flag.REKEY and content[1] & (Flag.REQUEST | Flag.ACKNOWLEDGE)
    return content[HEADER + 2:HEADER + 10] if is_about else b""


def sealed_at(content: bytes) -> int:
    """Where what is sealed begins: behind the header and what rides on it."""
    place = HEADER
    for flag in (Flag.REQUEST, Flag.ACKNOWLEDGE):
        if content[1] & flag:
            place += 2 + int.from_bytes(content[place:place + 2])
    return place


def sequence_of(content: bytes) -> int:
    """A message's sequence number, where it is in the clear: with the modern protocol."""
    place = sealed_at(content)
    return int.from_bytes(content[place:place + _NUMBER_BYTES])


def sessions(numbers: Set[bytes], following: Set[bytes]) -> int:
    """How many channels have these numbers, without those that follow one: of its next keys."""
    return len(numbers - following)


def _signatures(content: bytes) -> int:
    """How many an ADP message has before its user messages; encrypted, they are not to be seen."""
    if not content[1] & Flag.SEALED or content[1] & Flag.ALL:
        return 0
    # The modern protocol has its sequence number first.
    place = sealed_at(content) + (_NUMBER_BYTES if content[0] >> 4 != 1 else 0)
    return int.from_bytes(content[place:place + 1])


def _parsed(payload: bytes) -> Frame | None:
    try:
        return packets.parse(payload)
    except PacketError:
        return None
