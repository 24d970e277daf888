"""Generate lists of messages (traces) with the mean values that the 1987 paper printed.

The packet trace of the paper was never published. `generate_trace` makes one from a seed: messages
with time, size and urgency, whose means are those of the paper's Table 2. How bursty they are was
chosen by Tables 2 and 3. `Payload` has the data of the messages. The module runs in the guest
(virtual machine) and uses the standard library only. The paper is the report of Anderson, Ferrari,
Rangan and Sartirana (1987) on ADP.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

PAGE_BYTES = 8192
#: Sizes of small messages by protocol: requests, acknowledgements, typed characters.
_SMALL = {"TCP": (1, 2, 4, 20, 40, 64), "ND": (64, 96, 128), "NFS": (96, 128, 168)}
_LARGE = {"TCP": (512, 1024, 1460, 1460, 1460), "ND": (PAGE_BYTES,), "NFS": (PAGE_BYTES,)}


@dataclass(frozen=True)
class Burstiness:
    """Bursts of messages with a geometric length, and `peak` times the mean rate inside a burst."""

    length: float
    peak: float


@dataclass(frozen=True)
class TraceKind:
    """A trace of the paper's Table 2: mean times and sizes, and fraction of urgent messages.

    - `mean_bytes`, `interarrival_s`: mean size of a message, and mean time between messages
    - `timeout_s`: longest wait of a message in the queue (Table 1)
    - `protocols`: protocols of the messages, with the fraction of each
    - `urgent`: for ALL, the printed fraction of urgent messages (Table 1). For other traces it is
      the fraction that gives the datagram sizes of Table 2.
    - `bursts`: how bursty the trace is
    """

    mean_bytes: int
    interarrival_s: float
    timeout_s: float
    protocols: tuple[tuple[str, float], ...]
    urgent: float
    bursts: Burstiness


#: Burstiness by trace: ALL's is chosen by Table 3, the others' by Table 2. The others have ADP
#: messages of the printed size, and latencies in nearly the printed proportion to ALL's.
_BURSTS = {"ALL": Burstiness(length=60.0, peak=1.5), "TCP": Burstiness(length=20.0, peak=3.0),
           "ND": Burstiness(length=40.0, peak=3.0), "NFS": Burstiness(length=6.0, peak=40.0),
           "ND+NFS": Burstiness(length=20.0, peak=1.5)}
TRACES = {
    "ALL": TraceKind(1166, 0.004, 0.040, (("TCP", 0.434), ("ND", 0.453), ("NFS", 0.113)), 0.10,
                     _BURSTS["ALL"]),
    "TCP": TraceKind(219, 0.002, 0.040, (("TCP", 1.0),), 0.095, _BURSTS["TCP"]),
    "ND": TraceKind(2339, 0.011, 0.100, (("ND", 1.0),), 0.08, _BURSTS["ND"]),
    "NFS": TraceKind(1897, 0.050, 0.100, (("NFS", 1.0),), 0.54, _BURSTS["NFS"]),
    "ND+NFS": TraceKind(1891, 0.010, 0.060, (("ND", 0.8), ("NFS", 0.2)), 0.06,
                        _BURSTS["ND+NFS"]),
}


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """A message with the time at which its process sends it (s), its size (bytes) and urgency."""

    at_s: float
    bytes: int
    urgent: bool


def generate_trace(name: str, count: int, seed: int, *, urgent: float | None = None,
                   load: float = 1.0) -> list[TraceMessage]:
    """Generate a trace with the paper's means.

    Equal arguments give equal traces on any machine.

    Args:
        name: name of the trace, a key of `TRACES`.
        count: number of messages.
        seed: seed of the random numbers.
        urgent: fraction of urgent messages, None for the trace's own.
        load: multiple of the nominal rate. Bursts keep their shape.
    """
    kind = TRACES[name]
    rng = random.Random(f"{name}/{count}/{seed}")  # noqa: S311 - repeatable on purpose
    times = _generate_times(count, kind.interarrival_s / load, kind.bursts, rng)
    sizes = _generate_sizes(kind, count, rng)
    marks = _random_marks(round((kind.urgent if urgent is None else urgent) * count), count, rng)
    return [TraceMessage(*message) for message in zip(times, sizes, marks, strict=True)]


def _generate_times(count: int, mean_s: float, bursts: Burstiness,
                    rng: random.Random) -> list[float]:
    """Return message times (s) whose mean distance is exactly the printed one."""
    at_s = 0.0
    times: list[float] = []
    while len(times) < count:
        length = 1 + int(rng.expovariate(1 / (bursts.length - 0.5)))
        for _ in range(length):
            at_s += rng.expovariate(bursts.peak / mean_s)
            times.append(at_s)
        at_s += rng.expovariate(1 / (length * mean_s * (1 - 1 / bursts.peak)))
    stretch = count * mean_s / times[count - 1]
    return [time * stretch for time in times[:count]]


def _generate_sizes(kind: TraceKind, count: int, rng: random.Random) -> list[int]:
    """Return message sizes (bytes) with large ones at random places, so that the mean is right."""
    sizes: list[int] = []
    share = _large_share(kind)
    for protocol, weight in kind.protocols:
        number = round(weight * count)
        sizes += [rng.choice((_LARGE if is_large else _SMALL)[protocol])
                  for is_large in _random_marks(round(share[protocol] * number), number, rng)]
    sizes += [rng.choice(_SMALL[kind.protocols[0][0]]) for _ in range(count - len(sizes))]
    rng.shuffle(sizes)
    return sizes[:count]


def _large_share(kind: TraceKind) -> dict[str, float]:
    """Return which fraction of each protocol's messages must be large, to give the mean size.

    TCP has the fraction of its own trace. The other protocols share the rest equally.
    """
    shares = {}
    means = {name: (_mean_of(_SMALL[name]), _mean_of(_LARGE[name])) for name, _ in kind.protocols}
    left, weight = float(kind.mean_bytes), 1.0
    if "TCP" in means:
        small, large = means["TCP"]
        shares["TCP"] = (TRACES["TCP"].mean_bytes - small) / (large - small)
        part = dict(kind.protocols)["TCP"]
        left, weight = left - part * TRACES["TCP"].mean_bytes, weight - part
    others = [(name, part) for name, part in kind.protocols if name != "TCP"]
    if others:
        small = sum(part * means[name][0] for name, part in others)
        large = sum(part * means[name][1] for name, part in others)
        shares |= dict.fromkeys([name for name, _ in others], (left - small) / (large - small))
    return shares


def _random_marks(chosen: int, count: int, rng: random.Random) -> list[bool]:
    """Return `count` truth values of which exactly `chosen` are true, at random places."""
    places = [True] * min(chosen, count) + [False] * (count - min(chosen, count))
    rng.shuffle(places)
    return places


def _mean_of(values: Sequence[int]) -> float:
    return sum(values) / len(values)


# --- Payloads of messages ---
# They are random bytes, which resemble no other data in a capture.

_POOL_BYTES = 1 << 16
_STEP = 7919
#: Bytes of a payload that a search of a capture looks for.
PIECE_BYTES = 16


class Payload:
    """The data of all messages, cut out of random bytes from a seed."""

    def __init__(self, seed: int) -> None:
        self._pool = random.Random(seed).randbytes(2 * _POOL_BYTES)  # noqa: S311

    def message_data(self, number: int, size: int) -> bytes:
        """Return the data of a message, by its number in the trace."""
        start = number * _STEP % _POOL_BYTES
        return self._pool[start:start + size]

    def message_checksum(self, number: int, size: int) -> int:
        """Return the CRC-32 of a message's data, which the receiver logs."""
        return zlib.crc32(self.message_data(number, size))

    def all_pieces(self) -> frozenset[bytes]:
        """Return all 16-byte pieces of data that messages can contain, for searches in captures."""
        pool = self._pool
        return frozenset(pool[at:at + PIECE_BYTES] for at in range(len(pool) - PIECE_BYTES + 1))
