"""Compute differences, ratios and other functions of cells' means, with confidence intervals.

A cell is one measured combination, such as one policy in one scenario. A block is one repetition
(measurement) of every cell. `apply_to_means` takes the measured values of several cells and a
function, such as a difference. It returns the function's value with its confidence interval.

Only blocks that all these cells have are used, so a drift during the run affects all cells equally.
The interval is computed by the jackknife method. For a linear function (a difference, a mean over
scenarios) it equals Student's t interval of the values by block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from analysis.cells import Key, Observation
from analysis.statistics import LEVEL, Estimate, Sample, mean

#: Observations by the value's name and the ids of the cell's levels.
Observations: TypeAlias = Mapping[Key, Observation]
#: Function that reduces the last axis (means by cell) to one number, also for many rows at once.
Function: TypeAlias = Callable[[Sample], Any]


def apply_to_means(observations: Observations, keys: Sequence[Key], function: Function,
                   level: float = LEVEL) -> Estimate | None:
    """Return a function of several cells' means, with its confidence interval.

    With fewer than two common blocks (published values have none) there is no interval. Then the
    mean of each cell is over the cell's own repetitions.

    Args:
        observations: All observations, by name and cell.
        keys: The cells, in the order that the function expects.
        function: Reduces the means, in the order of `keys`, to one number.
        level: Confidence level of the interval.

    Returns:
        The estimate; None where a cell has no number.
    """
    chosen = find_observations(observations, keys)
    if not chosen:
        return None
    blocks = common_blocks(chosen)
    if len(blocks) < 2:
        means = np.array([observation.estimate.mean for observation in chosen])
        return Estimate(float(function(means)), None, None, len(blocks))
    return jackknife_estimate(blocks, function, level)


def jackknife_estimate(blocks: Sample, function: Function, level: float = LEVEL) -> Estimate:
    """Return a function of column means, with its jackknife confidence interval.

    `blocks` has a row per block (one repetition of everything) and a column per cell. The interval
    comes from leaving out one block at a time: Tukey's pseudo-values with Student's t. Sources:
    Miller (1974), "The jackknife - a review", Biometrika 61(1), 1-15; Efron and Tibshirani (1993),
    "An Introduction to the Bootstrap", chapter 11.
    """
    count = len(blocks)
    value = float(function(blocks.mean(axis=0)))
    if count < 2:
        return Estimate(value, None, None, count)
    without = np.asarray(function((blocks.sum(axis=0) - blocks) / (count - 1)))
    pseudo = count * value - (count - 1) * without
    quantile = float(special.stdtrit(count - 1, (1 + level) / 2))
    half = quantile * float(np.std(pseudo, ddof=1)) / float(np.sqrt(count))
    return Estimate(value, value - half, value + half, count)


def ratio_of_means(observations: Observations, above: Sequence[Key], below: Sequence[Key],
                   level: float = LEVEL) -> Estimate | None:
    """Return the ratio of two means with Fieller's confidence interval.

    Each mean is over some cells, block by block. The result is None where a cell has no number or
    the divisor is 0. The interval has no end where the divisor cannot be distinguished from 0. If
    the dividend can, ratios near 0 are still excluded.
    """
    chosen, middle = find_observations(observations, [*above, *below]), len(above)
    if not chosen or not above or not below:
        return None
    blocks = common_blocks(chosen)
    if len(blocks) < 2:
        means = np.array([observation.estimate.mean for observation in chosen])
        divisor = float(means[middle:].mean())
        return Estimate(float(means[:middle].mean()) / divisor, None, None, len(blocks)) \
            if divisor else None
    return fieller_ratio(blocks[:, :middle].mean(axis=1), blocks[:, middle:].mean(axis=1), level)


def fieller_ratio(above: Sample, below: Sample, level: float = LEVEL) -> Estimate | None:
    """Return the ratio of two means of paired values with Fieller's interval.

    Both samples have the same shape and at least two values. Fieller (1954), "Some problems in
    interval estimation", J. R. Stat. Soc. B 16(2), 175-185: the interval has all ratios r for which
    the interval of the mean of above - r x below contains 0. Where the mean of `below` may be 0,
    these are all ratios, or all but those between two numbers (`excluded`).
    """
    count = above.size
    if not below.mean():
        return None
    ratio = float(above.mean() / below.mean())
    quantile = float(special.stdtrit(count - 1, (1 + level) / 2))
    scale = quantile**2 / count
    divisor = float(below.mean()**2 - scale * np.var(below, ddof=1))
    covariance = float(np.cov(above, below, ddof=1)[0, 1])
    middle = float(above.mean() * below.mean() - scale * covariance)
    inside = middle**2 - divisor * float(above.mean()**2 - scale * np.var(above, ddof=1))
    half = max(inside, 0.0) ** 0.5
    if divisor > 0:
        return Estimate(ratio, (middle - half) / divisor, (middle + half) / divisor, count)
    excluded = ((middle + half) / divisor, (middle - half) / divisor) if divisor and half else None
    return Estimate(ratio, None, None, count, excluded)


def mean_of(means: Sample) -> Any:
    """Return the mean of an array over its last axis (the cells)."""
    return means.mean(axis=-1)


def mean_over(observations: Observations, keys: Sequence[Key],
              level: float = LEVEL) -> Observation | None:
    """Return the mean of several measured values, with the names of all their records.

    The result is None where one of the values has no number.
    """
    estimate = apply_to_means(observations, keys, mean_of, level)
    if estimate is None:
        return None
    records = tuple(name for key in keys for name in observations[key].records)
    return Observation(estimate, {}, records, observations[keys[0]].origin)


def find_observations(observations: Observations, keys: Sequence[Key]) -> list[Observation]:
    """Return the measured values with these keys, in their order.

    The list is empty if any value is missing.
    """
    chosen = [observations[key] for key in keys if key in observations]
    return chosen if len(chosen) == len(keys) else []


def common_blocks(observations: Sequence[Observation]) -> Sample:
    """Return the values of those blocks (repetition numbers) that all observations have.

    The array has a row per block and a column per observation.
    """
    common = list_common_blocks(observations)
    return np.array([[observation.blocks[block] for observation in observations]
                     for block in common],
                    dtype=np.float64).reshape(len(common), len(observations))


def list_common_blocks(observations: Sequence[Observation]) -> list[int]:
    """Return the repetition numbers that all observations have, in ascending order."""
    common = set(observations[0].blocks)
    for observation in observations[1:]:
        common &= observation.blocks.keys()
    return sorted(common)


def keep_blocks(observations: Sequence[Observation],
                blocks: Sequence[int]) -> list[Observation]:
    """Return copies of observations with only some of their blocks (repetition numbers).

    All observations must have these blocks, and there must be at least one.
    """
    suffixes = {f"{block:03d}" for block in blocks}
    return [replace(observation, estimate=mean(values.values()), blocks=values,
                    records=tuple(name for name in observation.records
                                  if name.rpartition("-")[2] in suffixes))
            for observation in observations
            for values in [{block: observation.blocks[block] for block in blocks}]]
