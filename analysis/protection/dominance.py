"""Protection without adding up: the strongest of each feature, and which policy dominates which.

Agarwal and Wang (2007, section 3.4) say what additive rewards do wrong: four weak implementations
of a feature outweigh a strong one. Neither view here can do that, and the second does not set one
feature off against another either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.protection.score import Score
from policies.weights import Feature


@dataclass(frozen=True)
class View:
    """A policy beside the others.

    `maximum` is the sum over features of the strongest weight. `dominated_by` are the policies
    that are at least as strong in every feature and stronger in one; `equals` those that are as
    strong in each. A policy that nobody dominates is on the Pareto front.
    """

    policy: str
    maximum: float
    dominated_by: tuple[str, ...]
    equals: tuple[str, ...]

    @property
    def on_front(self) -> bool:
        """Whether no other policy is better without being worse in anything."""
        return not self.dominated_by


def views(scores: Sequence[Score]) -> list[View]:
    """Both views of the policies, in the order given."""
    features = tuple(dict.fromkeys(feature for score in scores for feature in score.strongest))
    strengths = {score.policy: strength(score, features) for score in scores}
    return [View(score.policy, sum(strengths[score.policy]),
                 tuple(name for name, other in strengths.items()
                       if dominates(other, strengths[score.policy])),
                 tuple(name for name, other in strengths.items()
                       if name != score.policy and other == strengths[score.policy]))
            for score in scores]


def strength(score: Score, features: Sequence[Feature]) -> tuple[float, ...]:
    """The strongest weight of each of these features; 0 where there is none."""
    return tuple(score.strongest.get(feature, 0.0) for feature in features)


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether the first is at least the second in everything, and more in something."""
    pairs = list(zip(first, second, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)
