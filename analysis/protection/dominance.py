"""Views of protection without sums: the strongest weight per feature, and dominance.

Agarwal and Wang (2007, section 3.4) describe the fault of additive rewards: four weak
implementations of a feature outweigh a strong one. Neither view has this fault. Dominance also does
not offset one feature against another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.protection.score import Score
from policies.weights import Feature


@dataclass(frozen=True)
class View:
    """The protection of a policy compared with the other policies.

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
        """Return whether no other policy dominates the policy."""
        return not self.dominated_by


def make_views(scores: Sequence[Score]) -> list[View]:
    """Return the views of the policies, in the order given."""
    features = tuple(dict.fromkeys(feature for score in scores for feature in score.strongest))
    strengths = {score.policy: feature_strengths(score, features) for score in scores}
    return [View(score.policy, sum(strengths[score.policy]),
                 tuple(name for name, other in strengths.items()
                       if dominates(other, strengths[score.policy])),
                 tuple(name for name, other in strengths.items()
                       if name != score.policy and other == strengths[score.policy]))
            for score in scores]


def feature_strengths(score: Score, features: Sequence[Feature]) -> tuple[float, ...]:
    """Return the strongest weight for each of these features, 0 without one."""
    return tuple(score.strongest.get(feature, 0.0) for feature in features)


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether the first is nowhere smaller than the second and somewhere larger."""
    pairs = list(zip(first, second, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)
