"""Generate traces of user messages with the published means of time, size and urgency.

The packet trace of the paper was never published. Generated traces have the mean sizes and
interarrival times of Table 2, and a burstiness chosen by Tables 2 and 3. This module imports only
the standard library, because the guest generates its traces itself.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

PAGE_BYTES = 8192
#: Sizes of small messages by protocol: requests, acknowledgements, typed characters.
_SMALL = {"TCP": (1, 2, 4, 20, 40, 64), "ND": (64, 96, 128), "NFS": (96, 128, 168)}
_LARGE = {"TCP": (512, 1024, 1460, 1460, 1460), "ND": (PAGE_BYTES,), "NFS": (PAGE_BYTES,)}


@dataclass(frozen=True)
class Burstiness:
    """Bursts of geometric length, with `peak` times the mean rate inside a burst."""

    length: float
    peak: float


@dataclass(frozen=True)
class TraceKind:
    """A trace of Table 2 with its printed means, protocols and share of urgent messages.

    `urgent` is the published share for ALL (Table 1). For other traces it is the share that gives
    the sizes of ADP messages in Table 2.
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
    """A user message with its time (s), its size (bytes) and its urgency.

    The time is that at which its process sends it.
    """

    at_s: float
    bytes: int
    urgent: bool


def generate_trace(name: str, count: int, seed: int, *, urgent: float | None = None,
                   load: float = 1.0) -> list[TraceMessage]:
    """Generate a trace with the published means.

    The same arguments give the same trace on any machine.

    Args:
        name: Name of the trace, a key of `TRACES`.
        count: Number of messages.
        seed: Seed of the random numbers.
        urgent: Share of urgent messages, None for the trace's own.
        load: Multiple of the nominal rate; the ratios of interarrival times do not change.
    """
    kind = TRACES[name]
    rng = random.Random(f"{name}/{count}/{seed}")  # noqa: S311 - repeatable on purpose
    times = _generate_times(count, kind.interarrival_s / load, kind.bursts, rng)
    sizes = _generate_sizes(kind, count, rng)
    marks = _random_marks(round((kind.urgent if urgent is None else urgent) * count), count, rng)
    return [TraceMessage(*message) for message in zip(times, sizes, marks, strict=True)]


def _generate_times(count: int, mean_s: float, bursts: Burstiness,
                    rng: random.Random) -> list[float]:
    """Return times whose mean distance is exactly the published one (s)."""
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
    """Return sizes (bytes) with large ones at random places, as many as the mean needs."""
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
    """Return the share of large messages by protocol that gives the trace its mean size.

    TCP has the share of its own trace. The servers' protocols have equal shares, which give the
    rest of the mean.
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
    """Return `count` marks of which exactly `chosen` are true, at random places."""
    places = [True] * min(chosen, count) + [False] * (count - min(chosen, count))
    rng.shuffle(places)
    return places


def _mean_of(values: Sequence[int]) -> float:
    return sum(values) / len(values)
