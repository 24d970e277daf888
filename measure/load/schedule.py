"""Arrivals are fixed before the first of them: when, who, and whether they offer a session."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ScheduledArrival:
    """One authentication to be begun, so long after the load begins."""

    due_s: float
    station: int
    offers_session: bool


def poisson(rate_per_s: float, seed: int, *, stations: int,
            offering_share: float = 0.0) -> Iterator[ScheduledArrival]:
    """Arrivals with exponential gaps, without end; equal arguments give equal arrivals."""
    rng = random.Random(f"{seed}/{rate_per_s:g}")  # noqa: S311 - repeatable on purpose
    due_s = 0.0
    while True:
        due_s += rng.expovariate(rate_per_s)
        yield ScheduledArrival(due_s, rng.randrange(stations), rng.random() < offering_share)


def even(rate_per_s: float, seed: int, *, stations: int,
         offering_share: float = 0.0) -> Iterator[ScheduledArrival]:
    """The same stations at the same rate, with equal gaps (a negative control)."""
    arrivals = poisson(rate_per_s, seed, stations=stations, offering_share=offering_share)
    for number, arrival in enumerate(arrivals, 1):
        yield replace(arrival, due_s=number / rate_per_s)
