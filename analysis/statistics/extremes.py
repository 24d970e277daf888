"""Extremes of several means get intervals that hold although the data chose which means they are.

The best and the worst of several that are equal differ by chance, always upwards. So the interval
is made of the differences of all pairs, which hold together at its level: whichever pair it is.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from analysis.statistics.estimates import LEVEL, Estimate, Sample


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
    half = (_studentized_range(level, cells, freedom)
            * float(np.sqrt(np.square(residuals).sum() / freedom / count)))
    between = float(columns.max() - columns.min())
    return Estimate(excess, float(np.expm1(max(0.0, between - half))),
                    float(np.expm1(between + half)), count)


@cache
def _studentized_range(level: float, cells: int, freedom: int) -> float:
    from scipy import stats  # slow to import, and only this function needs it

    return float(stats.studentized_range.ppf(level, cells, freedom))
