"""Effect sizes: how much two samples differ, whatever their unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy import special

from analysis.statistics.estimates import LEVEL, Estimate, finite_sample

#: Romano, Kromrey, Coraggio and Skowronek (2006): |Cliff's delta| from which on it is called so.
_MAGNITUDES = ((0.474, "large"), (0.33, "medium"), (0.147, "small"))


def hedges_g(first: Iterable[float], second: Iterable[float],
             level: float = LEVEL) -> Estimate | None:
    """Difference of two means in pooled standard deviations, without the bias of small samples.

    Hedges (1981), "Distribution theory for Glass's estimator of effect size", J. of Educational
    Statistics 6(2), 107-128. The interval inverts the noncentral t distribution (Steiger and
    Fouladi 1997, "Noncentrality interval estimation", in "What If There Were No Significance
    Tests?"). None for fewer than two values a sample, or where neither has any spread.
    """
    a, b = finite_sample(first), finite_sample(second)
    if min(a.size, b.size) < 2:
        return None
    freedom = a.size + b.size - 2
    pooled = np.sqrt(((a.size - 1) * np.var(a, ddof=1) + (b.size - 1) * np.var(b, ddof=1))
                     / freedom)
    effect = _standardized(float(np.mean(a) - np.mean(b)), float(pooled), freedom,
                           a.size * b.size / (a.size + b.size), level)
    return effect and replace(effect, n=a.size + b.size)


def hedges_g_paired(differences: Iterable[float], level: float = LEVEL) -> Estimate | None:
    """Mean of differences within pairs in their own standard deviations, bias removed likewise.

    Gibbons, Hedeker and Davis (1993), "Estimation of effect size from a series of experiments
    involving paired comparisons", J. of Educational Statistics 18(3), 271-279. None for fewer than
    three differences (of two, nothing is left once the bias is removed), or where all are equal.
    """
    sample = finite_sample(differences)
    if sample.size < 3:
        return None
    effect = _standardized(float(np.mean(sample)), float(np.std(sample, ddof=1)), sample.size - 1,
                           sample.size, level)
    return effect and replace(effect, n=sample.size)


def cliffs_delta(first: Iterable[float], second: Iterable[float]) -> float:
    """How often a value of the first sample exceeds one of the second, less how often it is below.

    From -1 (all below) to 1 (all above); asks for no distribution. Cliff (1993), "Dominance
    statistics: ordinal analyses to answer ordinal questions", Psychological Bulletin 114(3).
    Raises ValueError without a value.
    """
    a, b = finite_sample(first), np.sort(finite_sample(second))
    below = np.searchsorted(b, a, side="left").sum()
    above = (b.size - np.searchsorted(b, a, side="right")).sum()
    return float(int(below) - int(above)) / (a.size * b.size)


def magnitude(delta: float) -> str:
    """Cliff's delta in a word: negligible, small, medium or large (Romano et al. 2006)."""
    return next((word for least, word in _MAGNITUDES if abs(delta) >= least), "negligible")


def _standardized(apart: float, spread: float, freedom: int, size: float,
                  level: float) -> Estimate | None:
    """Hedges' g with the interval of what it estimates; t is apart / spread x sqrt(size)."""
    if spread <= 1e-12 * abs(apart):
        return None
    root = float(np.sqrt(size))
    low, high = (float(special.nctdtrinc(freedom, probability, apart / spread * root)) / root
                 for probability in ((1 + level) / 2, (1 - level) / 2))
    middle = _bias(freedom) * apart / spread
    if not low <= middle <= high:  # hundreds of deviations: beyond what can be inverted
        return Estimate(middle, None, None, freedom)
    return Estimate(middle, low, high, freedom)


def _bias(freedom: int) -> float:
    """Hedges' exact factor J: a standardized difference is too large by its inverse."""
    logs = float(special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2))
    return float(np.exp(logs) / np.sqrt(freedom / 2))
