"""Estimate from the first repetitions how many more are needed to decide on a difference.

A repetition is one measurement. `decide_outcome` says whether a difference of two means is real,
negligible or undecided, from its confidence interval. For an undecided one, `repetitions_to_decide`
takes the differences measured so far. It returns how many more repetitions will probably suffice,
or None if there are too many. `pairs_needed` computes this number from a known effect size (power
analysis).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
from scipy import special

from analysis.statistics.estimates import LEVEL, Estimate, finite_sample

#: `different`: the interval is on one side of 0. `equivalent`: the interval lies within the margin
#: that does not matter. `undecided`: neither.
Outcome = Literal["different", "equivalent", "undecided"]
#: Probability that the estimated number of repetitions is sufficient.
POWER = 0.8
MAX_REPETITIONS = 1000
# Noncentrality above which the power is 1 to all digits; scipy's sum fails beyond it.
_SURE = 30.0


def decide_outcome(difference: Estimate, margin: float = 0.0) -> Outcome:
    """Decide from a confidence interval whether a difference is real, negligible or open.

    `margin` is the difference that does not matter, in the same unit. An interval within the margin
    is Schuirmann's test of equivalence, with half of the error on each side.

    Schuirmann (1987), "A comparison of the two one-sided tests procedure and the power approach",
    J. of Pharmacokinetics and Biopharmaceutics 15(6), 657-680.
    """
    if difference.low is None or difference.high is None:
        return "undecided"
    if not difference.spans_zero:
        return "different"
    return "equivalent" if max(-difference.low, difference.high) <= margin else "undecided"


def pairs_needed(effect: float, margin: float = 0.0, level: float = LEVEL, power: float = POWER,
                 most: int = MAX_REPETITIONS) -> int | None:
    """Return how many pairs of values a comparison needs to decide with probability `power`.

    The power of Student's t test is exact (noncentral t: Cohen 1988, "Statistical Power Analysis
    for the Behavioral Sciences", chapter 2). The power of the equivalence test is a lower bound
    from its two one-sided tests (Phillips 1990, J. of Pharmacokinetics and Biopharmaceutics 18(2),
    137-144).

    Args:
        effect: True mean difference, in standard deviations of a difference.
        margin: Difference that does not matter, in the same unit.
        level: Confidence level of the interval.
        power: Probability of a decision.
        most: Largest number of pairs to consider.

    Returns:
        The number of pairs; None if more than `most` are needed.
    """
    def enough(count: int) -> bool:
        return max(_power_of_difference(abs(effect), count, level),
                   _power_of_equivalence(abs(effect), margin, count, level)) >= power

    return _smallest_sufficient(enough, most)


def repetitions_to_decide(differences: Iterable[float], margin: float = 0.0, level: float = LEVEL,
                          power: float = POWER, most: int = MAX_REPETITIONS) -> int | None:
    """Return how many more repetitions will probably decide whether a difference is real.

    The mean and the spread so far are taken as the true ones. After a few repetitions this is a
    rough guess, so measure some of them and estimate again. The result is None if more than `most`
    repetitions in all are needed, and for fewer than two differences. `margin` is the largest
    difference that does not matter. `level` is the confidence level, and `power` the probability to
    detect the difference.

    Raises:
        ValueError: There is no difference, or one is not finite.
    """
    sample = finite_sample(differences)
    if sample.size < 2:
        return None
    middle, spread = float(np.mean(sample)), float(np.std(sample, ddof=1))
    if spread <= 1e-12 * abs(middle) or spread == 0:
        return 0
    pairs = pairs_needed(middle / spread, margin / spread, level, power, most)
    return None if pairs is None else max(0, pairs - sample.size)


def _smallest_sufficient(enough: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest number from 2 to `most` for which a condition holds, or None.

    If the condition holds for a number, it must hold for all larger numbers too.
    """
    high = 2
    while not enough(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = max(1, high // 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _power_of_difference(effect: float, count: int, level: float) -> float:
    """Return the probability that the t interval of `count` differences excludes 0.

    Only intervals on the side of the effect count.
    """
    critical = float(special.stdtrit(count - 1, (1 + level) / 2))
    return 1 - _noncentral_t_cdf(critical, count, effect * float(np.sqrt(count)))


def _power_of_equivalence(effect: float, margin: float, count: int, level: float) -> float:
    """Return a lower bound of the probability that the interval lies within the margin."""
    if effect >= margin:
        return 0.0
    critical = float(special.stdtrit(count - 1, (1 + level) / 2))
    root = float(np.sqrt(count))
    return 1 - sum(_noncentral_t_cdf(critical, count, (margin + sign * effect) * root) for sign
                   in (-1, 1))


def _noncentral_t_cdf(t: float, count: int, shift: float) -> float:
    """Return the distribution function of the noncentral t, for non-negative arguments."""
    if shift > _SURE:
        return 0.0 if t < shift / 2 else 1.0
    return float(special.nctdtr(count - 1, shift, t))
