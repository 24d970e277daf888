"""Differences of two samples' means with intervals and p-values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.statistics.effects import cliffs_delta, hedges_g, hedges_g_paired
from analysis.statistics.estimates import (
    LEVEL,
    Estimate,
    Sample,
    finite_sample,
    mean,
    paired_differences,
)


@dataclass(frozen=True)
class Comparison:
    """The difference of two samples, first minus second.

    `p_value` is two-sided, for the hypothesis of no difference. It is None where a sample is too
    small. `g` is Hedges' g in standard deviations (None without any spread). `delta` is Cliff's
    delta, from -1 to 1.
    """

    difference: Estimate
    p_value: float | None
    g: Estimate | None
    delta: float


def compare_paired(first: Mapping[int, float], second: Mapping[int, float],
                   level: float = LEVEL) -> Comparison:
    """Compare two samples by their differences within blocks.

    This is the t test of paired samples: Box, Hunter and Hunter (2005), "Statistics for
    Experimenters", 3.2. Drift from block to block cancels, and with it most of the variation that
    both samples share. Therefore `g` is in standard deviations of the differences.

    Raises:
        ValueError: The samples have no block in common.
    """
    differences = paired_differences(first, second)
    difference = mean(differences, level)
    error = float(np.std(differences, ddof=1) / np.sqrt(difference.n)) if difference.n > 1 else 0.0
    common = sorted(first.keys() & second.keys())
    return Comparison(difference, _p_value(difference.mean, error, difference.n - 1),
                      hedges_g_paired(differences, level),
                      cliffs_delta([first[block] for block in common],
                                   [second[block] for block in common]))


def compare_welch(first: Iterable[float], second: Iterable[float],
                  level: float = LEVEL) -> Comparison:
    """Compare samples that share no blocks and may differ in spread.

    Welch (1947), "The generalization of Student's problem when several different population
    variances are involved", Biometrika 34(1-2), 28-35. For measurements of computer systems: Jain
    (1991), "The Art of Computer Systems Performance Analysis", 13.4.2.

    Raises:
        ValueError: A sample is empty.
    """
    a, b = finite_sample(first), finite_sample(second)
    apart, count = float(np.mean(a) - np.mean(b)), min(a.size, b.size)
    effects = hedges_g(a, b, level), cliffs_delta(a, b)
    if count < 2:
        return Comparison(Estimate(apart, None, None, count), None, *effects)
    shares = _mean_variance(a), _mean_variance(b)
    error = float(np.sqrt(sum(shares)))
    freedom = _welch_freedom(shares, (a.size, b.size)) if error else a.size + b.size - 2.0
    half = float(special.stdtrit(freedom, (1 + level) / 2)) * error
    return Comparison(Estimate(apart, apart - half, apart + half, count),
                      _p_value(apart, error, freedom), *effects)


def compare_welch_pairs(pairs: Iterable[tuple[Iterable[float], Iterable[float]]],
                        level: float = LEVEL) -> tuple[Estimate, float | None]:
    """Return the mean difference over pairs of samples and its p-value.

    The method is that of `compare_welch`, for cases where one pair has too few values to decide.
    Spreads may differ from pair to pair. Satterthwaite (1946), "An approximate distribution of
    estimates of variance components", Biometrics Bulletin 2(6), 110-114.

    Args:
        pairs: The first and the second sample of each pair.
        level: Confidence level of the interval.

    Returns:
        The mean of first minus second, and the p-value for the hypothesis of no difference.

    Raises:
        ValueError: There is no pair, or a sample has fewer than two values.
    """
    samples = [(finite_sample(first), finite_sample(second)) for first, second in pairs]
    sizes = [sample.size for pair in samples for sample in pair]
    if min(sizes, default=0) < 2:
        raise ValueError("every sample needs two values or more")
    count = len(samples)
    apart = sum(float(np.mean(first) - np.mean(second)) for first, second in samples) / count
    shares = [_mean_variance(sample) / count**2 for pair in samples for sample in pair]
    error = float(np.sqrt(sum(shares)))
    freedom = _welch_freedom(shares, sizes) if error else float(sum(sizes) - len(sizes))
    half = float(special.stdtrit(freedom, (1 + level) / 2)) * error
    return Estimate(apart, apart - half, apart + half, count), _p_value(apart, error, freedom)


def _mean_variance(sample: Sample) -> float:
    """Return the variance of a sample's mean."""
    return float(np.var(sample, ddof=1)) / sample.size


def _welch_freedom(shares: Sequence[float], sizes: Sequence[int]) -> float:
    """Return Satterthwaite's degrees of freedom.

    The terms are divided by their sum, so that they cannot underflow.
    """
    whole = sum(shares)
    return 1 / sum((share / whole)**2 / (size - 1)
                   for share, size in zip(shares, sizes, strict=True))


def _p_value(apart: float, error: float, freedom: float) -> float | None:
    """Return the two-sided p-value of Student's t.

    Without any spread the p-value is 1 for equal means and 0 otherwise. The result is None below
    one degree of freedom.
    """
    if freedom < 1:
        return None
    if error <= 1e-12 * abs(apart):  # all values equal, except for rounding
        return 1.0 if apart == 0 else 0.0
    return float(2 * special.stdtr(freedom, -abs(apart / error)))
