"""TESLA (RFC 4082): MACs under keys that are disclosed when it is too late to forge with them.

Time is cut into intervals; interval i has the key K(i) of a one-way chain, K(i) = H(K(i+1)), whose
end K(0) the server signs. A packet of interval i carries a MAC under a key derived from K(i), and
K(i-d). A receiver holds it until K(i) comes, and only if it can be sure that K(i) was not yet out
when the packet arrived: it knows an upper bound of the server's clock from the handshake.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, replace

from protocols.authenticast.crypto import TAG_BYTES, Crypto
from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import TESLA_KEY_BYTES, Data, Disclose
from protocols.authenticast.schemes.base import Verdict
from protocols.authenticast.session import context

_PARAMETERS = struct.Struct("!QQIH")
_CHAIN = b"authenticast/1 tesla chain"
_INTERVAL = struct.Struct("!I")
PARAMETER_BYTES = _PARAMETERS.size + TESLA_KEY_BYTES
MAX_CHAIN = 1 << 20
# How far the two clocks may drift apart after the handshake, as a share of the time since.
DRIFT = 200e-6
_MAX_WAITING = 8192


@dataclass(frozen=True)
class Schedule:
    """How a server cuts its time: length of an interval, disclosure delay, length of a chain."""

    interval_ns: int = 100_000_000
    delay: int = 3
    intervals: int = 3000


@dataclass(frozen=True)
class Parameters:
    """What the server signs: when interval 1 starts, their length, how many, d, and K(0)."""

    start_ns: int
    interval_ns: int
    intervals: int
    delay: int
    commitment: bytes

    def __post_init__(self) -> None:
        if self.interval_ns < 1 or not 1 <= self.intervals <= MAX_CHAIN or self.delay < 1:
            raise ValueError("TESLA: intervals, their length and the delay must be at least 1")

    def interval_at(self, time_ns: int) -> int:
        """The interval at a time of the server's clock; 1 is the first, below are none."""
        return (time_ns - self.start_ns) // self.interval_ns + 1

    def disclosed_ns(self, interval: int) -> int:
        """When the server may disclose an interval's key."""
        return self.start_ns + (interval + self.delay - 1) * self.interval_ns

    def encode(self) -> bytes:
        """As in a change's material."""
        return _PARAMETERS.pack(self.start_ns, self.interval_ns, self.intervals,
                                self.delay) + self.commitment


def parse_parameters(data: bytes) -> Parameters:
    """What a change's material says. Raises ValueError."""
    if len(data) != PARAMETER_BYTES:
        raise ValueError(f"TESLA: parameters of {len(data)} bytes")
    start_ns, interval_ns, intervals, delay = _PARAMETERS.unpack_from(data)
    return Parameters(start_ns, interval_ns, intervals, delay, data[_PARAMETERS.size:])


def mac_key(key: bytes) -> bytes:
    """The key of an interval's MACs: F' of RFC 4082."""
    return hmac.digest(key, b"authenticast/1 tesla mac", "sha256")


def chain(crypto: Crypto, last: bytes, intervals: int) -> list[bytes]:
    """K(0) to K(intervals) from the last one."""
    keys = [last]
    for _ in range(intervals):
        keys.append(crypto.digest(_CHAIN + keys[-1]))
    return keys[::-1]


class TeslaSealer:
    """Tags packets with their interval's key; goes on disclosing until all its keys are out."""

    def __init__(self, crypto: Crypto, session: bytes, parameters: Parameters,
                 keys: list[bytes]) -> None:
        self._crypto = crypto
        self._context = context("data", session)
        self._parameters = parameters
        self._keys = keys
        self._used = 0
        self._disclosed = 0
        self._last: Data | None = None

    def remaining(self, now_ns: int) -> int:
        """Intervals that the chain still has."""
        return self._parameters.intervals - self._parameters.interval_at(now_ns)

    def add(self, packet: Data, now_ns: int) -> list[bytes]:
        """The packet, its interval, an old key, its MAC. Raises ValueError without a key left."""
        interval = max(1, self._parameters.interval_at(now_ns))
        if interval > self._parameters.intervals:
            raise ValueError("TESLA: the chain is used up")
        old = max(0, interval - self._parameters.delay)
        head = _INTERVAL.pack(interval) + self._keys[old]
        tag = self._crypto.mac(mac_key(self._keys[interval]),
                               self._context + packet.signed() + _INTERVAL.pack(interval))
        self._used, self._disclosed, self._last = interval, max(self._disclosed, old), packet
        return [replace(packet, authenticator=head + tag).encode()]

    def close(self, now_ns: int) -> list[bytes]:
        """Nothing is held; keys follow when their time has come."""
        return []

    def tick(self, now_ns: int) -> list[bytes]:
        """The newest key that may be known, where no packet has carried it."""
        due_ns = self.deadline_ns()
        if due_ns is None or due_ns > now_ns or self._last is None:
            return []
        newest = min(self._used, self._parameters.interval_at(now_ns) - self._parameters.delay)
        self._disclosed = newest
        return [Disclose(self._last.stream, self._last.epoch, newest,
                         self._keys[newest]).encode()]

    def deadline_ns(self) -> int | None:
        """When the next key is due; None when all that were used are out."""
        if self._used <= self._disclosed:
            return None
        return self._parameters.disclosed_ns(self._disclosed + 1)


class TeslaOpener:
    """Holds packets until their key is disclosed; refuses those that came too late to be safe."""

    def __init__(self, crypto: Crypto, session: bytes, parameters: Parameters,
                 ahead_ns: int, synchronised_ns: int) -> None:
        self._crypto = crypto
        self._context = context("data", session)
        self._parameters = parameters
        # The server's clock less ours is at most this; it was so at `synchronised_ns`.
        self._ahead_ns = ahead_ns
        self._synchronised_ns = synchronised_ns
        self._known = (0, parameters.commitment)
        self._held: dict[int, list[Data]] = {}

    @property
    def waiting(self) -> int:
        """Packets that are held."""
        return sum(map(len, self._held.values()))

    def open(self, packet: Data, now_ns: int) -> list[Verdict]:
        """Verdicts on those whose key it brings, and on itself where it is late or wrong."""
        if len(packet.authenticator) != _INTERVAL.size + TESLA_KEY_BYTES + TAG_BYTES:
            return [(packet, Fate.FAILED)]
        interval, = _INTERVAL.unpack_from(packet.authenticator)
        key = packet.authenticator[_INTERVAL.size:_INTERVAL.size + TESLA_KEY_BYTES]
        verdicts = self._learn(interval - self._parameters.delay, key, now_ns)
        if not 1 <= interval <= self._parameters.intervals:
            return [*verdicts, (packet, Fate.FAILED)]
        if self._latest_interval(now_ns) >= interval + self._parameters.delay:
            return [*verdicts, (packet, Fate.LATE)]
        if interval <= self._known[0]:
            # Its key is out though it should not be: the clocks are not what the server said.
            return [*verdicts, (packet, Fate.LATE)]
        if self.waiting >= _MAX_WAITING:
            return [*verdicts, (packet, Fate.SHED)]
        self._held.setdefault(interval, []).append(packet)
        return verdicts

    def disclose(self, disclosed: Disclose, now_ns: int) -> list[Verdict]:
        """A key came in a message of its own."""
        return self._learn(disclosed.interval, disclosed.key, now_ns)

    def tick(self, now_ns: int) -> list[Verdict]:
        """Nothing is given up: a later key brings all earlier ones."""
        return []

    def deadline_ns(self) -> int | None:
        """Never."""
        return None

    def give_up(self) -> list[Verdict]:
        """The stream is over, and no key will come."""
        held = [packet for packets in self._held.values() for packet in packets]
        self._held.clear()
        return [(packet, Fate.LATE) for packet in held]

    def _latest_interval(self, now_ns: int) -> int:
        """The last interval that it can be at the server."""
        drift_ns = int(DRIFT * max(0, now_ns - self._synchronised_ns)) + 1
        return self._parameters.interval_at(now_ns + self._ahead_ns + drift_ns)

    def _learn(self, interval: int, key: bytes, now_ns: int) -> list[Verdict]:
        known, known_key = self._known
        # A key of the future is none; without this bound a forged number would cost many hashes.
        if not known < interval <= min(self._parameters.intervals,
                                       self._latest_interval(now_ns)):
            return []
        keys = [key]
        for _ in range(interval - known):
            keys.append(self._crypto.digest(_CHAIN + keys[-1]))
        if not hmac.compare_digest(keys[-1], known_key):
            return []
        self._known = (interval, key)
        by_interval = {interval - n: chain_key for n, chain_key in enumerate(keys)}
        return [(packet, self._judge(packet, by_interval[held]))
                for held in sorted(self._held) if held <= interval
                for packet in self._held.pop(held)]

    def _judge(self, packet: Data, key: bytes) -> Fate:
        interval, tag = packet.authenticator[:_INTERVAL.size], packet.authenticator[-TAG_BYTES:]
        is_right = self._crypto.is_mac(mac_key(key), self._context + packet.signed() + interval,
                                       tag)
        return Fate.VERIFIED if is_right else Fate.FAILED
