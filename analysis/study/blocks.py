"""What is asked of several cells at once: any function of their means, with its interval.

Cells are compared within blocks: only repetitions enter that every cell of the question has, so
that what drifts from block to block touches all alike. The interval is the jackknife's, which for
a linear function (a difference, a mean over scenarios) is Student's t of the values by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from analysis.statistics import LEVEL, Estimate, Sample
from analysis.study.model import Observation, Place, Study

Cell: TypeAlias = tuple[str, str, str]  # metric, policy, scenario
#: Reduces the last axis, of means by cell, to one number; for many rows at once, too.
Function: TypeAlias = Callable[[Sample], Any]


def ask(study: Study, cells: Sequence[Cell], function: Function,
        level: float = LEVEL) -> Estimate | None:
    """The function of the cells' means, in their order; None where a cell has no number.

    Without two common blocks (published values have none) there is no interval, and the means are
    those of each cell by itself.
    """
    found = [study.observations.get(cell) for cell in cells]
    observations = [one for one in found if one is not None]
    if len(observations) < len(cells) or not cells:
        return None
    blocks = _blocks(observations)
    if len(blocks) < 2:
        means = np.array([one.estimate.mean for one in observations])
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


def ratio(study: Study, above: Sequence[Cell], below: Sequence[Cell],
          level: float = LEVEL) -> Estimate | None:
    """The mean of some cells divided by that of others, with Fieller's interval, by blocks.

    None where a cell has no number, or what it is divided by is 0; without an interval also where
    what it is divided by cannot be told from 0, as then any ratio is possible.
    """
    cells, middle = [*above, *below], len(above)
    found = [study.observations.get(cell) for cell in cells]
    observations = [one for one in found if one is not None]
    if len(observations) < len(cells) or not above or not below:
        return None
    blocks = _blocks(observations)
    if len(blocks) < 2:
        means = np.array([one.estimate.mean for one in observations])
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


def over(study: Study, metric: str, policy: str, places: Iterable[Place]) -> Observation | None:
    """A metric of a policy as the mean over scenarios, of those that anybody has it in.

    None where the policy lacks one of them, so that all policies' means are over the same ones.
    """
    cells = [(metric, policy, place.id) for place in measured_places(study, metric, places)]
    estimate = ask(study, cells, mean_of)
    if estimate is None:
        return None
    records = tuple(name for cell in cells for name in study.observations[cell].records)
    return Observation(estimate, {}, records)


def measured_places(study: Study, metric: str, places: Iterable[Place]) -> list[Place]:
    """The scenarios in which any policy has a number for the metric."""
    there = {scenario for name, _, scenario in study.observations if name == metric}
    return [place for place in places if place.id in there]


def _blocks(observations: Sequence[Observation]) -> Sample:
    common = set(observations[0].blocks)
    for one in observations[1:]:
        common &= one.blocks.keys()
    return np.array([[one.blocks[block] for one in observations] for block in sorted(common)],
                    dtype=np.float64).reshape(len(common), len(observations))
