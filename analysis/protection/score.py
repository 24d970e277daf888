"""The additive reward sigma of a policy, and its security group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policies import Policy, Weights
from policies.weights import Feature

#: Security groups in order of strength. `none` has no feature at all. `open` has features, but none
#: of those that the weights call needed.
GROUPS = ("none", "open", "low", "middle", "high")


@dataclass(frozen=True)
class Score:
    """The quality of protection of a policy.

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
        """Return the features that the policy provides, in the order of the weights."""
        return tuple(self.strongest)

    @property
    def protects(self) -> bool:
        """Return whether the policy may be recommended: it provides a needed feature.

        Under weights without needed features, any feature is sufficient.
        """
        return self.group not in ("none", "open")


def score_policy(policy: Policy, weights: Weights, among: Iterable[Policy]) -> Score:
    """Return the score of a policy from its layers: Agarwal and Wang (2007), equation 1.

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
    """Return scores in ascending order of sigma, equal ones in the order given."""
    others = list(among)
    return sorted((score_policy(policy, weights, others) for policy in policies),
                  key=lambda entry: entry.sigma)


def group_of(sigma_normalized: float, weights: Weights) -> str:
    """Return the group by the weights' limits: Agarwal and Wang (2007), section 5."""
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
