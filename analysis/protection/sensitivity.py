"""How the ranking by sigma moves when the weights move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]  # stubs are optional
from numpy.typing import NDArray

from analysis.protection.design import Design
from analysis.protection.rank_reversal import Swap, smallest_swap
from policies import Policy, Weights

Scheme = Literal["dirichlet", "uniform"]
_Draws = NDArray[np.float64]


@dataclass(frozen=True)
class RankInterval:
    """A policy's rank by sigma, 1 the strongest: with the weights as they are, and perturbed.

    `low` and `high` hold 95 % of the draws; equal sigmas share the mean of their ranks.
    """

    policy: str
    rank: float
    low: float
    high: float


@dataclass(frozen=True)
class Sensitivity:
    """Rank intervals, strongest first; and what swaps each policy with the next stronger one.

    A swap is None where no change of a single weight does it. `kept` is the share of draws that
    left the whole ranking as it is.
    """

    ranks: tuple[RankInterval, ...]
    swaps: tuple[Swap | None, ...]
    kept: float
    draws: int
    spread: float
    scheme: Scheme
    in_order: bool


def sensitivity(policies: Sequence[Policy], weights: Weights, generator: np.random.Generator,
                draws: int = 10_000, spread: float = 0.5, scheme: Scheme = "dirichlet", *,
                in_order: bool = True) -> Sensitivity:
    """Rank intervals of policies under perturbed weights, and the smallest changes that swap two.

    Every weight varies by `spread` of itself. `uniform`: each by itself, evenly within 1 - spread
    and 1 + spread. `dirichlet`: together, with their sum kept, so that what one gains others lose;
    concentrated so that an average weight has `spread` as its coefficient of variation. `in_order`
    keeps the order of the weights of a feature, which is all that a weight says (Agarwal and Wang
    2007, section 3.2). Raises ValueError for a spread that is not between 0 and 1.
    """
    if not 0 < spread < 1:
        raise ValueError(f"a spread of {spread:g} is not between 0 and 1")
    design = Design.of(policies, weights)
    perturbed = _SCHEMES[scheme](design.weights, generator, draws, spread)
    if in_order:
        perturbed = _reorder(perturbed, design)
    plain = _ranks(design.sigmas(design.weights[np.newaxis]))[0]
    ranks = _ranks(design.sigmas(perturbed))
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0, method="inverted_cdf")
    order = sorted(range(len(policies)), key=lambda index: (plain[index], index))
    intervals = tuple(RankInterval(policies[i].id, float(plain[i]), float(low[i]), float(high[i]))
                      for i in order)
    swaps = tuple(smallest_swap(design, above, below)
                  for above, below in pairwise(order))
    unchanged = float((ranks == plain).all(axis=1).mean())
    return Sensitivity(intervals, swaps, unchanged, draws, spread, scheme, in_order)


def _uniform(weights: _Draws, generator: np.random.Generator, draws: int,
             spread: float) -> _Draws:
    return weights * generator.uniform(1 - spread, 1 + spread, size=(draws, weights.size))


def _dirichlet(weights: _Draws, generator: np.random.Generator, draws: int,
               spread: float) -> _Draws:
    """A share p of a Dirichlet has variance p (1 - p) / (concentration + 1)."""
    total = float(weights.sum())
    if weights.size < 2 or total == 0:
        return np.repeat(weights[np.newaxis], draws, axis=0)
    concentration = max((weights.size - 1) / spread**2 - 1, 1e-3)
    shares = generator.dirichlet(concentration * weights / total, size=draws)
    return np.asarray(total * shares)


_SCHEMES = {"uniform": _uniform, "dirichlet": _dirichlet}


def _reorder(perturbed: _Draws, design: Design) -> _Draws:
    """The drawn weights of a feature, put into the order that they had."""
    ordered = perturbed.copy()
    for columns in design.by_feature():
        by_weight = columns[np.argsort(design.weights[columns], kind="stable")]
        ordered[:, by_weight] = np.sort(perturbed[:, by_weight], axis=1)
    return ordered


def _ranks(sigmas: _Draws) -> _Draws:
    """Ranks along the rows, 1 the largest, equal ones at their mean; shape as given."""
    # Sums of the same weights in another order differ in their last bits.
    return np.asarray(pd.DataFrame(-np.round(sigmas, 9)).rank(axis=1))
