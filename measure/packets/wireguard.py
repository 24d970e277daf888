"""Find WireGuard messages in captures, and check that no traffic is outside of the tunnel.

`classify_traffic` takes captured frames and the UDP ports of WireGuard. It counts handshakes,
sessions and other packets (`WireGuardTraffic`). `check_wireguard_traffic` takes the counts, and
yields checks for the proof that a policy was applied. Captures need whole frames, or at least their
first 64 bytes. Message formats: WireGuard's white paper, section 5.4.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from measure.capture.pcap import FRAGMENT_OFFSET, MORE_FRAGMENTS, CapturedFrame
from measure.checks.observation import Check

#: UDP port in WireGuard's documentation.
WIREGUARD_PORT = 51820
INITIATION, RESPONSE, COOKIE, TRANSPORT = 1, 2, 3, 4
_NAMES = {INITIATION: "initiations", RESPONSE: "responses", COOKIE: "cookies",
          TRANSPORT: "transport"}
_IPV4, _UDP = 0x0800, 17
#: Headers of Ethernet, IPv4 and UDP (bytes).
HEADERS_BYTES = 42
#: Length of messages with a fixed length (bytes).
LENGTHS = {INITIATION: 148, RESPONSE: 92, COOKIE: 64}
_KINDS = {size_bytes: kind for kind, size_bytes in LENGTHS.items()}
#: Header of a transport message (type, receiver, counter), and its authentication tag (bytes).
_TRANSPORT_BYTES, _TAG_BYTES = 16, 16
_HEAD = struct.Struct("<B3xI")
_COUNTER = struct.Struct("<Q")


def kind_of(size_bytes: int) -> int:
    """Return the type of a WireGuard message from its size in bytes.

    The sizes of transport messages are multiples of 16 bytes.
    """
    return _KINDS.get(size_bytes, TRANSPORT)


@dataclass
class WireGuardTraffic:
    """The messages between the ends of a WireGuard tunnel, counted by type.

    - `counts`: number of messages by type
    - `initiated_s`, `answered_s`: first initiation, and last response before data (s)
    - `sessions`: receiver indices from handshakes.
    - `unknown`: number of transport messages to other indices.
    - `repeated`: number of transport messages whose counter did not rise.
    - `inner_bytes`: bytes inside transport messages, including padding.
    - `longest_bytes`: bytes inside the longest transport message.
    - `strangers`: other packets, by description.
    """

    counts: Counter[int] = field(default_factory=Counter)
    sessions: set[int] = field(default_factory=set)
    unknown: int = 0
    repeated: int = 0
    inner_bytes: int = 0
    longest_bytes: int = 0
    strangers: Counter[str] = field(default_factory=Counter)
    initiated_s: float | None = None
    answered_s: float | None = None
    _last: dict[int, int] = field(default_factory=dict)

    @property
    def handshake_s(self) -> float | None:
        """Return how long the handshake took: from first initiation to last response before data.

        The result is None without both. Initiations that cross make each other's responses invalid.
        """
        if self.initiated_s is None or self.answered_s is None:
            return None
        return self.answered_s - self.initiated_s

    def count_message(self, at_s: float, message: bytes, size: int) -> bool:
        """Count a UDP payload and return whether it is a WireGuard message.

        Args:
            at_s: Capture time in s.
            message: The captured part of the payload.
            size: Length of the payload in bytes.
        """
        if len(message) < _TRANSPORT_BYTES + _TAG_BYTES or message[1:4] != bytes(3):
            return False
        kind, index = _HEAD.unpack_from(message)
        if kind == TRANSPORT:
            self._count_transport(index, _COUNTER.unpack_from(message, 8)[0], size)
        elif size != LENGTHS.get(kind):
            return False
        else:
            self._count_handshake(at_s, kind, index)
        self.counts[kind] += 1
        return True

    def _count_handshake(self, at_s: float, kind: int, index: int) -> None:
        if kind == INITIATION:
            self.initiated_s = at_s if self.initiated_s is None else self.initiated_s
        elif kind == RESPONSE:
            self.answered_s = self.answered_s if self.counts[TRANSPORT] else at_s
        if kind in (INITIATION, RESPONSE):
            self.sessions.add(index)

    def _count_transport(self, index: int, counter: int, size: int) -> None:
        self.unknown += index not in self.sessions
        self.repeated += counter <= self._last.get(index, -1)
        self._last[index] = counter
        inner_bytes = size - _TRANSPORT_BYTES - _TAG_BYTES
        self.inner_bytes += inner_bytes
        self.longest_bytes = max(self.longest_bytes, inner_bytes)


def classify_traffic(frames: Iterable[CapturedFrame], ports: Collection[int]) -> WireGuardTraffic:
    """Count every IPv4 packet of a capture as a WireGuard message or as other traffic.

    Args:
        frames: Frames of the capture.
        ports: UDP ports of WireGuard.
    """
    traffic = WireGuardTraffic()
    for frame in frames:
        packet = frame.payload
        if frame.kind != _IPV4 or len(packet) < 20:
            continue
        start = (packet[0] & 15) * 4
        is_whole = not int.from_bytes(packet[6:8], "big") & (MORE_FRAGMENTS | FRAGMENT_OFFSET)
        if packet[9] == _UDP and is_whole and len(packet) >= start + 8:
            _, target, length = struct.unpack_from("!HHH", packet, start)
            message = packet[start + 8:start + length]
            if target in ports and traffic.count_message(frame.at_s, message, length - 8):
                continue
        traffic.strangers[_describe_packet(packet)] += 1
    return traffic


def check_wireguard_traffic(counted: WireGuardTraffic, carried_bytes: int) -> Iterator[Check]:
    """Yield the checks of a WireGuard tunnel, for all its traffic.

    Args:
        counted: The counted traffic.
        carried_bytes: Bytes that must at least have passed inside the tunnel.
    """
    yield Check("handshake", counted.handshake_s is not None,
                f"captured: {_format_counts(counted.counts)}")
    shown = ", ".join(f"{count} {name}" for name, count in counted.strangers.most_common(3))
    yield Check("tunnelled", not counted.strangers and counted.counts[TRANSPORT] > 0, (
        f"{counted.counts[TRANSPORT]} packets are transport messages, {counted.strangers.total()} "
        "are no WireGuard" + (f" ({shown})" if shown else "")))
    yield Check("sessions", bool(counted.sessions) and not counted.unknown and not counted.repeated,
                (
        f"transport to {len(counted.sessions)} indices of handshakes, {counted.unknown} messages "
        f"to others, {counted.repeated} with a counter that did not rise"))
    yield Check("carried", counted.inner_bytes >= carried_bytes > 0, (
        f"{counted.inner_bytes} bytes inside transport messages, {carried_bytes} of the stream"))


def _format_counts(counts: Counter[int]) -> str:
    return ", ".join(f"{counts[kind]} {name}" for kind, name in _NAMES.items()
                     if counts[kind]) or "nothing"


def _describe_packet(packet: bytes) -> str:
    source, target = (ipaddress.IPv4Address(packet[at:at + 4]) for at in (12, 16))
    return f"of protocol {packet[9]} from {source} to {target}"
