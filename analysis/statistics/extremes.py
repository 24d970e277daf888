"""Extremes of several means get intervals that hold although the data chose which means they are.

The best and the worst of several that are equal differ by chance, always upwards. So the interval
is made of the differences of all pairs, which hold together at its level: whichever pair it is.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy import special

from analysis.statistics.estimates import LEVEL, Estimate, Sample

#: Points of each integral, and how far from the middle they go, in standard deviations.
_NODES, _REACH = 160, 9.0


def spread(blocks: Sample, level: float = LEVEL) -> Estimate:
    """By which share the largest of some means exceeds the smallest: largest / smallest - 1.

    `blocks` has a row a block and a column a cell, all above 0; two rows and two columns at least.
    Tukey's intervals of the logarithms within blocks, for cells that vary alike: Hochberg and
    Tamhane (1987), "Multiple Comparison Procedures", chapters 3 and 8. Twelve equal cells get their
    level; where one varies three or four times as much as the others, 95 % hold 85 %.
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
    """The quantile of the range of so many equal means, in their estimated standard error.

    To 1e-9, as scipy.stats.studentized_range.ppf has it, which takes a second to import and to
    integrate: a seventh of the report of 5000 records.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    normal = _REACH * nodes
    tail = special.ndtr(normal)
    of_normal = _REACH * weights * np.exp(-normal**2 / 2) / math.sqrt(2 * math.pi)
    # The standard error by its true value: a chi over the root of its degrees of freedom.
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
