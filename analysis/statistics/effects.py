"""Effect sizes, which measure the difference of two samples without units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy import special

from analysis.statistics.estimates import LEVEL, Estimate, finite_sample

#: Lower limits of |Cliff's delta| for each word (Romano, Kromrey, Coraggio and Skowronek 2006).
_MAGNITUDES = ((0.474, "large"), (0.33, "medium"), (0.147, "small"))


def hedges_g(first: Iterable[float], second: Iterable[float],
             level: float = LEVEL) -> Estimate | None:
    """Return the difference of two means in pooled standard deviations (Hedges' g).

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
    """Return the mean of differences within pairs in their standard deviations.

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

    It is the share of pairs in which the first sample's value is larger, minus the share in which
    that value is smaller. No distribution is assumed. Cliff (1993), "Dominance statistics: ordinal
    analyses to answer ordinal questions", Psychological Bulletin 114(3).

    Raises:
        ValueError: A sample is empty.
    """
    a, b = finite_sample(first), np.sort(finite_sample(second))
    below = np.searchsorted(b, a, side="left").sum()
    above = (b.size - np.searchsorted(b, a, side="right")).sum()
    return float(int(below) - int(above)) / (a.size * b.size)


def magnitude_word(delta: float) -> str:
    """Return the word for the size of Cliff's delta.

    The words are negligible, small, medium and large (Romano et al. 2006).
    """
    return next((word for least, word in _MAGNITUDES if abs(delta) >= least), "negligible")


def _standardized_effect(apart: float, spread: float, freedom: int, size: float,
                         level: float) -> Estimate | None:
    """Return Hedges' g with its interval, where t is apart / spread x sqrt(size)."""
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
    """Return Hedges' exact factor J, which removes the bias of a standardized difference."""
    logs = float(special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2))
    return float(np.exp(logs) / np.sqrt(freedom / 2))
