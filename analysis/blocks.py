"""Blocks make a function of several cells' means comparable, and give it an interval.

Cells are compared within blocks: only repetitions enter that every cell of the question has, so
that what drifts from block to block touches all alike. The interval is the jackknife's, which for
a linear function (a difference, a mean over scenarios) is Student's t of the values by block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from analysis.cells import Key, Observation
from analysis.statistics import LEVEL, Estimate, Sample

#: What was observed, by a value's name and the ids of the cell's levels.
Observations: TypeAlias = Mapping[Key, Observation]
#: Reduces the last axis, of means by cell, to one number; for many rows at once, too.
Function: TypeAlias = Callable[[Sample], Any]


def ask(observations: Observations, keys: Sequence[Key], function: Function,
        level: float = LEVEL) -> Estimate | None:
    """The function of the cells' means, in their order; None where a cell has no number.

    Without two common blocks (published values have none) there is no interval, and the means are
    those of each cell by itself.
    """
    asked = every(observations, keys)
    if not asked:
        return None
    blocks = common_blocks(asked)
    if len(blocks) < 2:
        means = np.array([observation.estimate.mean for observation in asked])
        return Estimate(float(function(means)), None, None, len(blocks))
    return jackknife(blocks, function, level)


def jackknife(blocks: Sample, function: Function, level: float = LEVEL) -> Estimate:
    """A function of column means, with an interval from leaving out one block after the other.

    `blocks` has a row a block and a column a cell. Tukey's pseudo-values with Student's t: Miller
    (1974), "The jackknife - a review", Biometrika 61(1), 1-15; Efron and Tibshirani (1993), "An
    Introduction to the Bootstrap", chapter 11.
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


def ratio(observations: Observations, above: Sequence[Key], below: Sequence[Key],
          level: float = LEVEL) -> Estimate | None:
    """The mean of some cells divided by that of others, with Fieller's interval, by blocks.

    None where a cell has no number, or what it is divided by is 0; without an interval also where
    what it is divided by cannot be told from 0, as then any ratio is possible.
    """
    asked, middle = every(observations, [*above, *below]), len(above)
    if not asked or not above or not below:
        return None
    blocks = common_blocks(asked)
    if len(blocks) < 2:
        means = np.array([observation.estimate.mean for observation in asked])
        divisor = float(means[middle:].mean())
        return Estimate(float(means[:middle].mean()) / divisor, None, None, len(blocks)) \
            if divisor else None
    return fieller(blocks[:, :middle].mean(axis=1), blocks[:, middle:].mean(axis=1), level)


def fieller(above: Sample, below: Sample, level: float = LEVEL) -> Estimate | None:
    """The ratio of two means of pairs; both samples of one shape, two values or more.

    Fieller (1954), "Some problems in interval estimation", J. R. Stat. Soc. B 16(2), 175-185: all
    ratios r for which the interval of the mean of above - r x below holds 0.
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
    """The mean over cells."""
    return means.mean(axis=-1)


def mean_over(observations: Observations, keys: Sequence[Key],
              level: float = LEVEL) -> Observation | None:
    """The mean of some values with all records behind it; None where one has no number."""
    estimate = ask(observations, keys, mean_of, level)
    if estimate is None:
        return None
    records = tuple(name for key in keys for name in observations[key].records)
    return Observation(estimate, {}, records, observations[keys[0]].origin)


def every(observations: Observations, keys: Sequence[Key]) -> list[Observation]:
    """What was observed of each of these, in their order; nothing where one has no number."""
    asked = [observations[key] for key in keys if key in observations]
    return asked if len(asked) == len(keys) else []


def common_blocks(observations: Sequence[Observation]) -> Sample:
    """The blocks that all have: a row a block and a column an observation."""
    common = set(observations[0].blocks)
    for observation in observations[1:]:
        common &= observation.blocks.keys()
    return np.array([[observation.blocks[block] for observation in observations]
                     for block in sorted(common)],
                    dtype=np.float64).reshape(len(common), len(observations))
