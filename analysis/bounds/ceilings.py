"""Ceilings say what the shared air could carry at most on a path.

A packet crosses the air once for every radio on its path, each time in ESP and with the cipher's
bytes as the policy says, and pays the medium's airtime each time (docs/medium.md). Wires are as
quick as the processor; they only limit how long a packet may be.

Stations that contend count their backoffs down in the same idle slots (IEEE 802.11-2007, 9.2.5.2).
So a channel needs DIFS, frame, SIFS and acknowledgement of every frame, and beside these no less
than the backoffs of the one sender that draws most of them. Collisions cost time on top, so this
is an upper bound for any number of senders. Garg and Kappes ("Can I add a VoIP call?", 2003) bound
the calls of a cell by the same count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from analysis.bounds.packets import IPV4_BYTES, TCP_IP_BYTES, UDP_BYTES, Esp, fragments
from topologies.model import QUEUE, Medium

LLC_BYTES = 8
#: TCP acknowledges at least every second segment (RFC 1122, 4.2.3.2; RFC 5681, 4.2).
_SEGMENTS_PER_ACK = 2
#: Of how many ceilings chance passes one.
ONE_IN = 10_000
#: Standard deviations of a normal distribution beyond which this share lies.
_DEVIATIONS = NormalDist().inv_cdf(1 - 1 / ONE_IN)
#: What stations that take turns are let pass too much after a pause, once (docs/medium.md).
_AHEAD_US = 20e3


@dataclass(frozen=True)
class Hop:
    """One crossing of the air: on which channel, in which ESP, if any, and between whom.

    `sender` sends the data, `receiver` the acknowledgements of TCP.
    """

    channel: int
    esp: Esp | None
    sender: str
    receiver: str

    def packet_bytes(self, inner_bytes: int) -> int:
        """Length of the IP packet on the air."""
        return self.esp.packet_bytes(inner_bytes) if self.esp else inner_bytes


@dataclass(frozen=True)
class Ceiling:
    """The highest goodput, and the air's time that it takes.

    `bps` is reached with backoffs as long as the mean. `airtime_us` is that of one datagram, or of
    one segment with its share of an acknowledgement, on the busiest channel and over all of its
    crossings, with the standard deviation `deviation_us`; `least_us` of it pass even without
    backoffs. `payload_bytes` is what it carries. `senders` contend on that channel. `ahead_us` is
    let pass too much once a stream.
    """

    bps: float
    airtime_us: float
    payload_bytes: int
    deviation_us: float = 0.0
    least_us: float = 0.0
    senders: int = 1
    ahead_us: float = 0.0

    def at_most_bps(self, datagrams: float, streams: int = 1) -> float:
        """Return the goodput that so many datagrams of so many streams reach at most by luck.

        Backoffs are drawn at random, so streams of few datagrams may take less than the mean.
        One in `ONE_IN` is still quicker.
        """
        luck_us = _DEVIATIONS * self.deviation_us * math.sqrt(datagrams)
        mean_us = datagrams * self.airtime_us
        taken_us = max(mean_us - luck_us, datagrams * self.least_us) - streams * self.ahead_us
        if taken_us <= 0:
            return math.inf
        return datagrams * self.payload_bytes * 8 / taken_us * 1e6


@dataclass(frozen=True)
class _Load:
    """What one frame costs its channel: without backoff, the backoff, and their variances.

    `least_us` is the time of one attempt without backoff.
    """

    sender: str
    fixed_us: float
    backoff_us: float
    draw_us2: float
    attempt_us2: float
    least_us: float


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
        return self._ceiling(medium, packets, (), payload_bytes, 1)

    def tcp(self, medium: Medium) -> Ceiling:
        """One connection whose window always suffices, in segments as long as the path allows."""
        packets = (self.limit_bytes,) * _SEGMENTS_PER_ACK
        return self._ceiling(medium, packets, (TCP_IP_BYTES,), self.limit_bytes - TCP_IP_BYTES,
                             _SEGMENTS_PER_ACK)

    def call(self, medium: Medium, payload_bytes: int) -> Ceiling:
        """A datagram each way, as a call sends them."""
        packets = self.split(payload_bytes + UDP_BYTES + IPV4_BYTES)
        return self._ceiling(medium, packets, packets, payload_bytes, 1)

    def airtime_us(self, medium: Medium, hop: Hop, inner_bytes: int) -> float:
        """Mean airtime of one packet on one hop, with what the medium's losses cost."""
        return medium.delivery_us(self._msdu_bytes(hop, inner_bytes))

    def _msdu_bytes(self, hop: Hop, inner_bytes: int) -> int:
        return hop.packet_bytes(inner_bytes) + LLC_BYTES + self.cipher_bytes

    def _ceiling(self, medium: Medium, there: Sequence[int], back: Sequence[int],
                 payload_bytes: int, count: int) -> Ceiling:
        """The ceiling of packets sent there and back, `count` payloads a turn."""
        channels: dict[int, list[_Load]] = {}
        for channel, load in self._loads(medium, there, back):
            channels.setdefault(channel, []).append(load)
        ceilings = (_of_channel(medium, loads, payload_bytes, count)
                    for loads in channels.values())
        return min(ceilings, key=lambda ceiling: ceiling.bps)

    def _loads(self, medium: Medium, there: Iterable[int],
               back: Iterable[int]) -> Iterator[tuple[int, _Load]]:
        """The frames of a turn, with the channel of each."""
        last = len(self.hops) - 1
        for number, hop in enumerate(self.hops):
            # What is lost for good later on has taken the air's time before.
            for sizes, sender, hops_left in ((there, hop.sender, last - number),
                                             (back, hop.receiver, number)):
                arrives = (1 - medium.residual_loss)**hops_left
                for size in sizes:
                    msdu_bytes = self._msdu_bytes(hop, size)
                    yield hop.channel, _load(medium, sender, msdu_bytes, arrives)


def _load(medium: Medium, sender: str, msdu_bytes: int, arrives: float) -> _Load:
    """The cost of a frame, of which the share `arrives` gets to the end of the path.

    A transmission that is lost with probability p is made 1 / (1 - p) times in the mean, with a
    variance of p / (1 - p)^2.
    """
    lost = medium.loss_percent / 100
    times = 1 / (1 - lost) / arrives
    together = medium.frames_together(msdu_bytes)
    once_us = medium.delivery_us(msdu_bytes) * (1 - lost)
    backoff_us = medium.backoff_us / together
    draw_us2 = medium.slot_us**2 * ((medium.cw_min + 1)**2 - 1) / 12 / together
    return _Load(sender, (once_us - backoff_us) * times, backoff_us * times, draw_us2 * times,
                 once_us**2 * lost / (1 - lost)**2 / arrives, once_us - backoff_us)


def _of_channel(medium: Medium, loads: Sequence[_Load], payload_bytes: int,
                count: int) -> Ceiling:
    """The ceiling of one channel, which has these frames every turn."""
    senders = dict.fromkeys(load.sender for load in loads)
    draws = {sender: (sum(load.backoff_us for load in loads if load.sender == sender),
                      sum(load.draw_us2 for load in loads if load.sender == sender))
             for sender in senders}
    backoff_us, draw_us2 = max(draws.values())
    if medium.air == QUEUE:  # one after the other, and each is charged the mean
        backoff_us, draw_us2 = sum(load.backoff_us for load in loads), 0.0
    airtime_us = (sum(load.fixed_us for load in loads) + backoff_us) / count
    variance_us2 = (draw_us2 + sum(load.attempt_us2 for load in loads)) / count
    least_us = sum(load.least_us for load in loads) / count
    return Ceiling(payload_bytes * 8 / airtime_us * 1e6, airtime_us, payload_bytes,
                   math.sqrt(variance_us2), least_us, len(senders),
                   _AHEAD_US if medium.air == QUEUE else 0.0)
