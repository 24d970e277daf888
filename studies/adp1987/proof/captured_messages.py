"""Read ADP datagrams from captures: complete ones, and headers with their times.

ADP is the Authenticated Datagram Protocol of 1987. A datagram carries several messages. The checks
of the study adp1987 use this module. `reassemble_messages` takes complete frames, and returns each
datagram with its content (`CapturedMessage`). `find_heads` takes truncated frames, and yields the
first fragment of each datagram (`CapturedHead`). Further functions read fields of a datagram, such
as its channel (`channel_of`), the secure connection of two hosts.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from measure.capture import pcap
from measure.capture.pcap import FRAGMENT_OFFSET, CapturedFrame
from protocols.adp import packets
from protocols.adp.packets import HEADER, Frame, HeaderFlag, PacketError

PROTOCOL = 253
_IPV4 = 0x0800
_NUMBER_BYTES = 8


@dataclass(frozen=True)
class CapturedMessage:
    """An ADP datagram, reassembled from captured IP fragments.

    `frame` has its parsed fields. It is None if they cannot be parsed.
    """

    time_s: float
    source: str
    payload: bytes
    frame: Frame | None


@dataclass(frozen=True)
class CapturedHead:
    """The first fragment of an ADP datagram, of which only the first bytes were captured.

    - `at_s`: time of capture
    - `ip_bytes`: size of the IP packet
    - `count`: number of messages in the datagram, by its header
    - `flags`: protection of the datagram
    - `is_again`: the same bytes were captured before. `count` is then 0.
    - `channel`: number of the secure channel
    - `announced`: number that the channel has with its next keys, empty if none are announced
    - `signatures`: number of owners' signatures that are not encrypted
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
        """Return whether the datagram requests a channel, not only new keys for one."""
        return bool(self.flags & HeaderFlag.REQUEST) and not self.flags & HeaderFlag.REKEY


def reassemble_messages(frames: Iterable[CapturedFrame]) -> list[CapturedMessage]:
    """Reassemble ADP datagrams from complete captured frames, in order."""
    return [CapturedMessage(packet.at_s, packet.source, packet.payload,
                            _parse_frame(packet.payload))
            for packet in pcap.ip_packets(frames, PROTOCOL)]


def find_heads(frames: Iterable[CapturedFrame], source: str, *,
               once: bool = False) -> Iterator[CapturedHead]:
    """Yield the first fragments of a host's ADP datagrams.

    Args:
        frames: captured frames, in order of time.
        source: IPv4 address of the sender.
        once: count the messages of equal datagrams only once. The later datagrams are marked as
            repeated (`is_again`) and have 0 messages.
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
        yield CapturedHead(frame.at_s, int.from_bytes(packet[2:4]), count, content[1], is_again,
                           channel_of(content), announced_channel(content),
                           _count_signatures(content))


def count_strangers(frames: Iterable[CapturedFrame]) -> Counter[int]:
    """Count IPv4 packets other than ADP, by protocol number."""
    return Counter(frame.payload[9] for frame in frames
                   if frame.kind == _IPV4 and frame.payload[9] != PROTOCOL)


def channel_of(content: bytes) -> bytes:
    """Return the number of the channel that a datagram belongs to."""
    return content[4:12]


def is_handshake(content: bytes) -> bool:
    """Return whether a datagram requests or acknowledges a channel, not only new keys."""
    return bool(content[1] & (HeaderFlag.REQUEST | HeaderFlag.ACKNOWLEDGE)) and not content[
        1] & HeaderFlag.REKEY


def announced_channel(content: bytes) -> bytes:
    """Return the channel number for new keys that a datagram announces, or empty bytes."""
    is_about = content[1] & HeaderFlag.REKEY and content[1] & (
        HeaderFlag.REQUEST | HeaderFlag.ACKNOWLEDGE)
    return content[HEADER + 2:HEADER + 10] if is_about else b""


def sealed_offset(content: bytes) -> int:
    """Return where the protected part of a datagram begins, in bytes."""
    place = HEADER
    for flag in (HeaderFlag.REQUEST, HeaderFlag.ACKNOWLEDGE):
        if content[1] & flag:
            place += 2 + int.from_bytes(content[place:place + 2])
    return place


def sequence_of(content: bytes) -> int:
    """Return the sequence number of a datagram of the modern version, where it is not encrypted."""
    place = sealed_offset(content)
    return int.from_bytes(content[place:place + _NUMBER_BYTES])


def count_channels(numbers: Set[bytes], following: Set[bytes]) -> int:
    """Count the different channels to which numbers belong.

    A channel gets a new number with each new key. Numbers in `following` are such numbers, so they
    do not count.
    """
    return len(numbers - following)


def _count_signatures(content: bytes) -> int:
    """Return the number of signatures in a datagram, 0 if they are encrypted."""
    if not content[1] & HeaderFlag.SEALED or content[1] & HeaderFlag.ALL:
        return 0
    # In the modern protocol, the sequence number comes first.
    place = sealed_offset(content) + (_NUMBER_BYTES if content[0] >> 4 != 1 else 0)
    return int.from_bytes(content[place:place + 1])


def _parse_frame(payload: bytes) -> Frame | None:
    try:
        return packets.parse_frame(payload)
    except PacketError:
        return None
