"""Compute the highest possible goodput over the air, and decide what limited a measured stream.

A packet crosses the air once for every radio on its path (`PacketPath`), each time with the bytes
that the policy's ESP and cipher add. Each crossing takes the airtime of the emulated medium
(docs/medium.md). Wires have no rate of their own here, and only limit the length of a packet. A
`Ceiling` is the highest possible goodput: the mean ceiling with backoffs of mean length, the
certain ceiling with backoffs as short as chance makes them once in `ONE_IN` cases. `judge_bound`
compares a measured goodput with a ceiling, and returns the bottleneck: the air, the processor or
the emulator.

Contending stations count their backoffs down in the same idle slots (IEEE 802.11-2007, 9.2.5.2). So
a channel needs DIFS, frame, SIFS and acknowledgement for every frame, and at least the backoffs of
the sender that draws most of them. Collisions take further time, so this is an upper bound for any
number of senders. Garg and Kappes ("Can I add a VoIP call?", 2003) bound the number of calls at an
access point in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from analysis.statistics import Estimate
from policies import Policy
from topologies.model import IPV4, IPV6, QUEUE, Medium

# --- Lengths of packets with ESP and IP-in-IP headers, and fragmentation ---

IPV4_BYTES = 20
#: Header by the version of IP.
IP_BYTES = {IPV4: IPV4_BYTES, IPV6: 40}
UDP_BYTES = 8
#: Header of TCP with timestamps, as Linux sends it.
TCP_BYTES = 32
#: Outer IPv4 header of an IP-in-IP packet (RFC 2003, 3.1).
IP_IN_IP_BYTES = IPV4_BYTES
# Header: SPI and sequence number. Trailer: pad length and next header (RFC 4303, 2).
_ESP_HEADER_BYTES = 8
_ESP_TRAILER_BYTES = 2
# All fragments but the last one carry a multiple of this length (RFC 791, 3.2).
_FRAGMENT_BYTES = 8

#: Bytes of the padding block and of the initialisation vector by cipher: RFC 2451 (3DES), 3602
#: (AES-CBC), 4106 (AES-GCM), 7634 (ChaCha20-Poly1305). ESP requires a multiple of 4 in any case.
_CIPHER_BLOCKS = {"3des": (8, 8), "aes128": (16, 16), "aes192": (16, 16), "aes256": (16, 16),
                  "aes128gcm16": (4, 8), "aes256gcm16": (4, 8), "chacha20poly1305": (4, 8)}
#: Bytes of the integrity check value: RFC 2403 (MD5), 2404 (SHA-1), 4868 (SHA-2).
_ICV_BYTES = {"md5": 12, "sha1": 12, "sha256": 16, "sha384": 24, "sha512": 32}
_AEAD_ICV_BYTES = 16


@dataclass(frozen=True)
class EspOverhead:
    """The bytes that ESP adds to an IP packet.

    `tunnel` means tunnel mode, which adds a new IP header. The encrypted part is padded to a
    multiple of `block_bytes`. `ip_bytes` is the length of an IP header.
    """

    block_bytes: int
    vector_bytes: int
    check_bytes: int
    tunnel: bool = True
    ip_bytes: int = IPV4_BYTES

    @property
    def _outside_bytes(self) -> int:
        """Return the length of the unencrypted parts of an ESP packet.

        These are the IP header, the ESP header, the initialisation vector and the check value.
        """
        return self.ip_bytes + _ESP_HEADER_BYTES + self.vector_bytes + self.check_bytes

    @property
    def _kept_bytes(self) -> int:
        """Return the length of the original IP header that transport mode leaves before ESP.

        It is 0 in tunnel mode.
        """
        return 0 if self.tunnel else self.ip_bytes

    def packet_bytes(self, inner_bytes: int) -> int:
        """Return the length of the ESP packet that carries an IP packet of `inner_bytes`."""
        secret = inner_bytes - self._kept_bytes + _ESP_TRAILER_BYTES
        return self._outside_bytes + _round_up(secret, self.block_bytes)

    def largest_inner_bytes(self, mtu_bytes: int) -> int:
        """Return the length of the longest IP packet whose ESP packet fits into an MTU."""
        room = mtu_bytes - self._outside_bytes
        secret = room - room % self.block_bytes
        return secret - _ESP_TRAILER_BYTES + self._kept_bytes


def esp_overhead(policy: Policy, ip: int = IPV4) -> EspOverhead | None:
    """Return the ESP overhead of a policy's tunnel to the home agent, None without IPsec.

    `ip` is the version of IP, inside and outside of the tunnel.
    """
    layer = policy.layers.ipsec
    if layer is None:
        return None
    cipher, *others = layer.esp_proposal.split("-")
    block, vector = _CIPHER_BLOCKS[cipher]
    check = next((_ICV_BYTES[name] for name in others if name in _ICV_BYTES), _AEAD_ICV_BYTES)
    return EspOverhead(block, vector, check, tunnel=layer.mode == "tunnel", ip_bytes=IP_BYTES[ip])


def fragment_lengths(packet_bytes: int, limit_bytes: int) -> tuple[int, ...]:
    """Return the lengths of the IP fragments of a packet that exceeds an MTU.

    No fragment exceeds `limit_bytes`. Linux fragments before encryption where it knows the tunnel's
    MTU (RFC 4301, 8.1 and 8.2).
    """
    if packet_bytes <= limit_bytes:
        return (packet_bytes,)
    room = (limit_bytes - IPV4_BYTES) // _FRAGMENT_BYTES * _FRAGMENT_BYTES
    full_fragments, rest = divmod(packet_bytes - IPV4_BYTES, room)
    return (room + IPV4_BYTES,) * full_fragments + ((rest + IPV4_BYTES,) if rest else ())


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step


# --- Ceilings of UDP, of TCP and of calls on a path ---

LLC_BYTES = 8
#: Segments per TCP acknowledgement, at most (RFC 1122, 4.2.3.2; RFC 5681, 4.2).
_SEGMENTS_PER_ACK = 2
#: Number of streams of which one exceeds the certain ceiling (`at_most_bps`) by chance.
ONE_IN = 10_000
#: Standard deviations of a normal distribution that a share of 1 / ONE_IN exceeds.
_DEVIATIONS = NormalDist().inv_cdf(1 - 1 / ONE_IN)
#: Airtime that the queue model grants in excess after a pause, once per stream (docs/medium.md).
_AHEAD_US = 20e3


@dataclass(frozen=True)
class Hop:
    """A transmission over the air on a packet's path: channel, stations and ESP.

    `esp` is None without IPsec. `sender` sends the data, `receiver` the acknowledgements of TCP.
    """

    channel: int
    esp: EspOverhead | None
    sender: str
    receiver: str

    def packet_bytes(self, inner_bytes: int) -> int:
        """Return the length on the air of an IP packet, with ESP if the policy has IPsec."""
        return self.esp.packet_bytes(inner_bytes) if self.esp else inner_bytes


@dataclass(frozen=True)
class Ceiling:
    """The highest possible goodput on a path, with the airtime behind it.

    - `bps`: the mean ceiling, which is reached if backoffs have their mean length (bit/s)
    - `airtime_us`: mean airtime of one datagram, or of one segment with its part of an
      acknowledgement. It counts all crossings of the busiest channel.
    - `payload_bytes`: payload of the datagram or segment
    - `deviation_us`: standard deviation of the airtime
    - `least_us`: the part of the airtime that remains without any backoff
    - `senders`: number of contending stations on the busiest channel
    - `ahead_us`: airtime granted in excess once per stream
    """

    bps: float
    airtime_us: float
    payload_bytes: int
    deviation_us: float = 0.0
    least_us: float = 0.0
    senders: int = 1
    ahead_us: float = 0.0

    def at_most_bps(self, datagrams: float, streams: int = 1) -> float:
        """Return the certain ceiling: the goodput that chance exceeds once in `ONE_IN` cases.

        The random backoffs of a stream of few datagrams may be shorter than the mean. So the
        certain ceiling is above the mean one.

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
class _FrameAirtime:
    """The mean airtime of one frame on its channel, and its variance.

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
class PacketPath:
    """A path of packets: its transmissions over the air, its MTU and the length of IP headers.

    `cipher_bytes` is the number of bytes that the policy's cipher adds to a frame.
    """

    hops: tuple[Hop, ...]
    limit_bytes: int
    cipher_bytes: int
    ip_bytes: int = IPV4_BYTES

    def split_packet(self, packet_bytes: int) -> tuple[int, ...]:
        """Return the lengths of a packet's fragments on this path, or its own length if it fits."""
        return fragment_lengths(packet_bytes, self.limit_bytes)

    def udp_ceiling(self, medium: Medium, payload_bytes: int) -> Ceiling:
        """Return the highest goodput of UDP datagrams that saturate the air."""
        packets = self.split_packet(payload_bytes + UDP_BYTES + self.ip_bytes)
        return self._lowest_ceiling(medium, packets, (), payload_bytes, 1)

    def tcp_ceiling(self, medium: Medium) -> Ceiling:
        """Return the highest goodput of one TCP connection with full segments.

        The window is taken to be always large enough. Of segments that arrive together in an
        aggregate, the last one is acknowledged.
        """
        segments = max(_SEGMENTS_PER_ACK, medium.frames_together(
            self._msdu_bytes(self.hops[0], self.limit_bytes)))
        header_bytes = TCP_BYTES + self.ip_bytes
        return self._lowest_ceiling(medium, (self.limit_bytes,) * segments, (header_bytes,),
                                    self.limit_bytes - header_bytes, segments)

    def call_ceiling(self, medium: Medium, payload_bytes: int) -> Ceiling:
        """Return the highest goodput of voice calls, each with a datagram in both directions.

        No datagram is aggregated: each call waits for its own next interval.
        """
        packets = self.split_packet(payload_bytes + UDP_BYTES + self.ip_bytes)
        return self._lowest_ceiling(medium.without_aggregation, packets, packets, payload_bytes, 1)

    def airtime_us(self, medium: Medium, hop: Hop, inner_bytes: int) -> float:
        """Return the mean airtime of one packet on one hop, with retransmissions (us)."""
        return medium.delivery_us(self._msdu_bytes(hop, inner_bytes))

    def _msdu_bytes(self, hop: Hop, inner_bytes: int) -> int:
        return hop.packet_bytes(inner_bytes) + LLC_BYTES + self.cipher_bytes

    def _lowest_ceiling(self, medium: Medium, forward: Sequence[int], reverse: Sequence[int],
                        payload_bytes: int, count: int) -> Ceiling:
        """Return the highest goodput of packets in both directions, on the busiest channel.

        A turn has the packets of `forward` in the forward direction and those of `reverse` in the
        reverse one, where no packet is aggregated. It carries `count` payloads.
        """
        channels: dict[int, list[_FrameAirtime]] = {}
        for channel, load in self._frame_loads(medium, forward, reverse):
            channels.setdefault(channel, []).append(load)
        ceilings = (_channel_ceiling(medium, loads, payload_bytes, count)
                    for loads in channels.values())
        return min(ceilings, key=lambda ceiling: ceiling.bps)

    def _frame_loads(self, medium: Medium, forward: Iterable[int],
                     reverse: Iterable[int]) -> Iterator[tuple[int, _FrameAirtime]]:
        """Yield the channel and airtime of each frame in a turn (packets in both directions)."""
        last = len(self.hops) - 1
        for number, hop in enumerate(self.hops):
            # A packet that a later hop loses has already used airtime on this hop.
            for sizes, air, sender, hops_left in (
                    (forward, medium, hop.sender, last - number),
                    (reverse, medium.without_aggregation, hop.receiver, number)):
                arrives = (1 - medium.residual_loss)**hops_left
                for size in sizes:
                    msdu_bytes = self._msdu_bytes(hop, size)
                    yield hop.channel, _frame_load(air, sender, msdu_bytes, arrives)


def _frame_load(medium: Medium, sender: str, msdu_bytes: int, arrives: float) -> _FrameAirtime:
    """Return the airtime of a frame over all of its transmissions.

    With the loss probability p, a frame takes 1 / (1 - p) transmissions on average. The variance of
    that number is p / (1 - p)^2. Only the fraction `arrives` of the frames reaches the end of the
    path.
    """
    lost = medium.loss_percent / 100
    times = 1 / (1 - lost) / arrives
    together = medium.frames_together(msdu_bytes)
    once_us = medium.delivery_us(msdu_bytes) * (1 - lost)
    backoff_us = medium.backoff_us / together
    draw_us2 = medium.slot_us**2 * ((medium.cw_min + 1)**2 - 1) / 12 / together
    return _FrameAirtime(sender, (once_us - backoff_us) * times, backoff_us * times,
                         draw_us2 * times,
                         once_us**2 * lost / (1 - lost)**2 / arrives, once_us - backoff_us)


def _channel_ceiling(medium: Medium, loads: Sequence[_FrameAirtime], payload_bytes: int,
                     count: int) -> Ceiling:
    """Return the highest goodput of one channel that carries these frames every turn."""
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


# --- Verdict on the bottleneck of a measured goodput ---
# In virtual time computing takes no time, so the processor is never the bottleneck.

ThroughputLimit = Literal["medium", "processor", "emulator"]
TransportProtocol = Literal["tcp", "udp"]

#: Share of the ceiling from which on the medium is the bottleneck of a stream with one sender. UDP
#: is offered faster than the air takes it, so it shows the air itself. TCP's ceiling does not
#: include the start of a connection, nor segments that used airtime before a full queue behind the
#: first hop dropped them. So a stream of 1 MB stays up to 10 % below it though the air is never
#: idle.
MEDIUM_SHARE: dict[TransportProtocol, float] = {"udp": 0.95, "tcp": 0.85}
#: Smallest share of a ceiling that remains with collisions, which the ceiling does not count. Two
#: stations that always have a frame of 64 to 1470 bytes reach 0.90 to 0.96 of their ceiling, solved
#: exactly for all media (tests/analysis/test_bounds.py).
COLLISIONS_LEAVE = 0.9
#: Share of the streams' time from which on a busy processor may be the bottleneck.
PROCESSOR_SHARE = 0.9


@dataclass(frozen=True)
class BoundVerdict:
    """The bottleneck of a measured stream (air, processor or emulator), with a note.

    `certain` means that the whole interval supports the verdict.
    """

    bound: ThroughputLimit
    certain: bool
    note: str


def least_share(protocol: TransportProtocol, senders: int) -> float:
    """Return the fraction of the highest goodput above which the air is the bottleneck."""
    return MEDIUM_SHARE[protocol] * (COLLISIONS_LEAVE if senders > 1 else 1.0)


def judge_bound(protocol: TransportProtocol, share: Estimate | None, processor: float | None, *,
                senders: int = 1, most: float = math.inf, virtual: bool = False) -> BoundVerdict:
    """Decide what limited the goodput of a measured stream: air, processor or emulator.

    If neither the air nor the processor explains the throughput, the emulator does. Possible causes
    are queues, timers that fire late, or a host that makes a guest wait.

    Args:
        protocol: Transport protocol of the stream.
        share: Goodput divided by the ceiling for mean backoffs, None without a medium.
        processor: Processor time divided by the streams' time, None if not recorded.
        senders: Number of contending stations.
        most: Largest share that short random backoffs allow.
        virtual: The clock is virtual, so the processor is never the bottleneck.
    """
    least = least_share(protocol, senders)
    if share is not None and share.mean > most:
        return BoundVerdict("emulator", certain=False,
                            note="above the ceiling: it was not this medium "
                            "that carried the stream")
    if share is not None and share.mean >= least:
        certain = share.low is not None and share.low >= least
        return BoundVerdict("medium", certain, "" if certain
                            else _describe_uncertainty(share, least))
    certain = share is None or (share.high is not None and share.high < least)
    doubt = "" if certain or share is None else _describe_uncertainty(share, least)
    if virtual:
        return BoundVerdict("emulator", certain, doubt)
    if processor is None:
        return BoundVerdict("emulator", certain=False, note=_join_notes(
            doubt, "processor time not recorded, so it may have been the processor"))
    if processor >= PROCESSOR_SHARE:
        return BoundVerdict("processor", certain, _join_notes(
            doubt, f"it had work for up to {min(processor, 1.0):.0%} of the streams' time"))
    return BoundVerdict("emulator", certain, _join_notes(
        doubt, f"the processor had work for at most {processor:.0%} of the streams' time"))


def _describe_uncertainty(share: Estimate, least: float) -> str:
    if share.low is None or share.high is None:
        return "one repetition; more would tell how sure this is"
    return (f"not certain: the interval of the share, {share.low:.0%} to {share.high:.0%}, holds "
            f"the limit of {least:.0%}")


def _join_notes(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


__all__ = ["BoundVerdict", "Ceiling", "EspOverhead", "Hop", "PacketPath", "esp_overhead",
           "judge_bound"]
