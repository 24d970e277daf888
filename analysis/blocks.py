"""Functions of several cells' means with confidence intervals, computed within blocks.

Cells are compared within blocks: only repetitions that every involved cell has are used. So drift
from block to block affects all cells equally. The interval is the jackknife's. For a linear
function (a difference, a mean over scenarios) it equals Student's t interval of the values by
block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from analysis.cells import Key, Observation
from analysis.statistics import LEVEL, Estimate, Sample

#: Observations by the value's name and the ids of the cell's levels.
Observations: TypeAlias = Mapping[Key, Observation]
#: Function that reduces the last axis (means by cell) to one number, also for many rows at once.
Function: TypeAlias = Callable[[Sample], Any]


def apply_to_means(observations: Observations, keys: Sequence[Key], function: Function,
                   level: float = LEVEL) -> Estimate | None:
    """Return a function of the cells' means with its interval.

    With fewer than two common blocks (published values have none) there is no interval. Then the
    means are those of each cell by itself.

    Args:
        observations: All observations, by name and cell.
        keys: The cells, in the order that the function expects.
        function: Reduces the means, in the order of `keys`, to one number.
        level: Confidence level of the interval.

    Returns:
        The estimate; None where a cell has no number.
    """
    asked = find_observations(observations, keys)
    if not asked:
        return None
    blocks = common_blocks(asked)
    if len(blocks) < 2:
        means = np.array([observation.estimate.mean for observation in asked])
        return Estimate(float(function(means)), None, None, len(blocks))
    return jackknife_estimate(blocks, function, level)


def jackknife_estimate(blocks: Sample, function: Function, level: float = LEVEL) -> Estimate:
    """Return a function of column means with its jackknife interval.

    `blocks` has a row per block and a column per cell. The interval comes from leaving out one
    block at a time: Tukey's pseudo-values with Student's t. Sources: Miller (1974), "The jackknife
    - a review", Biometrika 61(1), 1-15; Efron and Tibshirani (1993), "An Introduction to the
    Bootstrap", chapter 11.
    """
    count = len(blocks)
    whole = float(function(blocks.mean(axis=0)))
    if count < 2:
        return Estimate(whole, None, None, count)
    without = np.asarray(function((blocks.sum(axis=0) - blocks) / (count - 1)))
    pseudo = count * whole - (count - 1) * without
    quantile = float(special.stdtrit(count - 1, (1 + level) / 2))
    half = quantile * float(np.std(pseudo, ddof=1)) / float(np.sqrt(count))
    return Estimate(whole, whole - half, whole + half, count)


def ratio_of_means(observations: Observations, above: Sequence[Key], below: Sequence[Key],
                   level: float = LEVEL) -> Estimate | None:
    """Return the ratio of the mean over some cells to the mean over others.

    The interval is Fieller's, by blocks. The result is None where a cell has no number or the
    divisor is 0. There is no interval where the divisor cannot be distinguished from 0, because
    then any ratio is possible.
    """
    asked, middle = find_observations(observations, [*above, *below]), len(above)
    if not asked or not above or not below:
        return None
    blocks = common_blocks(asked)
    if len(blocks) < 2:
        means = np.array([observation.estimate.mean for observation in asked])
        divisor = float(means[middle:].mean())
        return Estimate(float(means[:middle].mean()) / divisor, None, None, len(blocks)) \
            if divisor else None
    return fieller_ratio(blocks[:, :middle].mean(axis=1), blocks[:, middle:].mean(axis=1), level)


def fieller_ratio(above: Sample, below: Sample, level: float = LEVEL) -> Estimate | None:
    """Return the ratio of two means of paired values with Fieller's interval.

    Both samples have the same shape and at least two values. Fieller (1954), "Some problems in
    interval estimation", J. R. Stat. Soc. B 16(2), 175-185: the interval has all ratios r for which
    the interval of the mean of above - r x below contains 0.
    """
    count = above.size
    if not below.mean():
        return None
    whole = float(above.mean() / below.mean())
    quantile = float(special.stdtrit(count - 1, (1 + level) / 2))
    scale = quantile**2 / count
    divisor = float(below.mean()**2 - scale * np.var(below, ddof=1))
    if divisor <= 0:
        return Estimate(whole, None, None, count)
    covariance = float(np.cov(above, below, ddof=1)[0, 1])
    middle = float(above.mean() * below.mean() - scale * covariance)
    inside = middle**2 - divisor * float(above.mean()**2 - scale * np.var(above, ddof=1))
    half = max(inside, 0.0) ** 0.5
    return Estimate(whole, (middle - half) / divisor, (middle + half) / divisor, count)


def mean_of(means: Sample) -> Any:
    """Return the mean over cells (the last axis)."""
    return means.mean(axis=-1)


def mean_over(observations: Observations, keys: Sequence[Key],
              level: float = LEVEL) -> Observation | None:
    """Return the mean of some values, with the records of all of them.

    The result is None where one of the values has no number.
    """
    estimate = apply_to_means(observations, keys, mean_of, level)
    if estimate is None:
        return None
    records = tuple(name for key in keys for name in observations[key].records)
    return Observation(estimate, {}, records, observations[keys[0]].origin)


def find_observations(observations: Observations, keys: Sequence[Key]) -> list[Observation]:
    """Return the observations of all keys, in their order.

    The list is empty if any observation is missing.
    """
    asked = [observations[key] for key in keys if key in observations]
    return asked if len(asked) == len(keys) else []


def common_blocks(observations: Sequence[Observation]) -> Sample:
    """Return the values of the blocks that all observations share.

    The array has a row per block and a column per observation.
    """
    common = set(observations[0].blocks)
    for observation in observations[1:]:
        common &= observation.blocks.keys()
    return np.array([[observation.blocks[block] for observation in observations]
                     for block in sorted(common)],
                    dtype=np.float64).reshape(len(common), len(observations))
