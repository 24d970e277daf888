"""Count packets between the hosts by protocol.

The protocols are modern ADP, ESP, IKE and UDP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from measure.pcap import FRAGMENT_OFFSET, CapturedFrame
from protocols.adp.packets import Flag
from studies.adp1987 import sniffed
from studies.adp1987.sniffed import PROTOCOL

_IPV4, _UDP, _ESP = 0x0800, 17, 50
_IKE_PORT = 500
_OWN = {"adp": {PROTOCOL}, "esp": {_ESP}, "none": {_UDP}}


@dataclass
class HostTraffic:
    """The packets in a capture at one end of the wire.

    `sessions` are channel numbers or SPIs, `announced` the numbers for a channel's next keys.
    `repeated` counts packets whose sequence number did not rise. `shaking` counts packets of a
    handshake, `strangers` packets of other protocols.
    """

    protocol: str
    packets: int = 0
    sessions: set[bytes] = field(default_factory=set)
    announced: set[bytes] = field(default_factory=set)
    repeated: int = 0
    shaking: int = 0
    strangers: Counter[str] = field(default_factory=Counter)
    begun_s: float | None = None
    ended_s: float | None = None
    _last: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    @property
    def handshake_s(self) -> float | None:
        """Return the time from the handshake's first to its last packet (s), or None."""
        if self.begun_s is None or self.ended_s is None:
            return None
        return self.ended_s - self.begun_s

    def count_packet(self, at_s: float, packet: bytes) -> None:
        """Count an IPv4 packet or its head, captured at `at_s`."""
        kind, data = packet[9], packet[(packet[0] & 15) * 4:]
        if self.protocol == "esp" and kind == _UDP and _IKE_PORT.to_bytes(2) == data[2:4]:
            self._count_handshake(at_s)
        elif kind not in _OWN[self.protocol]:
            self.strangers[f"of protocol {kind}"] += 1
        else:
            self.packets += 1
            # Only the first fragment has the protocol's header.
            if not int.from_bytes(packet[6:8]) & FRAGMENT_OFFSET:
                self._count_own(at_s, packet[12:16], data)

    def _count_own(self, at_s: float, source: bytes, data: bytes) -> None:
        if self.protocol == "esp":
            self._count_number(source, data[:4], int.from_bytes(data[4:8]))
        elif self.protocol == "adp":
            self._count_adp(at_s, source, data)

    def _count_adp(self, at_s: float, source: bytes, data: bytes) -> None:
        if following := sniffed.announced_channel(data):
            self.announced.add(following)
        if sniffed.is_handshake(data):
            self._count_handshake(at_s)
        elif data[1] & Flag.SEALED:
            self._count_number(source, sniffed.channel_of(data), sniffed.sequence_of(data))

    def _count_handshake(self, at_s: float) -> None:
        self.shaking += 1
        self.begun_s = at_s if self.begun_s is None else self.begun_s
        self.ended_s = at_s

    def _count_number(self, source: bytes, session: bytes, number: int) -> None:
        self.sessions.add(session)
        self.repeated += number <= self._last.get((source, session), 0)
        self._last[source, session] = number


def count_traffic(frames: Iterable[CapturedFrame], protocol: str) -> HostTraffic:
    """Count all IPv4 packets of a capture."""
    seen = HostTraffic(protocol)
    for frame in frames:
        if frame.kind == _IPV4:
            seen.count_packet(frame.at_s, frame.payload)
    return seen
