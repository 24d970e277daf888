"""Ceilings say what the shared air could carry at most on a path.

A packet crosses the air once for every radio on its path, each time in ESP and with the cipher's
bytes as the policy says, and pays the medium's airtime each time (docs/medium.md). Wires are as
quick as the processor; they only limit how long a packet may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.bounds.packets import IPV4_BYTES, TCP_IP_BYTES, UDP_BYTES, Esp, fragments
from topologies.model import Medium

LLC_BYTES = 8
#: Linux acknowledges every second segment, as Medium.tcp_ceiling_bps counts.
_SEGMENTS_PER_ACK = 2


@dataclass(frozen=True)
class Hop:
    """One crossing of the air: on which channel, and in which ESP, if any."""

    channel: int
    esp: Esp | None

    def packet_bytes(self, inner_bytes: int) -> int:
        """Length of the IP packet on the air."""
        return self.esp.packet_bytes(inner_bytes) if self.esp else inner_bytes


@dataclass(frozen=True)
class Ceiling:
    """The highest goodput, and the air's time that it takes.

    `airtime_us` is that of one datagram, or of one segment with its share of an acknowledgement, on
    the busiest channel and over all of its crossings. `payload_bytes` is what it carries.
    """

    bps: float
    airtime_us: float
    payload_bytes: int


@dataclass(frozen=True)
class Path:
    """Where packets go: crossings of the air, and the longest packet not split anywhere.

    `cipher_bytes` is what the policy's cipher adds to a frame.
    """

    hops: tuple[Hop, ...]
    limit_bytes: int
    cipher_bytes: int

    def split(self, packet_bytes: int) -> tuple[int, ...]:
        """Lengths of the parts in which a packet goes, one where it is short enough."""
        return fragments(packet_bytes, self.limit_bytes)

    def udp(self, medium: Medium, payload_bytes: int) -> Ceiling:
        """Datagrams back to back, more of them offered than the air takes."""
        packets = self.split(payload_bytes + UDP_BYTES + IPV4_BYTES)
        airtime_us = self._busiest_us(medium, packets, ())
        return Ceiling(payload_bytes * 8 / airtime_us * 1e6, airtime_us, payload_bytes)

    def tcp(self, medium: Medium) -> Ceiling:
        """One connection whose window always suffices, in segments as long as the path allows.

        An estimate, as Medium.tcp_ceiling_bps: every second segment is acknowledged.
        """
        segment_bytes = self.limit_bytes - TCP_IP_BYTES
        turn_us = self._busiest_us(medium, (self.limit_bytes,) * _SEGMENTS_PER_ACK,
                                   (TCP_IP_BYTES,))
        airtime_us = turn_us / _SEGMENTS_PER_ACK
        return Ceiling(segment_bytes * 8 / airtime_us * 1e6, airtime_us, segment_bytes)

    def _busiest_us(self, medium: Medium, there: Iterable[int], back: Iterable[int]) -> float:
        """Airtime of packets that are sent there and back, on the channel that has most of it."""
        spent: dict[int, float] = {}
        last = len(self.hops) - 1
        for number, hop in enumerate(self.hops):
            # What is lost for good later on has taken the air's time before.
            onwards, homewards = ((1 - medium.residual_loss)**count
                                  for count in (last - number, number))
            time_us = (sum(self.airtime_us(medium, hop, size) for size in there) / onwards
                       + sum(self.airtime_us(medium, hop, size) for size in back) / homewards)
            spent[hop.channel] = spent.get(hop.channel, 0.0) + time_us
        return max(spent.values())

    def airtime_us(self, medium: Medium, hop: Hop, inner_bytes: int) -> float:
        """Mean airtime of one packet on one hop, with what the medium's losses cost."""
        return medium.delivery_us(hop.packet_bytes(inner_bytes) + LLC_BYTES + self.cipher_bytes)
