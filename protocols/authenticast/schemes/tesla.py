"""Authenticate a stream by TESLA (RFC 4082): MACs under keys that are disclosed later.

This is a scheme of Authenticast, a protocol for signed streams. `TeslaSealer` adds a MAC to each
packet at the sender. `TeslaOpener` verifies packets at the receiver. Time is divided into
intervals. Interval i has the key K(i) of a one-way chain, K(i) = H(K(i+1)). The server signs K(0),
the end of the chain. A packet of interval i carries K(i-d) and a MAC under a key derived from K(i).

A receiver holds the packet until K(i) arrives. It accepts the packet only if K(i) was certainly not
disclosed when the packet arrived. For this it has an upper bound of the server's clock from the
handshake.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, replace

from protocols.authenticast.crypto import TAG_BYTES, Crypto
from protocols.authenticast.effects import PacketFate
from protocols.authenticast.packets import TESLA_KEY_BYTES, KeyDisclosure, StreamPacket
from protocols.authenticast.schemes.base import PacketVerdict
from protocols.authenticast.session import signing_context

_PARAMETERS = struct.Struct("!QQIH")
_CHAIN_LABEL = b"authenticast/1 tesla chain"
_INTERVAL = struct.Struct("!I")
PARAMETER_BYTES = _PARAMETERS.size + TESLA_KEY_BYTES
MAX_CHAIN = 1 << 20
# Largest drift between the two clocks, as a share of the time since the handshake.
DRIFT = 200e-6
_MAX_WAITING = 8192


@dataclass(frozen=True)
class TeslaSchedule:
    """Times of TESLA: interval length, delay until keys are disclosed, length of a key chain.

    `interval_ns` is in nanoseconds. `delay` (d in RFC 4082) and `intervals` are counted in
    intervals.
    """

    interval_ns: int = 100_000_000
    delay: int = 3
    intervals: int = 3000


@dataclass(frozen=True)
class TeslaParameters:
    """The TESLA parameters that the server signs and announces.

    `start_ns` is when interval 1 starts, `interval_ns` the length of an interval, and `intervals`
    their number. `delay` is the disclosure delay d in intervals, and `commitment` is the key K(0).
    """

    start_ns: int
    interval_ns: int
    intervals: int
    delay: int
    commitment: bytes

    def __post_init__(self) -> None:
        if self.interval_ns < 1 or not 1 <= self.intervals <= MAX_CHAIN or self.delay < 1:
            raise ValueError("TESLA: intervals, their length and the delay must be at least 1")

    def interval_at(self, time_ns: int) -> int:
        """Return the number of the interval at a time of the server's clock.

        The first interval is 1. Times before its start give 0 or less.
        """
        return (time_ns - self.start_ns) // self.interval_ns + 1

    def disclosed_ns(self, interval: int) -> int:
        """Return the time (ns) from which the server may disclose the key of an interval."""
        return self.start_ns + (interval + self.delay - 1) * self.interval_ns

    def encode(self) -> bytes:
        """Return the parameters as bytes for the server's announcement."""
        return _PARAMETERS.pack(self.start_ns, self.interval_ns, self.intervals,
                                self.delay) + self.commitment


def parse_parameters(data: bytes) -> TeslaParameters:
    """Parse the TESLA parameters of the server's announcement.

    Raises:
        ValueError: the bytes have another format, or impossible values.
    """
    if len(data) != PARAMETER_BYTES:
        raise ValueError(f"TESLA: parameters of {len(data)} bytes")
    start_ns, interval_ns, intervals, delay = _PARAMETERS.unpack_from(data)
    return TeslaParameters(start_ns, interval_ns, intervals, delay, data[_PARAMETERS.size:])


def derive_mac_key(key: bytes) -> bytes:
    """Derive the MAC key of an interval from its chain key (F' of RFC 4082)."""
    return hmac.digest(key, b"authenticast/1 tesla mac", "sha256")


def make_key_chain(crypto: Crypto, last: bytes, intervals: int) -> list[bytes]:
    """Compute the keys K(0) to K(intervals) of a one-way chain from its last key."""
    keys = [last]
    for _ in range(intervals):
        keys.append(crypto.compute_digest(_CHAIN_LABEL + keys[-1]))
    return keys[::-1]


class TeslaSealer:
    """A sender that adds to each packet a MAC under the key of the current interval.

    It continues to disclose keys until all used keys are disclosed.
    """

    def __init__(self, crypto: Crypto, session: bytes, parameters: TeslaParameters,
                 keys: list[bytes]) -> None:
        self._crypto = crypto
        self._context = signing_context("data", session)
        self._parameters = parameters
        self._keys = keys
        self._used = 0
        self._disclosed = 0
        self._last: StreamPacket | None = None

    def remaining_intervals(self, now_ns: int) -> int:
        """Return how many intervals the key chain still covers."""
        return self._parameters.intervals - self._parameters.interval_at(now_ns)

    def seal_packet(self, packet: StreamPacket, now_ns: int) -> list[bytes]:
        """Return the packet with its interval, an older key that is now disclosed, and its MAC.

        Raises:
            ValueError: the chain has no key left.
        """
        interval = max(1, self._parameters.interval_at(now_ns))
        if interval > self._parameters.intervals:
            raise ValueError("TESLA: the chain is used up")
        old = max(0, interval - self._parameters.delay)
        head = _INTERVAL.pack(interval) + self._keys[old]
        tag = self._crypto.compute_mac(derive_mac_key(self._keys[interval]),
                                       self._context + packet.signed_bytes()
                                       + _INTERVAL.pack(interval))
        self._used, self._disclosed, self._last = interval, max(self._disclosed, old), packet
        return [replace(packet, authenticator=head + tag).encode()]

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return no datagrams, because the sender holds no packets. Keys follow from `tick`."""
        return []

    def tick(self, now_ns: int) -> list[bytes]:
        """Return the newest key that may be disclosed, if no packet has carried it."""
        due_ns = self.deadline_ns()
        if due_ns is None or due_ns > now_ns or self._last is None:
            return []
        newest = min(self._used, self._parameters.interval_at(now_ns) - self._parameters.delay)
        self._disclosed = newest
        return [KeyDisclosure(self._last.stream, self._last.epoch, newest,
                              self._keys[newest]).encode()]

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which the next key is due, or None if all are disclosed."""
        if self._used <= self._disclosed:
            return None
        return self._parameters.disclosed_ns(self._disclosed + 1)


class TeslaOpener:
    """A receiver that holds packets until the key of their MAC is disclosed.

    It rejects packets that arrived so late that their key could already have been public.
    """

    def __init__(self, crypto: Crypto, session: bytes, parameters: TeslaParameters,
                 ahead_ns: int, synchronised_ns: int) -> None:
        self._crypto = crypto
        self._context = signing_context("data", session)
        self._parameters = parameters
        # The server's clock was at most this far ahead of the client's at `synchronised_ns`.
        self._ahead_ns = ahead_ns
        self._synchronised_ns = synchronised_ns
        self._known = (0, parameters.commitment)
        self._held: dict[int, list[StreamPacket]] = {}

    @property
    def waiting(self) -> int:
        """Return the number of packets that are held."""
        return sum(map(len, self._held.values()))

    def open_packet(self, packet: StreamPacket, now_ns: int) -> list[PacketVerdict]:
        """Hold a packet, and verify earlier packets with the key that it discloses.

        A packet that is late, malformed or to be dropped gets its result at once.
        """
        if len(packet.authenticator) != _INTERVAL.size + TESLA_KEY_BYTES + TAG_BYTES:
            return [(packet, PacketFate.FAILED)]
        interval, = _INTERVAL.unpack_from(packet.authenticator)
        key = packet.authenticator[_INTERVAL.size:_INTERVAL.size + TESLA_KEY_BYTES]
        verdicts = self._learn_key(interval - self._parameters.delay, key, now_ns)
        if not 1 <= interval <= self._parameters.intervals:
            return [*verdicts, (packet, PacketFate.FAILED)]
        if self._latest_interval(now_ns) >= interval + self._parameters.delay:
            return [*verdicts, (packet, PacketFate.LATE)]
        if interval <= self._known[0]:
            # The key was disclosed earlier than the parameters permit, so the server's clock does
            # not agree with them.
            return [*verdicts, (packet, PacketFate.LATE)]
        if self.waiting >= _MAX_WAITING:
            return [*verdicts, (packet, PacketFate.SHED)]
        self._held.setdefault(interval, []).append(packet)
        return verdicts

    def process_disclosure(self, disclosed: KeyDisclosure, now_ns: int) -> list[PacketVerdict]:
        """Verify held packets with a key that came in a packet of its own."""
        return self._learn_key(disclosed.interval, disclosed.key, now_ns)

    def tick(self, now_ns: int) -> list[PacketVerdict]:
        """Return no results: even if a key is lost, every later key gives the earlier ones."""
        return []

    def deadline_ns(self) -> int | None:
        """Return None, because `tick` is never needed."""
        return None

    def give_up(self) -> list[PacketVerdict]:
        """Give up all held packets, because the stream is over."""
        waiting = [packet for packets in self._held.values() for packet in packets]
        self._held.clear()
        return [(packet, PacketFate.LATE) for packet in waiting]

    def _latest_interval(self, now_ns: int) -> int:
        """Return the latest interval that the server's clock can have reached."""
        drift_ns = int(DRIFT * max(0, now_ns - self._synchronised_ns)) + 1
        return self._parameters.interval_at(now_ns + self._ahead_ns + drift_ns)

    def _learn_key(self, interval: int, key: bytes, now_ns: int) -> list[PacketVerdict]:
        """Check a disclosed key against the key chain, and verify the packets that it covers."""
        known, known_key = self._known
        # A key of a future interval cannot be disclosed. Without this bound, a forged interval
        # number would cost many hashes.
        if not known < interval <= min(self._parameters.intervals,
                                       self._latest_interval(now_ns)):
            return []
        keys = [key]
        for _ in range(interval - known):
            keys.append(self._crypto.compute_digest(_CHAIN_LABEL + keys[-1]))
        if not hmac.compare_digest(keys[-1], known_key):
            return []
        self._known = (interval, key)
        by_interval = {interval - n: chain_key for n, chain_key in enumerate(keys)}
        return [(packet, self._judge_packet(packet, by_interval[number]))
                for number in sorted(self._held) if number <= interval
                for packet in self._held.pop(number)]

    def _judge_packet(self, packet: StreamPacket, key: bytes) -> PacketFate:
        interval, tag = packet.authenticator[:_INTERVAL.size], packet.authenticator[-TAG_BYTES:]
        is_right = self._crypto.is_valid_mac(derive_mac_key(key), self._context
                                             + packet.signed_bytes() + interval,
                                             tag)
        return PacketFate.VERIFIED if is_right else PacketFate.FAILED
