"""Schedule arrivals in advance: their times and stations, and who offers a TLS session."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ScheduledArrival:
    """An authentication that is due `due_s` seconds after the load begins."""

    due_s: float
    station: int
    offers_session: bool


def poisson_arrivals(rate_per_s: float, seed: int, *, stations: int,
                     offering_share: float = 0.0) -> Iterator[ScheduledArrival]:
    """Yield arrivals with exponential gaps, without end.

    Equal arguments yield equal arrivals. `offering_share` is the share of arrivals that offer a
    session.
    """
    rng = random.Random(f"{seed}/{rate_per_s:g}")  # noqa: S311 - repeatable on purpose
    due_s = 0.0
    while True:
        due_s += rng.expovariate(rate_per_s)
        yield ScheduledArrival(due_s, rng.randrange(stations), rng.random() < offering_share)


def even_arrivals(rate_per_s: float, seed: int, *, stations: int,
                  offering_share: float = 0.0) -> Iterator[ScheduledArrival]:
    """Yield the stations of `poisson_arrivals` at equal gaps (a negative control)."""
    arrivals = poisson_arrivals(rate_per_s, seed, stations=stations, offering_share=offering_share)
    for number, arrival in enumerate(arrivals, 1):
        yield replace(arrival, due_s=number / rate_per_s)
