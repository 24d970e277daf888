"""Upper bounds (ceilings) of the goodput that the shared air can carry on a path.

A packet crosses the air once for every radio on its path. Each time it is in ESP and has the
cipher's bytes, as the policy says, and takes the medium's airtime (docs/medium.md). Wires are as
fast as the processor; they only limit the length of a packet.

Contending stations count their backoffs down in the same idle slots (IEEE 802.11-2007, 9.2.5.2). So
a channel needs DIFS, frame, SIFS and acknowledgement for every frame. In addition it needs at least
the backoffs of the sender that draws most of them. Collisions take further time, so this is an
upper bound for any number of senders. Garg and Kappes ("Can I add a VoIP call?", 2003) bound the
number of calls in a cell in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from analysis.bounds.packets import IPV4_BYTES, TCP_IP_BYTES, UDP_BYTES, Esp, fragment_lengths
from topologies.model import QUEUE, Medium

LLC_BYTES = 8
#: Segments per TCP acknowledgement, at most (RFC 1122, 4.2.3.2; RFC 5681, 4.2).
_SEGMENTS_PER_ACK = 2
#: Number of streams of which one exceeds the bound of `at_most_bps` by chance.
ONE_IN = 10_000
#: Standard deviations of a normal distribution that a share of 1 / ONE_IN exceeds.
_DEVIATIONS = NormalDist().inv_cdf(1 - 1 / ONE_IN)
#: Airtime that the queue model grants in excess after a pause, once per stream (docs/medium.md).
_AHEAD_US = 20e3


@dataclass(frozen=True)
class Hop:
    """A crossing of the air with its channel, ESP and stations.

    `esp` is None without IPsec. `sender` sends the data, `receiver` the acknowledgements of TCP.
    """

    channel: int
    esp: Esp | None
    sender: str
    receiver: str

    def packet_bytes(self, inner_bytes: int) -> int:
        """Return the length of the IP packet on the air."""
        return self.esp.packet_bytes(inner_bytes) if self.esp else inner_bytes


@dataclass(frozen=True)
class Ceiling:
    """The highest goodput on a path, with its airtime.

    `bps` is reached if backoffs have their mean length. `airtime_us` is the airtime of one
    datagram, or of one segment with its share of an acknowledgement. It counts all crossings of the
    busiest channel and has the standard deviation `deviation_us`. `least_us` is the part of it that
    remains without any backoff. `payload_bytes` is the payload of the datagram or segment.
    `senders` is the number of contending stations on that channel. `ahead_us` is airtime granted in
    excess once per stream.
    """

    bps: float
    airtime_us: float
    payload_bytes: int
    deviation_us: float = 0.0
    least_us: float = 0.0
    senders: int = 1
    ahead_us: float = 0.0

    def at_most_bps(self, datagrams: float, streams: int = 1) -> float:
        """Return the highest goodput that some datagrams can reach by short random backoffs.

        Streams of few datagrams may take less airtime than the mean. One stream in `ONE_IN` is
        still faster.

        Args:
            datagrams: Number of datagrams of every stream.
            streams: Number of streams.

        Returns:
            Goodput in bit/s.
        """
        luck_us = _DEVIATIONS * self.deviation_us * math.sqrt(datagrams)
        mean_us = datagrams * self.airtime_us
        taken_us = max(mean_us - luck_us, datagrams * self.least_us) - streams * self.ahead_us
        if taken_us <= 0:
            return math.inf
        return datagrams * self.payload_bytes * 8 / taken_us * 1e6


@dataclass(frozen=True)
class _Load:
    """The airtime of one frame on its channel, and its variances.

    `fixed_us` is the time without backoff, `backoff_us` the backoff, both over all attempts.
    `draw_us2` is the variance from random backoffs, `attempt_us2` the variance from the number of
    attempts. `least_us` is the time of one attempt without backoff.
    """

    sender: str
    fixed_us: float
    backoff_us: float
    draw_us2: float
    attempt_us2: float
    least_us: float


@dataclass(frozen=True)
class Path:
    """A path of packets: crossings of the air and the largest unfragmented packet.

    `cipher_bytes` is the number of bytes that the policy's cipher adds to a frame.
    """

    hops: tuple[Hop, ...]
    limit_bytes: int
    cipher_bytes: int

    def split_packet(self, packet_bytes: int) -> tuple[int, ...]:
        """Return the lengths of a packet's fragments, or its own length if it fits."""
        return fragment_lengths(packet_bytes, self.limit_bytes)

    def udp_ceiling(self, medium: Medium, payload_bytes: int) -> Ceiling:
        """Return the ceiling of UDP datagrams that are offered faster than the air takes them."""
        packets = self.split_packet(payload_bytes + UDP_BYTES + IPV4_BYTES)
        return self._lowest_ceiling(medium, packets, (), payload_bytes, 1)

    def tcp_ceiling(self, medium: Medium) -> Ceiling:
        """Return the ceiling of one TCP connection with full segments.

        The window is taken to be always large enough.
        """
        packets = (self.limit_bytes,) * _SEGMENTS_PER_ACK
        return self._lowest_ceiling(medium, packets, (TCP_IP_BYTES,), self.limit_bytes
                                    - TCP_IP_BYTES,
                                    _SEGMENTS_PER_ACK)

    def call_ceiling(self, medium: Medium, payload_bytes: int) -> Ceiling:
        """Return the ceiling of a call, which sends a datagram each way."""
        packets = self.split_packet(payload_bytes + UDP_BYTES + IPV4_BYTES)
        return self._lowest_ceiling(medium, packets, packets, payload_bytes, 1)

    def airtime_us(self, medium: Medium, hop: Hop, inner_bytes: int) -> float:
        """Return the mean airtime of one packet on one hop, including the medium's losses."""
        return medium.delivery_us(self._msdu_bytes(hop, inner_bytes))

    def _msdu_bytes(self, hop: Hop, inner_bytes: int) -> int:
        return hop.packet_bytes(inner_bytes) + LLC_BYTES + self.cipher_bytes

    def _lowest_ceiling(self, medium: Medium, forward: Sequence[int], reverse: Sequence[int],
                        payload_bytes: int, count: int) -> Ceiling:
        """Return the ceiling of packets in both directions, with `count` payloads per turn.

        One turn has the packets of `forward` in the forward direction and those of `reverse` in the
        reverse one.
        """
        channels: dict[int, list[_Load]] = {}
        for channel, load in self._frame_loads(medium, forward, reverse):
            channels.setdefault(channel, []).append(load)
        ceilings = (_channel_ceiling(medium, loads, payload_bytes, count)
                    for loads in channels.values())
        return min(ceilings, key=lambda ceiling: ceiling.bps)

    def _frame_loads(self, medium: Medium, forward: Iterable[int],
                     reverse: Iterable[int]) -> Iterator[tuple[int, _Load]]:
        """Yield the frames of a turn, each with its channel."""
        last = len(self.hops) - 1
        for number, hop in enumerate(self.hops):
            # A packet that a later hop loses has already used airtime on this hop.
            for sizes, sender, hops_left in ((forward, hop.sender, last - number),
                                             (reverse, hop.receiver, number)):
                arrives = (1 - medium.residual_loss)**hops_left
                for size in sizes:
                    msdu_bytes = self._msdu_bytes(hop, size)
                    yield hop.channel, _frame_load(medium, sender, msdu_bytes, arrives)


def _frame_load(medium: Medium, sender: str, msdu_bytes: int, arrives: float) -> _Load:
    """Return the airtime of a frame over all of its transmissions.

    With the loss probability p, a frame takes 1 / (1 - p) transmissions on average. The variance of
    that number is p / (1 - p)^2. Only the share `arrives` of the frames reaches the end of the
    path.
    """
    lost = medium.loss_percent / 100
    times = 1 / (1 - lost) / arrives
    together = medium.frames_together(msdu_bytes)
    once_us = medium.delivery_us(msdu_bytes) * (1 - lost)
    backoff_us = medium.backoff_us / together
    draw_us2 = medium.slot_us**2 * ((medium.cw_min + 1)**2 - 1) / 12 / together
    return _Load(sender, (once_us - backoff_us) * times, backoff_us * times, draw_us2 * times,
                 once_us**2 * lost / (1 - lost)**2 / arrives, once_us - backoff_us)


def _channel_ceiling(medium: Medium, loads: Sequence[_Load], payload_bytes: int,
                     count: int) -> Ceiling:
    """Return the ceiling of one channel that carries these frames every turn."""
    senders = dict.fromkeys(load.sender for load in loads)
    draws = {sender: (sum(load.backoff_us for load in loads if load.sender == sender),
                      sum(load.draw_us2 for load in loads if load.sender == sender))
             for sender in senders}
    backoff_us, draw_us2 = max(draws.values())
    if medium.air == QUEUE:  # stations take turns, each with the mean
        backoff_us, draw_us2 = sum(load.backoff_us for load in loads), 0.0
    airtime_us = (sum(load.fixed_us for load in loads) + backoff_us) / count
    variance_us2 = (draw_us2 + sum(load.attempt_us2 for load in loads)) / count
    least_us = sum(load.least_us for load in loads) / count
    return Ceiling(payload_bytes * 8 / airtime_us * 1e6, airtime_us, payload_bytes,
                   math.sqrt(variance_us2), least_us, len(senders),
                   _AHEAD_US if medium.air == QUEUE else 0.0)
