"""Intervals for what a simulation estimates, from batches of successive customers.

Batch means (Law and Kelton 1991, 9.5.3): successive response times are correlated, those of long
batches hardly. For a percentile, the share of customers below it has such an interval, and its ends
are turned into response times. Both are too narrow near saturation: docs/queueing.md has figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.queueing.errors import QueueingError

LEVEL = 0.95
#: Few and long: more would be correlated near saturation.
BATCHES = 10


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval; low and high equal the value where it is exact."""

    value: float
    low: float
    high: float


def certain(value: float) -> Interval:
    """A value that was computed, not simulated."""
    return Interval(value, value, value)


def mean(values: NDArray[np.float64], batches: int = BATCHES) -> Interval:
    """The mean of a stationary sequence; raises QueueingError if it is shorter than 2 a batch."""
    of_batches = [float(batch.mean()) for batch in _split(values, batches)]
    return _around(float(values.mean()), of_batches)


def percentile(values: NDArray[np.float64], percent: float, batches: int = BATCHES) -> Interval:
    """A percentile of a stationary sequence; raises as `mean` does, and outside 0 to 100."""
    if not 0 < percent < 100:
        raise QueueingError(f"percentile {percent}", "is outside 0 to 100", "give for example 95")
    value = float(np.percentile(values, percent))
    # How the share of customers below the value varies is unbiased, unlike quantiles of batches.
    below = [100 * float((batch <= value).mean()) for batch in _split(values, batches)]
    shares = _around(percent, below)
    low, high = np.percentile(values, [max(shares.low, 0.0), min(shares.high, 100.0)])
    return Interval(value, float(low), float(high))


def _split(values: NDArray[np.float64], batches: int) -> list[NDArray[np.float64]]:
    if values.size < 2 * batches:
        raise QueueingError("simulation", f"{values.size} customers are too few for {batches} "
                            "batches", "simulate more completions")
    return np.array_split(values, batches)


def _around(value: float, of_batches: list[float]) -> Interval:
    quantile = float(special.stdtrit(len(of_batches) - 1, 0.5 + LEVEL / 2))
    half = quantile * float(np.std(of_batches, ddof=1)) / len(of_batches) ** 0.5
    return Interval(value, value - half, value + half)
