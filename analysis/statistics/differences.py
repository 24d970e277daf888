"""Compare the means of two samples: intervals, p-values and effect sizes.

Samples are compared within blocks (`compare_paired`) or as independent samples (`compare_welch`). A
block is one repetition (measurement) of everything. Both functions return a `Comparison`, which has
the difference with its interval, the p-value and two effect sizes. Many p-values need a correction
for chance findings: `holm` or `benjamini_hochberg`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from analysis.statistics.estimates import (
    LEVEL,
    Estimate,
    Sample,
    finite_sample,
    mean,
    paired_differences,
)

# --- Correction of the p-values of many tests for chance findings ---

def holm(p_values: Iterable[float]) -> Sample:
    """Return p-values corrected for their number by Holm's method, in the given order.

    Let those below 0.05 be called significant. Then at most 5 % of all families of tests have any
    error, however the tests depend on each other. Holm (1979), "A simple sequentially rejective
    multiple test procedure", Scandinavian J. of Statistics 6(2), 65-70.

    Raises:
        ValueError: A value is not a probability.
    """
    p = _check_probabilities(p_values)
    order = np.argsort(p, kind="stable")
    raised = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    # A larger p-value never gets the smaller adjusted one.
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return adjusted


def benjamini_hochberg(p_values: Iterable[float]) -> Sample:
    """Return p-values corrected for their number by Benjamini and Hochberg's method.

    If results with corrected p-values below 0.05 are reported, 5 % of these are expected to be
    errors. This holds for independent or positively dependent tests. The method is less strict than
    `holm`. It finds results that deserve a closer look.
    Benjamini and Hochberg (1995), "Controlling the false discovery rate", J. Royal Statistical
    Society B 57(1), 289-300.

    Raises:
        ValueError: A value is not a probability.
    """
    p = _check_probabilities(p_values)
    order = np.argsort(p, kind="stable")
    raised = p[order] * p.size / np.arange(1, p.size + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1])
    return adjusted


def _check_probabilities(values: Iterable[float]) -> Sample:
    p = np.fromiter(values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    return p


# --- Effect sizes: the difference of two samples without units ---

#: Lower limits of |Cliff's delta| for each word (Romano, Kromrey, Coraggio and Skowronek 2006).
_MAGNITUDES = ((0.474, "large"), (0.33, "medium"), (0.147, "small"))


def hedges_g(first: Iterable[float], second: Iterable[float],
             level: float = LEVEL) -> Estimate | None:
    """Return the difference of two means in units of their standard deviation (Hedges' g).

    The bias of small samples is removed. Hedges (1981), "Distribution theory for Glass's estimator
    of effect size", J. of Educational Statistics 6(2), 107-128. The interval inverts the noncentral
    t distribution (Steiger and Fouladi 1997, "Noncentrality interval estimation", in "What If There
    Were No Significance Tests?"). The result is None if a sample has fewer than two values, or if
    neither has any spread.
    """
    a, b = finite_sample(first), finite_sample(second)
    if min(a.size, b.size) < 2:
        return None
    freedom = a.size + b.size - 2
    pooled = np.sqrt(((a.size - 1) * np.var(a, ddof=1) + (b.size - 1) * np.var(b, ddof=1))
                     / freedom)
    effect = _standardized_effect(float(np.mean(a) - np.mean(b)), float(pooled), freedom,
                                  a.size * b.size / (a.size + b.size), level)
    return effect and replace(effect, n=a.size + b.size)


def hedges_g_paired(differences: Iterable[float], level: float = LEVEL) -> Estimate | None:
    """Return the mean of paired differences in units of their standard deviation.

    The bias of small samples is removed. Gibbons, Hedeker and Davis (1993), "Estimation of effect
    size from a series of experiments involving paired comparisons", J. of Educational Statistics
    18(3), 271-279. The result is None if all differences are equal, or for fewer than three
    differences. For two differences the bias correction leaves nothing.
    """
    sample = finite_sample(differences)
    if sample.size < 3:
        return None
    effect = _standardized_effect(float(np.mean(sample)), float(np.std(sample, ddof=1)), sample.size
                                  - 1,
                                  sample.size, level)
    return effect and replace(effect, n=sample.size)


def cliffs_delta(first: Iterable[float], second: Iterable[float]) -> float:
    """Return Cliff's delta of two samples, from -1 (all below) to 1 (all above).

    It is the fraction of pairs in which the first sample's value is larger, minus the fraction in
    which that value is smaller. No distribution is assumed. Cliff (1993), "Dominance statistics:
    ordinal analyses to answer ordinal questions", Psychological Bulletin 114(3).

    Raises:
        ValueError: A sample is empty.
    """
    a, b = finite_sample(first), np.sort(finite_sample(second))
    below = np.searchsorted(b, a, side="left").sum()
    above = (b.size - np.searchsorted(b, a, side="right")).sum()
    return float(int(below) - int(above)) / (a.size * b.size)


def magnitude_word(delta: float) -> str:
    """Return an adjective for the size of Cliff's delta, such as "small" or "large".

    The words are negligible, small, medium and large (Romano et al. 2006).
    """
    return next((word for least, word in _MAGNITUDES if abs(delta) >= least), "negligible")


def _standardized_effect(apart: float, spread: float, freedom: int, size: float,
                         level: float) -> Estimate | None:
    """Return Hedges' g with its confidence interval, where t is apart / spread x sqrt(size)."""
    if spread <= 1e-12 * abs(apart):
        return None
    root = float(np.sqrt(size))
    low, high = (float(special.nctdtrinc(freedom, probability, apart / spread * root)) / root
                 for probability in ((1 + level) / 2, (1 - level) / 2))
    middle = _bias_factor(freedom) * apart / spread
    if not low <= middle <= high:  # too many deviations for the inversion
        return Estimate(middle, None, None, freedom)
    return Estimate(middle, low, high, freedom)


def _bias_factor(freedom: int) -> float:
    """Return Hedges' exact factor J, which removes the bias of small samples."""
    logs = float(special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2))
    return float(np.exp(logs) / np.sqrt(freedom / 2))


# --- Comparison of two samples ---

@dataclass(frozen=True)
class Comparison:
    """The result of comparing two samples: their difference, first minus second.

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
    """Compare two samples by the differences of their values with the same block number.

    This is the t test of paired samples: Box, Hunter and Hunter (2005), "Statistics for
    Experimenters", 3.2. Drift from block to block cancels, and with it most of the variation that
    both samples have in common. Therefore `g` is in standard deviations of the differences.

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


def p_value_beyond(differences: Iterable[float], margin: float) -> float | None:
    """Return the p-value for the hypothesis that a mean difference is at most a margin.

    This is the t test of `compare_paired` with the margin in place of 0. So a difference that does
    not matter is never significant, however many blocks there are.

    Args:
        differences: Differences of two samples by block.
        margin: Largest difference, in either direction, that does not matter.

    Returns:
        The p-value. It is 1 if the measured mean is within the margin, and None below two blocks.
    """
    sample = np.fromiter(differences, dtype=np.float64)
    if sample.size < 2:
        return None
    beyond = abs(float(np.mean(sample))) - margin
    if beyond <= 0:
        return 1.0
    return _p_value(beyond, float(np.std(sample, ddof=1) / np.sqrt(sample.size)), sample.size - 1)


def compare_welch(first: Iterable[float], second: Iterable[float],
                  level: float = LEVEL) -> Comparison:
    """Compare two independent samples, which may differ in spread (Welch's t test).

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
    """Return the mean difference over several pairs of samples, and its p-value.

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
    """Return Satterthwaite's degrees of freedom for Welch's t test.

    The terms are divided by their sum, so that they cannot underflow.
    """
    whole = sum(shares)
    return 1 / sum((share / whole)**2 / (size - 1)
                   for share, size in zip(shares, sizes, strict=True))


def _p_value(apart: float, error: float, freedom: float) -> float | None:
    """Return the two-sided p-value of Student's t test.

    Without any spread the p-value is 1 for equal means and 0 otherwise. The result is None below
    one degree of freedom.
    """
    if freedom < 1:
        return None
    if error <= 1e-12 * abs(apart):  # all values equal, except for rounding
        return 1.0 if apart == 0 else 0.0
    return float(2 * special.stdtr(freedom, -abs(apart / error)))
