"""TESLA (RFC 4082): MACs under keys that are disclosed later.

A key is disclosed when no forged packet would be accepted with it any more. Time is divided into
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
from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import TESLA_KEY_BYTES, Data, Disclose
from protocols.authenticast.schemes.base import Verdict
from protocols.authenticast.session import signing_context

_PARAMETERS = struct.Struct("!QQIH")
_CHAIN = b"authenticast/1 tesla chain"
_INTERVAL = struct.Struct("!I")
PARAMETER_BYTES = _PARAMETERS.size + TESLA_KEY_BYTES
MAX_CHAIN = 1 << 20
# Largest drift between the two clocks, as a share of the time since the handshake.
DRIFT = 200e-6
_MAX_WAITING = 8192


@dataclass(frozen=True)
class Schedule:
    """The division of a server's time into TESLA intervals.

    `interval_ns` is the length of an interval, `delay` the disclosure delay d in intervals, and
    `intervals` the length of a chain.
    """

    interval_ns: int = 100_000_000
    delay: int = 3
    intervals: int = 3000


@dataclass(frozen=True)
class Parameters:
    """The TESLA parameters that the server signs.

    `start_ns` is when interval 1 starts, `interval_ns` the length of an interval, and `intervals`
    their number. `delay` is d in intervals, and `commitment` is K(0).
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
        """Return the interval at a time of the server's clock.

        The first interval is 1. Times before its start give 0 or less.
        """
        return (time_ns - self.start_ns) // self.interval_ns + 1

    def disclosed_ns(self, interval: int) -> int:
        """Return the time from which the server may disclose an interval's key."""
        return self.start_ns + (interval + self.delay - 1) * self.interval_ns

    def encode(self) -> bytes:
        """Return the parameters as bytes for a change's material."""
        return _PARAMETERS.pack(self.start_ns, self.interval_ns, self.intervals,
                                self.delay) + self.commitment


def parse_parameters(data: bytes) -> Parameters:
    """Parse the parameters from a change's material. Raises ValueError."""
    if len(data) != PARAMETER_BYTES:
        raise ValueError(f"TESLA: parameters of {len(data)} bytes")
    start_ns, interval_ns, intervals, delay = _PARAMETERS.unpack_from(data)
    return Parameters(start_ns, interval_ns, intervals, delay, data[_PARAMETERS.size:])


def derive_mac_key(key: bytes) -> bytes:
    """Return the key of an interval's MACs (F' of RFC 4082)."""
    return hmac.digest(key, b"authenticast/1 tesla mac", "sha256")


def make_key_chain(crypto: Crypto, last: bytes, intervals: int) -> list[bytes]:
    """Return the keys K(0) to K(intervals), computed from the last key."""
    keys = [last]
    for _ in range(intervals):
        keys.append(crypto.compute_digest(_CHAIN + keys[-1]))
    return keys[::-1]


class TeslaSealer:
    """A sealer that adds a MAC under the interval's key to each packet.

    It continues to disclose keys until all keys that it used are disclosed.
    """

    def __init__(self, crypto: Crypto, session: bytes, parameters: Parameters,
                 keys: list[bytes]) -> None:
        self._crypto = crypto
        self._context = signing_context("data", session)
        self._parameters = parameters
        self._keys = keys
        self._used = 0
        self._disclosed = 0
        self._last: Data | None = None

    def remaining_intervals(self, now_ns: int) -> int:
        """Return the number of intervals left in the chain."""
        return self._parameters.intervals - self._parameters.interval_at(now_ns)

    def seal_packet(self, packet: Data, now_ns: int) -> list[bytes]:
        """Return the packet with its interval, a disclosed key and its MAC.

        Raises ValueError when the chain has no key left.
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
        """Return no datagrams, because no packet is held. Keys follow from `tick`."""
        return []

    def tick(self, now_ns: int) -> list[bytes]:
        """Return the newest key that may be disclosed, if no packet has carried it."""
        due_ns = self.deadline_ns()
        if due_ns is None or due_ns > now_ns or self._last is None:
            return []
        newest = min(self._used, self._parameters.interval_at(now_ns) - self._parameters.delay)
        self._disclosed = newest
        return [Disclose(self._last.stream, self._last.epoch, newest,
                         self._keys[newest]).encode()]

    def deadline_ns(self) -> int | None:
        """Return the time at which the next key is due.

        None if all keys that were used are disclosed.
        """
        if self._used <= self._disclosed:
            return None
        return self._parameters.disclosed_ns(self._disclosed + 1)


class TeslaOpener:
    """An opener that holds packets until their key is disclosed.

    It rejects packets that arrived too late: their key could already have been disclosed.
    """

    def __init__(self, crypto: Crypto, session: bytes, parameters: Parameters,
                 ahead_ns: int, synchronised_ns: int) -> None:
        self._crypto = crypto
        self._context = signing_context("data", session)
        self._parameters = parameters
        # The server's clock was at most this far ahead of the client's at `synchronised_ns`.
        self._ahead_ns = ahead_ns
        self._synchronised_ns = synchronised_ns
        self._known = (0, parameters.commitment)
        self._held: dict[int, list[Data]] = {}

    @property
    def waiting(self) -> int:
        """Return the number of packets that are held."""
        return sum(map(len, self._held.values()))

    def open_packet(self, packet: Data, now_ns: int) -> list[Verdict]:
        """Return verdicts on packets whose key this packet carries.

        Also returns a verdict on the packet itself if it is late, malformed or shed.
        """
        if len(packet.authenticator) != _INTERVAL.size + TESLA_KEY_BYTES + TAG_BYTES:
            return [(packet, Fate.FAILED)]
        interval, = _INTERVAL.unpack_from(packet.authenticator)
        key = packet.authenticator[_INTERVAL.size:_INTERVAL.size + TESLA_KEY_BYTES]
        verdicts = self._learn_key(interval - self._parameters.delay, key, now_ns)
        if not 1 <= interval <= self._parameters.intervals:
            return [*verdicts, (packet, Fate.FAILED)]
        if self._latest_interval(now_ns) >= interval + self._parameters.delay:
            return [*verdicts, (packet, Fate.LATE)]
        if interval <= self._known[0]:
            # The key was disclosed earlier than the parameters permit, so the server's clock does
            # not agree with them.
            return [*verdicts, (packet, Fate.LATE)]
        if self.waiting >= _MAX_WAITING:
            return [*verdicts, (packet, Fate.SHED)]
        self._held.setdefault(interval, []).append(packet)
        return verdicts

    def process_disclosure(self, disclosed: Disclose, now_ns: int) -> list[Verdict]:
        """Learn a key from its own packet and return the verdicts that follow."""
        return self._learn_key(disclosed.interval, disclosed.key, now_ns)

    def tick(self, now_ns: int) -> list[Verdict]:
        """Return no verdicts: a later key also gives all earlier keys."""
        return []

    def deadline_ns(self) -> int | None:
        """Return None, because `tick` is never due."""
        return None

    def give_up(self) -> list[Verdict]:
        """Give up all held packets, because the stream is over."""
        held = [packet for packets in self._held.values() for packet in packets]
        self._held.clear()
        return [(packet, Fate.LATE) for packet in held]

    def _latest_interval(self, now_ns: int) -> int:
        """Return the latest interval that the server can have reached."""
        drift_ns = int(DRIFT * max(0, now_ns - self._synchronised_ns)) + 1
        return self._parameters.interval_at(now_ns + self._ahead_ns + drift_ns)

    def _learn_key(self, interval: int, key: bytes, now_ns: int) -> list[Verdict]:
        known, known_key = self._known
        # A key of a future interval cannot be disclosed. Without this bound, a forged interval
        # number would cost many hashes.
        if not known < interval <= min(self._parameters.intervals,
                                       self._latest_interval(now_ns)):
            return []
        keys = [key]
        for _ in range(interval - known):
            keys.append(self._crypto.compute_digest(_CHAIN + keys[-1]))
        if not hmac.compare_digest(keys[-1], known_key):
            return []
        self._known = (interval, key)
        by_interval = {interval - n: chain_key for n, chain_key in enumerate(keys)}
        return [(packet, self._judge_packet(packet, by_interval[held]))
                for held in sorted(self._held) if held <= interval
                for packet in self._held.pop(held)]

    def _judge_packet(self, packet: Data, key: bytes) -> Fate:
        interval, tag = packet.authenticator[:_INTERVAL.size], packet.authenticator[-TAG_BYTES:]
        is_right = self._crypto.is_valid_mac(derive_mac_key(key), self._context
                                             + packet.signed_bytes() + interval,
                                             tag)
        return Fate.VERIFIED if is_right else Fate.FAILED
