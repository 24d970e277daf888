"""The additive reward sigma of a policy: features, weights, sum, normalised sum and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policies import Policy, Weights
from policies.weights import Feature

#: Security groups in order of strength; `none` has no feature at all, `open` none of those that the
#: weights call needed.
GROUPS = ("none", "open", "low", "middle", "high")


@dataclass(frozen=True)
class Score:
    """What a policy's protection is worth.

    `parts` has the weight that each implementation adds for a feature, by implementation id and
    feature; a weight that does not count, because its feature counts once, is not in it.
    `sigma_normalized` is in percent of the strongest of those that it is scored among, under the
    same weights, or of what these make attainable.
    """

    policy: str
    parts: Mapping[tuple[str, Feature], float]
    #: By feature, in the weights' order; of those that are provided at all.
    strongest: Mapping[Feature, float]
    sigma: float
    sigma_normalized: float
    group: str
    unweighted: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that are provided at all, in the order of the weights."""
        return tuple(self.strongest)

    @property
    def protects(self) -> bool:
        """Whether it may be recommended: it has a feature, and one of those that are needed."""
        return self.group not in ("none", "open")


def score(policy: Policy, weights: Weights, among: Iterable[Policy]) -> Score:
    """The score of any policy, from its layers: Agarwal and Wang (2007), equation 1.

    `among` are the policies whose strongest has 100 percent. A feature in `weights.once` counts as
    the strongest of its implementations; others add up.
    """
    parts, strongest = _parts(policy, weights), _strongest(policy, weights)
    sigma = sum(parts.values(), 0.0)
    top = weights.attainable if weights.hundred == "attainable" else max(
        sum(_parts(other, weights).values(), 0.0) for other in among)
    normalized = 100 * sigma / top if top else 0.0
    group = group_of(normalized, weights) if sigma else "none"
    if sigma and weights.needed and not any(strongest.get(name) for name in weights.needed):
        group = "open"
    return Score(policy.id, parts, strongest, sigma, normalized, group, weights.unweighted(policy))


def scores(policies: Iterable[Policy], weights: Weights, among: Iterable[Policy]) -> list[Score]:
    """Scores in order of sigma, equal ones in the order given."""
    others = list(among)
    return sorted((score(policy, weights, others) for policy in policies),
                  key=lambda entry: entry.sigma)


def group_of(sigma_normalized: float, weights: Weights) -> str:
    """The group by the weights' limits: Agarwal and Wang (2007), section 5."""
    if sigma_normalized < weights.groups.middle:
        return "low"
    return "middle" if sigma_normalized <= weights.groups.high else "high"


def _parts(policy: Policy, weights: Weights) -> dict[tuple[str, Feature], float]:
    given = {(key, feature): weight for key, entry in weights.of(policy).items()
             for feature, weight in entry.weights.items() if weight > 0}
    for feature in weights.once:
        having = [pair for pair in given if pair[1] == feature]
        best = max(having, key=lambda pair: given[pair], default=None)
        for pair in having:
            if pair != best:
                del given[pair]
    return given


def _strongest(policy: Policy, weights: Weights) -> dict[Feature, float]:
    strongest: dict[Feature, float] = {}
    for entry in weights.of(policy).values():
        for feature, weight in entry.weights.items():
            if weight > 0:
                strongest[feature] = max(weight, strongest.get(feature, 0.0))
    return {feature: strongest[feature] for feature in weights.features if feature in strongest}
