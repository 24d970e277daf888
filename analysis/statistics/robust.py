"""Detect outliers and drift by medians and ranks, without assuming a distribution.

`modified_z_scores` takes groups of values and returns how far each value is from the median of its
group. `find_trend` takes several time series and tests whether they rise or fall together (seasonal
Kendall test). The result is a p-value and a median slope. Reports warn about outliers and drift
with these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.statistics.estimates import Sample, finite_sample

#: Ratio of the standard deviation of normal values to their median absolute deviation.
_TO_DEVIATIONS = 1.4826


def modified_z_scores(groups: Sequence[Iterable[float]]) -> list[Sample]:
    """Return how far each value is from the median of its group, to detect outliers.

    Iglewicz and Hoaglin (1993), "How to Detect and Handle Outliers", ASQC Basic References in
    Quality Control 16: values beyond 3.5 are outliers. The unit is the median absolute deviation
    (MAD) over all groups, because a few values do not suffice for their own. So bring groups to one
    scale first. In each group the smallest deviation is left out, because the median was fitted to
    it. All results are 0 where more than half of the deviations are 0.

    Raises:
        ValueError: A group is empty.
    """
    samples = [finite_sample(group) for group in groups]
    away = [sample - np.median(sample) for sample in samples]
    counted = [np.sort(np.abs(residuals))[1:] for residuals in away]
    whole = np.concatenate(counted) if counted else np.empty(0)
    scale = _TO_DEVIATIONS * float(np.median(whole)) if whole.size else 0.0
    return [residuals / scale if scale else np.zeros_like(residuals) for residuals in away]


@dataclass(frozen=True)
class Trend:
    """A common trend of several time series: Kendall's S, p-value and median slope.

    `slope` is per unit of time, in the values' unit. It is None where no two times differ.
    """

    s: int
    p_value: float
    slope: float | None


def find_trend(series: Sequence[tuple[Iterable[float], Iterable[float]]]) -> Trend:
    """Test whether several time series rise or fall together (seasonal Kendall test).

    Each series has its own level. The series are the seasons of the test, and the slope is that of
    the test. Only the order of the values is used.

    Hirsch, Slack and Smith (1982), "Techniques of trend analysis for monthly water quality data",
    Water Resources Research 18(1), 107-121.

    Raises:
        ValueError: A series is empty, or has different numbers of times and values.
    """
    total, variance = 0, 0.0
    slopes: list[Sample] = []
    for times, values in series:
        t, x = finite_sample(times), finite_sample(values)
        if t.size != x.size:
            raise ValueError("a series needs as many times as values")
        first, second = np.triu_indices(t.size, 1)
        run, rise = t[second] - t[first], x[second] - x[first]
        total += int((np.sign(run) * np.sign(rise)).sum())
        variance += _kendall_variance(t.size, _count_ties(x), _count_ties(t))
        slopes.append(rise[run != 0] / run[run != 0])
    joined = np.concatenate(slopes) if slopes else np.empty(0)
    # Continuity correction: S changes in whole steps, but the normal distribution is continuous.
    z = max(0, abs(total) - 1) / np.sqrt(variance) if variance > 0 else 0.0
    slope = float(np.median(joined)) if joined.size else None
    return Trend(total, float(2 * special.ndtr(-z)), slope)


def _count_ties(values: Sample) -> Sample:
    """Return how often each distinct value occurs."""
    return np.unique(values, return_counts=True)[1].astype(np.float64)


def _kendall_variance(size: int, first: Sample, second: Sample) -> float:
    """Return the variance of Kendall's S for independent variables, with ties in both.

    Kendall (1970), "Rank Correlation Methods", 4th edition, 4.4.
    """
    def pairs(t: Sample) -> float:
        return float((t * (t - 1)).sum())

    def triples(t: Sample) -> float:
        return float((t * (t - 1) * (t - 2)).sum())

    def full(t: Sample) -> float:
        return float((t * (t - 1) * (2 * t + 5)).sum())

    n = float(size)
    variance = (full(np.array([n])) - full(first) - full(second)) / 18
    if size > 1:
        variance += pairs(first) * pairs(second) / (2 * n * (n - 1))
    if size > 2:
        variance += triples(first) * triples(second) / (9 * n * (n - 1) * (n - 2))
    return variance
