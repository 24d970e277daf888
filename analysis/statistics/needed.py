"""How many repetitions it takes to decide, from what the first ones say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
from scipy import special

from analysis.statistics.estimates import LEVEL, Estimate, finite_sample

#: `different`: the interval is on one side of 0. `equivalent`: it lies within the margin that does
#: not matter. `undecided`: neither.
Outcome = Literal["different", "equivalent", "undecided"]
#: Probability with which as many repetitions as are asked for decide.
POWER = 0.8
MOST = 1000
# Noncentrality from which on the power is 1 in every digit; the distribution's sum fails beyond.
_SURE = 30.0


def decided(difference: Estimate, margin: float = 0.0) -> Outcome:
    """What an interval of a difference decides; `margin`, in its unit, is what does not matter.

    The interval's inclusion in the margin is Schuirmann's test of equivalence (1987), "A comparison
    of the two one-sided tests procedure and the power approach", J. of Pharmacokinetics and
    Biopharmaceutics 15(6), 657-680, with half of the error on each side.
    """
    if difference.low is None or difference.high is None:
        return "undecided"
    if not difference.spans_zero:
        return "different"
    return "equivalent" if max(-difference.low, difference.high) <= margin else "undecided"


def pairs_needed(effect: float, margin: float = 0.0, level: float = LEVEL, power: float = POWER,
                 most: int = MOST) -> int | None:
    """Pairs of which at least `power` of all such experiments decide; None beyond `most`.

    `effect` is the true mean difference and `margin` what does not matter, both in standard
    deviations of a difference. The power of Student's t test is exact (noncentral t: Cohen 1988,
    "Statistical Power Analysis for the Behavioral Sciences", chapter 2); that of equivalence is a
    lower bound, from its two one-sided tests (Phillips 1990, J. of Pharmacokinetics and
    Biopharmaceutics 18(2), 137-144).
    """
    def enough(count: int) -> bool:
        return max(_power_of_difference(abs(effect), count, level),
                   _power_of_equivalence(abs(effect), margin, count, level)) >= power

    return _first(enough, most)


def repetitions_to_decide(differences: Iterable[float], margin: float = 0.0, level: float = LEVEL,
                          power: float = POWER, most: int = MOST) -> int | None:
    """Further blocks until the differences will probably be decided; None beyond `most` in all.

    It takes the mean and the spread seen so far for the true ones, so after a few blocks it is a
    rough guess: measure some of them and ask again. None for fewer than two differences; raises
    ValueError without any.
    """
    sample = finite_sample(differences)
    if sample.size < 2:
        return None
    middle, spread = float(np.mean(sample)), float(np.std(sample, ddof=1))
    if spread <= 1e-12 * abs(middle) or spread == 0:
        return 0
    pairs = pairs_needed(middle / spread, margin / spread, level, power, most)
    return None if pairs is None else max(0, pairs - sample.size)


def _first(enough: Callable[[int], bool], most: int) -> int | None:
    """The first number from 2 on that is enough, of a condition that stays met."""
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
    """Probability that the t interval of `count` differences lies on the right side of 0."""
    critical = float(special.stdtrit(count - 1, (1 + level) / 2))
    return 1 - _below(critical, count, effect * float(np.sqrt(count)))


def _power_of_equivalence(effect: float, margin: float, count: int, level: float) -> float:
    """At least the probability that the interval lies within the margin."""
    if effect >= margin:
        return 0.0
    critical = float(special.stdtrit(count - 1, (1 + level) / 2))
    root = float(np.sqrt(count))
    return 1 - sum(_below(critical, count, (margin + sign * effect) * root) for sign in (-1, 1))


def _below(t: float, count: int, shift: float) -> float:
    """Distribution function of noncentral t, for a `t` and a `shift` that are not negative."""
    if shift > _SURE:
        return 0.0 if t < shift / 2 else 1.0
    return float(special.nctdtr(count - 1, shift, t))
