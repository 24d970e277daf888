"""Sensitivity of the ranking by sigma to changes of the weights."""

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
    """The rank of a policy by sigma with its interval under perturbed weights.

    Rank 1 is the strongest. `low` and `high` enclose 95 % of the draws. Equal sigmas share the mean
    of their ranks.
    """

    policy: str
    rank: float
    low: float
    high: float


@dataclass(frozen=True)
class Sensitivity:
    """Rank intervals of policies and the swaps of neighbouring policies.

    The strongest policy is first. A swap is None where no change of a single weight swaps the two
    policies. `kept` is the share of draws that leave the whole ranking unchanged.
    """

    ranks: tuple[RankInterval, ...]
    swaps: tuple[Swap | None, ...]
    kept: float
    draws: int
    spread: float
    scheme: Scheme
    in_order: bool


def rank_sensitivity(policies: Sequence[Policy], weights: Weights, generator: np.random.Generator,
                     draws: int = 10_000, spread: float = 0.5, scheme: Scheme = "dirichlet", *,
                     in_order: bool = True) -> Sensitivity:
    """Return rank intervals under perturbed weights, and the smallest changes that swap two.

    Args:
        policies: The policies to rank.
        weights: The weights of features and implementations.
        generator: The source of random numbers.
        draws: Number of perturbed sets of weights.
        spread: Share by which every weight varies, between 0 and 1.
        scheme: `uniform` varies each weight independently and evenly from 1 - spread to 1 + spread.
            `dirichlet` varies them together and keeps their sum, so that one weight gains what
            others lose. An average weight then has `spread` as its coefficient of variation.
        in_order: Keep the order of the weights of a feature. Only this order is meaningful (Agarwal
            and Wang 2007, section 3.2).

    Raises:
        ValueError: The spread is not between 0 and 1.
    """
    if not 0 < spread < 1:
        raise ValueError(f"a spread of {spread:g} is not between 0 and 1")
    design = Design.from_policies(policies, weights)
    perturbed = _SCHEMES[scheme](design.weights, generator, draws, spread)
    if in_order:
        perturbed = _restore_order(perturbed, design)
    plain = _rank_sigmas(design.compute_sigmas(design.weights[np.newaxis]))[0]
    ranks = _rank_sigmas(design.compute_sigmas(perturbed))
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0, method="inverted_cdf")
    order = sorted(range(len(policies)), key=lambda index: (plain[index], index))
    intervals = tuple(RankInterval(policies[i].id, float(plain[i]), float(low[i]), float(high[i]))
                      for i in order)
    swaps = tuple(smallest_swap(design, above, below)
                  for above, below in pairwise(order))
    unchanged = float((ranks == plain).all(axis=1).mean())
    return Sensitivity(intervals, swaps, unchanged, draws, spread, scheme, in_order)


def _draw_uniform(weights: _Draws, generator: np.random.Generator, draws: int,
                  spread: float) -> _Draws:
    return weights * generator.uniform(1 - spread, 1 + spread, size=(draws, weights.size))


def _draw_dirichlet(weights: _Draws, generator: np.random.Generator, draws: int,
                    spread: float) -> _Draws:
    """Return draws from a Dirichlet distribution that keep the sum of the weights.

    A share p of a Dirichlet distribution has the variance p (1 - p) / (concentration + 1).
    """
    total = float(weights.sum())
    if weights.size < 2 or total == 0:
        return np.repeat(weights[np.newaxis], draws, axis=0)
    concentration = max((weights.size - 1) / spread**2 - 1, 1e-3)
    shares = generator.dirichlet(concentration * weights / total, size=draws)
    return np.asarray(total * shares)


_SCHEMES = {"uniform": _draw_uniform, "dirichlet": _draw_dirichlet}


def _restore_order(perturbed: _Draws, design: Design) -> _Draws:
    """Return the drawn weights of each feature, sorted into their original order."""
    ordered = perturbed.copy()
    for columns in design.by_feature():
        by_weight = columns[np.argsort(design.weights[columns], kind="stable")]
        ordered[:, by_weight] = np.sort(perturbed[:, by_weight], axis=1)
    return ordered


def _rank_sigmas(sigmas: _Draws) -> _Draws:
    """Return ranks along the rows, in the shape of the input.

    The largest value has rank 1, and equal values share the mean of their ranks.
    """
    # Rounded, because sums of the same weights in another order differ in their last bits.
    return np.asarray(pd.DataFrame(-np.round(sigmas, 9)).rank(axis=1))
