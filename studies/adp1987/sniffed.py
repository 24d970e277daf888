"""Read ADP messages from captured frames: whole messages, and heads with their times."""

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
    """A reassembled ADP message.

    `frame` is None if the payload cannot be parsed.
    """

    time_s: float
    source: str
    payload: bytes
    frame: Frame | None


@dataclass(frozen=True)
class SniffedHead:
    """The captured first fragment of an ADP message.

    `at_s` is the time of capture and `ip_bytes` the size of the IP packet. `count` is the number of
    user messages in the header, and `flags` states their protection. `is_again`: the same bytes
    were captured before; its `count` is 0. `channel` is the channel's number, `announced_channel`
    the number for its next keys. `signatures` counts owners' signatures in the clear.
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
    def is_request(self) -> bool:
        """Return whether the message requests a channel.

        A request for new keys does not count.
        """
        return bool(self.flags & Flag.REQUEST) and not self.flags & Flag.REKEY


def reassemble_messages(frames: Iterable[CapturedFrame]) -> list[SniffedMessage]:
    """Return the ADP messages of whole frames in order, reassembled from IP fragments."""
    return [SniffedMessage(packet.at_s, packet.source, packet.payload, _parse_frame(packet.payload))
            for packet in pcap.ip_packets(frames, PROTOCOL)]


def find_heads(frames: Iterable[CapturedFrame], source: str, *,
               once: bool = False) -> Iterator[SniffedHead]:
    """Yield the first fragments of a source's ADP messages.

    Args:
        frames: Captured frames, in order of time.
        source: IPv4 address of the sender.
        once: Mark messages whose bytes were captured before.
    """
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
                          channel_of(content), announced_channel(content),
                          _count_signatures(content))


def count_strangers(frames: Iterable[CapturedFrame]) -> Counter[int]:
    """Count IPv4 packets that are not ADP, by protocol number."""
    return Counter(frame.payload[9] for frame in frames
                   if frame.kind == _IPV4 and frame.payload[9] != PROTOCOL)


def channel_of(content: bytes) -> bytes:
    """Return the number of an ADP message's channel."""
    return content[4:12]


def is_handshake(content: bytes) -> bool:
    """Return whether a message requests or acknowledges a channel, not only new keys."""
    return bool(content[1] & (Flag.REQUEST | Flag.ACKNOWLEDGE)) and not content[1] & Flag.REKEY


def announced_channel(content: bytes) -> bytes:
    """Return the channel number for new keys that a message announces, or b""."""
    is_about = content[1] & Flag.REKEY and content[1] & (Flag.REQUEST | Flag.ACKNOWLEDGE)
    return content[HEADER + 2:HEADER + 10] if is_about else b""


def sealed_offset(content: bytes) -> int:
    """Return the offset of the sealed part, after the header and its extensions."""
    place = HEADER
    for flag in (Flag.REQUEST, Flag.ACKNOWLEDGE):
        if content[1] & flag:
            place += 2 + int.from_bytes(content[place:place + 2])
    return place


def sequence_of(content: bytes) -> int:
    """Return a message's sequence number, which the modern protocol sends in the clear."""
    place = sealed_offset(content)
    return int.from_bytes(content[place:place + _NUMBER_BYTES])


def count_channels(numbers: Set[bytes], following: Set[bytes]) -> int:
    """Return how many different channels the numbers belong to.

    Numbers in `following` are those of new keys and belong to other numbers' channels.
    """
    return len(numbers - following)


def _count_signatures(content: bytes) -> int:
    """Return the number of signatures in a message, 0 if they are encrypted."""
    if not content[1] & Flag.SEALED or content[1] & Flag.ALL:
        return 0
    # In the modern protocol, the sequence number comes first.
    place = sealed_offset(content) + (_NUMBER_BYTES if content[0] >> 4 != 1 else 0)
    return int.from_bytes(content[place:place + 1])


def _parse_frame(payload: bytes) -> Frame | None:
    try:
        return packets.parse_frame(payload)
    except PacketError:
        return None
