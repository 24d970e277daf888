"""Compute confidence intervals for the mean and percentiles of simulated response times.

Successive response times of a simulated server are correlated, so the usual interval would be too
narrow. The method is batch means (Law and Kelton 1991, 9.5.3): the series is split into long
batches, whose means are hardly correlated. `mean_interval` and `percentile_interval` take the
series in order and return an `Interval`. For a percentile, the fraction of values above it has such
an interval, whose ends are converted to response times. Near saturation batches must be long, which
`analysis.queueing.steady_state` ensures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.queueing.network import QueueingError

LEVEL = 0.95
#: Number of batches: few and long, because short ones would be correlated near saturation.
BATCHES = 10


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % confidence interval.

    `low` and `high` equal the value where it is exact.
    """

    value: float
    low: float
    high: float


def exact_interval(value: float) -> Interval:
    """Return a computed value as an interval of width 0."""
    return Interval(value, value, value)


def mean_interval(values: NDArray[np.float64], batches: int = BATCHES) -> Interval:
    """Return the mean of a series of simulated values with its confidence interval.

    Raises:
        QueueingError: There are fewer than 2 values per batch.
    """
    of_batches = [float(batch.mean()) for batch in _split_batches(values, batches)]
    return interval_around(float(values.mean()), of_batches)


def percentile_interval(values: NDArray[np.float64], percent: float,
                        batches: int = BATCHES) -> Interval:
    """Return a percentile of a series of simulated values with its confidence interval.

    The upper end is infinite if too few values are above it.

    Raises:
        QueueingError: There are fewer than 2 values per batch, or `percent` is not between 0 and
            100.
    """
    value, width = _share_above(values, percent, batches)
    # The interval is on a logarithmic scale: shares of few customers vary more upwards than
    # downwards.
    rest = min(percent, 100 - percent) / 100
    more, less = rest * np.exp(width), rest * np.exp(-width)
    ends = (less, more) if percent < 50 else (1 - more, 1 - less)
    low, high = (float(np.quantile(values, min(max(end, 0.0), 1.0))) for end in ends)
    return Interval(value, low, high if values.size * (1 - ends[1]) >= 1 else np.inf)


def share_width(values: NDArray[np.float64], percent: float, batches: int = BATCHES) -> float:
    """Return half the interval of the fraction of values above a percentile, as a logarithm."""
    return _share_above(values, percent, batches)[1]


def _share_above(values: NDArray[np.float64], percent: float, batches: int) -> tuple[float, float]:
    """Return a percentile, and how exactly a simulation knows the share of values above it.

    If `percent` is below 50, it is the share of values below the percentile.

    Args:
        values: Simulated values in order of time.
        percent: The percentile to estimate, above 0 and below 100.
        batches: Number of equal parts of the values, whose shares give the confidence interval.

    Returns:
        The percentile, and the half width of the confidence interval, divided by the share.
    """
    if not 0 < percent < 100:
        raise QueueingError(f"percentile {percent}", "is outside 0 to 100", "give for example 95")
    value = float(np.percentile(values, percent))
    above = np.array([float((batch > value).mean()) for batch in _split_batches(values, batches)])
    shares = above if percent >= 50 else 1 - above
    interval = interval_around(float(shares.mean()), list(shares))
    half = interval.high - interval.value
    return value, half / interval.value if interval.value > 0 else np.inf


def _split_batches(values: NDArray[np.float64], batches: int) -> list[NDArray[np.float64]]:
    if values.size < 2 * batches:
        raise QueueingError("simulation", f"{values.size} customers are too few for {batches} "
                            "batches", "simulate more completions")
    return np.array_split(values, batches)


def interval_around(value: float, of_batches: list[float]) -> Interval:
    """Return a value with a confidence interval from the values of its batches."""
    quantile = float(special.stdtrit(len(of_batches) - 1, 0.5 + LEVEL / 2))
    half = quantile * float(np.std(of_batches, ddof=1)) / len(of_batches) ** 0.5
    return Interval(value, value - half, value + half)
