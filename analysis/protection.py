"""Rate how well security policies protect, by the weights of their protection features.

A feature is a kind of protection, such as confidentiality, and its weight ranks the implementation.
`score_policy` takes a policy and weights, and returns sigma: the sum of the weights of all features
that the policy provides (Agarwal and Wang 2007, equation 1). The policy's group (`low`, `middle`,
`high`) follows from sigma. `compare_policies` compares policies feature by feature, without a sum.
`rank_sensitivity` computes how far the order of the policies depends on the chosen weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]  # stubs are optional
from numpy.typing import NDArray

from policies import Policy, Weights
from policies.weights import Feature

# --- Sigma and the security group of a policy ---

#: Security groups in order of strength. `none` has no feature at all. `open` has features, but none
#: of those that the weights call needed.
GROUPS = ("none", "open", "low", "middle", "high")


@dataclass(frozen=True)
class Score:
    """The quality of protection of a policy: its weights and their sum, sigma.

    `parts` has the weight that each implementation adds for a feature, by implementation id and
    feature. If a feature counts once, only the weight that counts is included. `sigma_normalized`
    is in percent of a maximum under the same weights. That is the strongest of the compared
    policies, or the attainable sum, as the weights say.
    """

    policy: str
    parts: Mapping[tuple[str, Feature], float]
    #: Strongest weight by feature, for the provided features in the weights' order.
    strongest: Mapping[Feature, float]
    sigma: float
    sigma_normalized: float
    group: str
    unweighted: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the protection features that the policy provides, in the order of the weights."""
        return tuple(self.strongest)

    @property
    def protects(self) -> bool:
        """Return whether the policy may be recommended, because it provides a required feature.

        Under weights without required features, any feature is sufficient.
        """
        return self.group not in ("none", "open")


def score_policy(policy: Policy, weights: Weights, among: Iterable[Policy]) -> Score:
    """Compute the quality of protection of a policy (Agarwal and Wang 2007, equation 1).

    A feature in `weights.once` counts as the strongest of its implementations. The weights of other
    features add up.

    Args:
        policy: The policy.
        weights: The weights of features and implementations.
        among: The compared policies. The strongest of them has 100 percent, unless the weights take
            the attainable sum as 100 percent.
    """
    parts, strongest = _counted_weights(policy, weights), _strongest_weights(policy, weights)
    sigma = sum(parts.values(), 0.0)
    top = weights.attainable if weights.hundred == "attainable" else max(
        sum(_counted_weights(other, weights).values(), 0.0) for other in among)
    normalized = 100 * sigma / top if top else 0.0
    group = group_of(normalized, weights) if sigma else "none"
    if sigma and weights.needed and not any(strongest.get(name) for name in weights.needed):
        group = "open"
    return Score(policy.id, parts, strongest, sigma, normalized, group,
                 weights.find_unweighted(policy))


def score_policies(policies: Iterable[Policy], weights: Weights,
                   among: Iterable[Policy]) -> list[Score]:
    """Return the scores of policies in ascending order of sigma, the sum of their weights."""
    others = list(among)
    return sorted((score_policy(policy, weights, others) for policy in policies),
                  key=lambda entry: entry.sigma)


def group_of(sigma_normalized: float, weights: Weights) -> str:
    """Return the group (such as `low`) of a policy by its sigma, in percent of the maximum.

    The file of weights has the limits (Agarwal and Wang, 2007, section 5).
    """
    if sigma_normalized < weights.groups.middle:
        return "low"
    return "middle" if sigma_normalized <= weights.groups.high else "high"


def _counted_weights(policy: Policy, weights: Weights) -> dict[tuple[str, Feature], float]:
    given = {(key, feature): weight for key, entry in weights.implementations_of(policy).items()
             for feature, weight in entry.weights.items() if weight > 0}
    for feature in weights.once:
        having = [pair for pair in given if pair[1] == feature]
        best = max(having, key=lambda pair: given[pair], default=None)
        for pair in having:
            if pair != best:
                del given[pair]
    return given


def _strongest_weights(policy: Policy, weights: Weights) -> dict[Feature, float]:
    strongest: dict[Feature, float] = {}
    for entry in weights.implementations_of(policy).values():
        for feature, weight in entry.weights.items():
            if weight > 0:
                strongest[feature] = max(weight, strongest.get(feature, 0.0))
    return {feature: strongest[feature] for feature in weights.features if feature in strongest}


# --- Comparison without sums: strongest weight per feature, and dominance ---
# In a sum, four weak implementations of a feature outweigh a strong one (Agarwal and Wang 2007,
# section 3.4). Neither of these comparisons has this fault. Dominance also does not offset one
# feature against another.

@dataclass(frozen=True)
class PolicyDominance:
    """A comparison of a policy with all others, feature by feature.

    `maximum` is the sum over features of the strongest weight. `dominated_by` are the policies that
    are at least as strong in every feature and stronger in one. `equals` are the policies with the
    same strength in every feature. A policy that no other policy dominates is on the Pareto front.
    """

    policy: str
    maximum: float
    dominated_by: tuple[str, ...]
    equals: tuple[str, ...]

    @property
    def on_front(self) -> bool:
        """Return whether no other policy dominates this policy (is on the Pareto front)."""
        return not self.dominated_by


def compare_policies(scores: Sequence[Score]) -> list[PolicyDominance]:
    """Compare each policy with all others, feature by feature, in the order given."""
    features = tuple(dict.fromkeys(feature for score in scores for feature in score.strongest))
    strengths = {score.policy: feature_strengths(score, features) for score in scores}
    return [PolicyDominance(score.policy, sum(strengths[score.policy]),
                            tuple(name for name, other in strengths.items()
                                  if dominates(other, strengths[score.policy])),
                            tuple(name for name, other in strengths.items()
                                  if name != score.policy and other == strengths[score.policy]))
            for score in scores]


def feature_strengths(score: Score, features: Sequence[Feature]) -> tuple[float, ...]:
    """Return a policy's strongest weight for each protection feature, 0 without one."""
    return tuple(score.strongest.get(feature, 0.0) for feature in features)


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether the first list is nowhere smaller than the second and somewhere larger."""
    pairs = list(zip(first, second, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


# --- Sigma of several policies for many sets of weights at once ---

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WeightMatrix:
    """The weights of several policies as arrays.

    `parts` are the implementation and the feature of each weight. `weights` are the values, shape
    (parts,). `has` tells which policy has which weight, shape (policies, parts). `once` are the
    features of which only the strongest weight counts.
    """

    policies: tuple[str, ...]
    parts: tuple[tuple[str, Feature], ...]
    weights: _Floats
    has: NDArray[np.bool_]
    once: frozenset[Feature]

    @classmethod
    def from_policies(cls, policies: Sequence[Policy], weights: Weights) -> WeightMatrix:
        """Create the matrix of some policies, with the weights that at least one of them has."""
        having = [weights.implementations_of(policy) for policy in policies]
        used = {key for keys in having for key in keys}
        parts = tuple((key, feature) for key, implementation in weights.implementations.items()
                      if key in used
                      for feature, weight in implementation.weights.items() if weight > 0)
        values = [weights.implementations[key].weights[feature] for key, feature in parts]
        has = np.array([[key in keys for key, _ in parts] for keys in having], dtype=np.bool_)
        return cls(tuple(policy.id for policy in policies), parts,
                   np.array(values, dtype=np.float64), has.reshape(len(having), len(parts)),
                   frozenset(weights.once))

    def compute_sigmas(self, weights: _Floats) -> _Floats:
        """Return sigma (the sum of weights) of every policy, under each set of weights.

        The shape changes from (sets, parts) to (sets, policies).
        """
        single = np.array([feature in self.once for _, feature in self.parts], dtype=np.bool_)
        sums = weights @ (self.has & ~single).T.astype(np.float64)
        for columns in self.by_feature():
            if not single[columns[0]]:
                continue
            for row, has in enumerate(self.has[:, columns]):
                if has.any():
                    sums[:, row] += weights[:, columns[has]].max(axis=1)
        return np.asarray(sums)

    def by_feature(self) -> Iterator[NDArray[np.intp]]:
        """Yield, for each protection feature, the indices of its weights."""
        for feature in dict.fromkeys(feature for _, feature in self.parts):
            yield np.array([index for index, (_, of_part) in enumerate(self.parts)
                            if of_part == feature], dtype=np.intp)


# --- Smallest change of one weight that swaps the ranks of two policies ---

@dataclass(frozen=True)
class RankSwap:
    """A change of one weight at which two policies have equal sums of weights.

    - `above`, `below`: the policies that swap their ranks
    - `implementation`, `feature`: the weight that changes
    - `before`, `after`: its value, and the value at which the sums are equal. Beyond it the
      policies swap their ranks.
    """

    above: str
    below: str
    implementation: str
    feature: Feature
    before: float
    after: float

    @property
    def change(self) -> float:
        """Return the change of the weight as a fraction of its value."""
        return abs(self.after - self.before) / self.before


def smallest_swap(design: WeightMatrix, above: int, below: int) -> RankSwap | None:
    """Return the smallest change of one weight that swaps the ranks of two policies.

    Changes are compared as fractions of the weight. Weights cannot become negative. `above` and
    `below` are indices of policies. The result is None where no change of a single weight is
    sufficient.
    """
    swaps = [swap for part in range(len(design.parts))
             for swap in _find_swaps(design, above, below, part)]
    return min(swaps, key=lambda swap: swap.change, default=None)


def _find_swaps(design: WeightMatrix, above: int, below: int, part: int) -> Iterator[RankSwap]:
    """Yield each change of one weight that swaps the ranks of two policies.

    Between the other weights of the same feature, sigma is linear in the weight.
    """
    if design.has[above, part] == design.has[below, part] and \
            design.parts[part][1] not in design.once:
        return
    points = _break_points(design, above, below, part)
    sets = np.repeat(design.weights[np.newaxis], points.size, axis=0)
    sets[:, part] = points
    sigmas = design.compute_sigmas(sets)
    gaps = sigmas[:, above] - sigmas[:, below]
    for (x, y), (gap, next_gap) in zip(pairwise(points), pairwise(gaps), strict=True):
        # Equal sigmas alone are no swap: on one side of the change the weaker policy must be ahead.
        if not min(gap, next_gap) < 0 <= max(gap, next_gap):
            continue
        after = x + (y - x) * gap / (gap - next_gap)
        yield RankSwap(design.policies[above], design.policies[below], *design.parts[part],
                       float(design.weights[part]), float(after))


def _break_points(design: WeightMatrix, above: int, below: int, part: int) -> np.ndarray[
        tuple[int], np.dtype[np.float64]]:
    """Return the values of a weight between which the policies' sums of weights are linear.

    The last value is beyond any swap.
    """
    feature = design.parts[part][1]
    rivals = [design.weights[index] for index, (_, of_part) in enumerate(design.parts)
              if of_part == feature and of_part in design.once]
    sigma = design.compute_sigmas(design.weights[np.newaxis])[0]
    beyond = max([*rivals, design.weights[part]]) + abs(sigma[above] - sigma[below]) + 1
    return np.unique(np.array([0.0, *rivals, design.weights[part], beyond]))


# --- Sensitivity of the ranking to random changes of the weights ---

DrawScheme = Literal["dirichlet", "uniform"]


@dataclass(frozen=True)
class RankInterval:
    """The rank of a policy, with the range that it has if the weights vary at random.

    Rank 1 is the strongest. `low` and `high` enclose 95 % of the draws. Equal sigmas get the mean
    of their ranks.
    """

    policy: str
    rank: float
    low: float
    high: float


@dataclass(frozen=True)
class Sensitivity:
    """Ranges of the policies' ranks if the weights vary, and the smallest changes that swap two.

    - `ranks`: ranges of the ranks, the strongest policy first
    - `swaps`: change of one weight that swaps a policy with the next one, None if no such change
      does
    - `kept`: fraction of draws that leave the whole ranking unchanged
    - `draws`, `spread`, `scheme`: number of draws, and how far and by which distribution the
      weights vary
    """

    ranks: tuple[RankInterval, ...]
    swaps: tuple[RankSwap | None, ...]
    kept: float
    draws: int
    spread: float
    scheme: DrawScheme


def rank_sensitivity(policies: Sequence[Policy], weights: Weights, generator: np.random.Generator,
                     draws: int = 10_000, spread: float = 0.5, scheme: DrawScheme = "dirichlet", *,
                     in_order: bool = True) -> Sensitivity:
    """Compute how the ranks of policies change if the weights vary at random.

    Args:
        policies: The policies to rank.
        weights: The weights of features and implementations.
        generator: The source of random numbers.
        draws: Number of perturbed sets of weights.
        spread: Fraction by which every weight varies, between 0 and 1.
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
    design = WeightMatrix.from_policies(policies, weights)
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
    return Sensitivity(intervals, swaps, unchanged, draws, spread, scheme)


def _draw_uniform(weights: _Floats, generator: np.random.Generator, draws: int,
                  spread: float) -> _Floats:
    return weights * generator.uniform(1 - spread, 1 + spread, size=(draws, weights.size))


def _draw_dirichlet(weights: _Floats, generator: np.random.Generator, draws: int,
                    spread: float) -> _Floats:
    """Return random weights that keep the sum of the weights (Dirichlet distribution).

    A part p of a Dirichlet distribution has the variance p (1 - p) / (concentration + 1).
    """
    total = float(weights.sum())
    if weights.size < 2 or total == 0:
        return np.repeat(weights[np.newaxis], draws, axis=0)
    concentration = max((weights.size - 1) / spread**2 - 1, 1e-3)
    shares = generator.dirichlet(concentration * weights / total, size=draws)
    return np.asarray(total * shares)


_SCHEMES = {"uniform": _draw_uniform, "dirichlet": _draw_dirichlet}


def _restore_order(perturbed: _Floats, design: WeightMatrix) -> _Floats:
    """Return random weights, sorted into their original order within each feature."""
    ordered = perturbed.copy()
    for columns in design.by_feature():
        by_weight = columns[np.argsort(design.weights[columns], kind="stable")]
        ordered[:, by_weight] = np.sort(perturbed[:, by_weight], axis=1)
    return ordered


def _rank_sigmas(sigmas: _Floats) -> _Floats:
    """Return ranks along the rows of an array, in the shape of the input.

    The largest value has rank 1, and equal values get the mean of their ranks.
    """
    # Rounded, because sums of the same weights in another order differ in their last bits.
    return np.asarray(pd.DataFrame(-np.round(sigmas, 9)).rank(axis=1))


__all__ = ["Score", "Sensitivity", "group_of", "rank_sensitivity", "score_policies", "score_policy"]
