"""Means with intervals, medians and variances of a sample."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEVEL = 0.95
Sample = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values with its interval.

    `low` and `high` are None for fewer than two values.
    """

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float | None:
        """Return half of the interval's width, or None without an interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def spans_zero(self) -> bool:
        """Return whether the interval contains 0, so that the data show no difference from 0."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


def mean(values: Iterable[float], level: float = LEVEL) -> Estimate:
    """Return the mean with Student's t interval.

    Student (1908), "The probable error of a mean", Biometrika 6(1). For measurements of computer
    systems: Jain (1991), "The Art of Computer Systems Performance Analysis", 13.2.

    Raises:
        ValueError: There is no value, or one is not finite.
    """
    sample = finite_sample(values)
    middle = float(np.mean(sample))
    if sample.size < 2:
        return Estimate(middle, None, None, sample.size)
    quantile = float(special.stdtrit(sample.size - 1, (1 + level) / 2))
    half = quantile * float(np.std(sample, ddof=1)) / float(np.sqrt(sample.size))
    return Estimate(middle, middle - half, middle + half, sample.size)


def mean_bca(values: Iterable[float], generator: np.random.Generator, level: float = LEVEL,
             resamples: int = 9999) -> Estimate:
    """Return the mean with a bias-corrected and accelerated (BCa) bootstrap interval.

    The method suits skewed samples that are not too small. With few values the interval is too
    narrow, like that of any bootstrap. Efron (1987), "Better bootstrap confidence intervals", J.
    Am. Stat. Assoc. 82(397), 171-185.

    Raises:
        ValueError: There is no value, or one is not finite.
    """
    sample = finite_sample(values)
    middle = float(np.mean(sample))
    if sample.size < 2:
        return Estimate(middle, None, None, sample.size)
    if np.ptp(sample) == 0:  # the acceleration would be 0/0
        return Estimate(middle, middle, middle, sample.size)
    from scipy import stats  # slow to import, and only this function needs it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        interval = stats.bootstrap((sample,), np.mean, confidence_level=level, method="BCa",
                                   n_resamples=resamples, rng=generator).confidence_interval
    if not (np.isfinite(interval.low) and np.isfinite(interval.high)):
        return mean(sample, level)
    return Estimate(middle, float(interval.low), float(interval.high), sample.size)


def median(values: Iterable[float]) -> float:
    """Return the median: the middle value, or the mean of the two middle values.

    Raises:
        ValueError: There is no value, or one is not finite.
    """
    return float(np.median(finite_sample(values)))


def sample_variance(values: Iterable[float]) -> float | None:
    """Return the unbiased variance (divided by n - 1), or None below two values.

    This is the variance in Table 9 of the 2007 paper.
    """
    sample = finite_sample(values)
    return float(np.var(sample, ddof=1)) if sample.size > 1 else None


def paired_differences(first: Mapping[int, float], second: Mapping[int, float]) -> Sample:
    """Return `first` minus `second` in every common block, in order of the blocks.

    Drift from block to block affects both equally and cancels: Box, Hunter and Hunter (2005),
    "Statistics for Experimenters", 3.2. `mean` gives the interval of the mean difference.
    """
    common = sorted(first.keys() & second.keys())
    return np.array([first[block] - second[block] for block in common], dtype=np.float64)


def finite_sample(values: Iterable[float]) -> Sample:
    """Return the values as an array.

    Raises:
        ValueError: There is no value, or one is not finite.
    """
    sample = np.fromiter(values, dtype=np.float64)
    if not sample.size or not np.isfinite(sample).all():
        raise ValueError("statistics need at least one value, all of them finite")
    return sample
