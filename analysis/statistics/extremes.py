"""Intervals for extremes of several means, valid although the data picked the means.

The best and the worst of several equal means differ by chance, and always upwards. So the interval
is made from the differences of all pairs. These hold together at the interval's level, whichever
pair is the extreme one.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy import special

from analysis.statistics.estimates import LEVEL, Estimate, Sample

#: Number of points of each integral, and its range around the mean in standard deviations.
_NODES, _REACH = 160, 9.0


def relative_spread(blocks: Sample, level: float = LEVEL) -> Estimate:
    """Return the relative excess of the largest mean: largest / smallest - 1.

    `blocks` has a row per block and a column per cell. It needs at least two rows and two columns,
    and all values above 0. The method is Tukey's intervals of the logarithms within blocks, for
    cells with equal variance. Hochberg and Tamhane (1987), "Multiple Comparison Procedures",
    chapters 3 and 8. In simulations, twelve equal cells reach their nominal level. If one cell
    varies three or four times as much as the others, 95 % intervals hold in 85 % of cases.
    """
    count, cells = blocks.shape
    means = blocks.mean(axis=0)
    excess = float(means.max() / means.min() - 1)
    logs = np.log(blocks)
    columns = logs.mean(axis=0)
    residuals = logs - logs.mean(axis=1, keepdims=True) - columns + logs.mean()
    freedom = (count - 1) * (cells - 1)
    half = (studentized_range(level, cells, freedom)
            * float(np.sqrt(np.square(residuals).sum() / freedom / count)))
    between = float(columns.max() - columns.min())
    return Estimate(excess, float(np.expm1(max(0.0, between - half))),
                    float(np.expm1(between + half)), count)


@cache
def studentized_range(level: float, cells: int, freedom: int) -> float:
    """Return the quantile of the studentized range of equal means.

    The range is in units of the estimated standard error. The result agrees with
    scipy.stats.studentized_range.ppf to 1e-9. That function takes a second to import and integrate,
    which is a seventh of the time for a report of 5000 records.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    normal = _REACH * nodes
    tail = special.ndtr(normal)
    of_normal = _REACH * weights * np.exp(-normal**2 / 2) / math.sqrt(2 * math.pi)
    # Estimated by true standard error: chi divided by the square root of its degrees of freedom.
    reach = _REACH / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - reach), 1 + reach
    errors = (low + high) / 2 + (high - low) / 2 * nodes
    logs = ((freedom - 1) * np.log(errors) - freedom * errors**2 / 2 + freedom / 2
            * math.log(freedom) - math.lgamma(freedom / 2) - (freedom / 2 - 1) * math.log(2))
    of_errors = (high - low) / 2 * weights * np.exp(logs)

    def below(value: float) -> float:
        inside = tail - special.ndtr(normal - value * errors[:, np.newaxis])
        return float(cells * of_errors @ (inside**(cells - 1) @ of_normal))

    least, most = 0.0, 1.0
    while below(most) < level:
        least, most = most, 2 * most
    while most - least > 1e-10 * most:
        middle = (least + most) / 2
        least, most = (middle, most) if below(middle) < level else (least, middle)
    return most
