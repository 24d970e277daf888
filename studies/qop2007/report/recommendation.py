"""Recommendation of policies, by an exact form of the paper's own rule.

The 2007 paper states the rule in words (section 5.2): "within each group, we recommend security
policies by giving normalized sigma values higher priority", even if the cost is "a bit higher",
unless another policy of the group comes at "almost half" of the overhead. Of all policies it
recommends the one with "a good balance between security benefits and low cryptographic overhead",
or the strongest where the difference is "relatively less".

So the strongest policy is taken unless the cheapest costs so much less that one of the two factors
below is exceeded. The factors are not the paper's, because it gives none. Any from 1.4 to 1.8 and
from 2.1 to 3.5 choose every policy that its text names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.statistics import LEVEL
from studies.qop2007.metrics import OVERHEADS, STREAMS
from studies.qop2007.report.basis import Basis, Kind, ScoredPolicy

#: Largest cost of the strongest policy relative to the cheapest of its group.
WITHIN_GROUP = 1.5
#: Largest cost of the strongest of the groups' choices relative to the cheapest.
AMONG_GROUPS = 2.5
#: Costs below this share of the bit rate without security count as none: ratios of noise have no
#: meaning.
NO_COST = 0.01
GROUPS = ("low", "middle", "high")
ALL = "all"


@dataclass(frozen=True)
class Candidate:
    """A policy with its cost, in any unit that all candidates share."""

    policy: ScoredPolicy
    cost: float

    @property
    def sigma(self) -> float:
        """Return the additive reward."""
        return self.policy.score.sigma if self.policy.score else 0.0


def recommend_by_overhead(basis: Basis, stream: str, kind: Kind) -> dict[str, str]:
    """Return the id of the recommended policy by group, and of all under `all`.

    Policies are compared by the means of a stream's overhead over the kind's scenarios. A policy
    without confidentiality has no overhead and is no choice among the groups.
    """
    floor = _negligible_cost(basis, stream, kind)
    chosen: dict[str, Candidate] = {}
    for group in GROUPS:
        candidates = _find_candidates(basis, OVERHEADS[stream].name, kind, group)
        best = strongest_candidate(candidates, WITHIN_GROUP, floor)
        if best:
            chosen[group] = best
    ciphers = [candidate for candidate in chosen.values() if candidate.policy.encrypts]
    overall = strongest_candidate(ciphers, AMONG_GROUPS, floor)
    return {group: candidate.policy.id for group, candidate in chosen.items()} | (
        {ALL: overall.policy.id} if overall else {})


def possible_recommendations(basis: Basis, stream: str, kind: Kind) -> dict[str, tuple[str, ...]]:
    """Return the policies that the rule may recommend in each group, by the costs' intervals.

    The data choose the cheapest policy, so the intervals of all candidates hold together, at
    Bonferroni's level for their number. A group is left out where a candidate has no interval.
    """
    metric, floor = OVERHEADS[stream].name, _negligible_cost(basis, stream, kind)
    members = {group: _find_candidates(basis, metric, kind, group) for group in GROUPS}
    each = 1 - (1 - LEVEL) / max(1, sum(map(len, members.values())))
    possible = {}
    for group, candidates in members.items():
        known = [(candidate, cost.estimate.low, cost.estimate.high) for candidate in candidates
                 if (cost := basis.mean_observation(metric, candidate.policy.id,
                                                    basis.of_kind(kind), each))
                 and cost.estimate.low is not None and cost.estimate.high is not None]
        if candidates and len(known) == len(candidates):
            possible[group] = tuple(candidate.policy.id for candidate, low, _ in known
                                    if _may_be_chosen(candidate, low, known, floor))
    return possible


def _negligible_cost(basis: Basis, stream: str, kind: Kind) -> float:
    """Return the cost that counts as none, in the stream's unit."""
    rate = basis.mean_observation(STREAMS[stream].name, basis.baseline or "", basis.of_kind(kind))
    return NO_COST * rate.estimate.mean if rate else 0.0


def _may_be_chosen(candidate: Candidate, low: float,
                   known: Sequence[tuple[Candidate, float, float]], floor: float) -> bool:
    """Return whether a policy may be affordable and each stronger one may be too expensive."""
    others = [(other, at_least, at_most) for other, at_least, at_most in known
              if other is not candidate]
    dearest = max(WITHIN_GROUP * min((at_most for *_, at_most in others), default=low), floor)
    if low > dearest:
        return False
    cheapest = min(at_least for _, at_least, _ in known)
    return all(at_most > max(WITHIN_GROUP * cheapest, floor) for other, _, at_most in others
               if (other.sigma, -other.cost) > (candidate.sigma, -candidate.cost))


def strongest_candidate(candidates: Sequence[Candidate], factor: float,
                        floor: float) -> Candidate | None:
    """Return the affordable policy of highest sigma.

    It costs at most `factor` times the cheapest, or `floor`.
    """
    if not candidates:
        return None
    limit = max(factor * min(policy.cost for policy in candidates), floor)
    affordable = [policy for policy in candidates if policy.cost <= limit] or \
        [min(candidates, key=lambda policy: policy.cost)]
    return max(affordable, key=lambda policy: (policy.sigma, -policy.cost))


def steadiest_policies(basis: Basis, variance: Mapping[str, float]) -> dict[str, str]:
    """Return the policy of each group whose overhead varies least over the scenarios (Table 9)."""
    chosen = {}
    for group in GROUPS:
        members = [policy.id for policy in basis.in_group(group) if policy.id in variance]
        if members:
            chosen[group] = min(members, key=lambda name: variance[name])
    return chosen


def steady_and_strong(basis: Basis, variance: Mapping[str, float]) -> str | None:
    """Return the strongest policy whose throughput varies little more than the steadiest one's."""
    candidates = [Candidate(policy, variance[policy.id]) for group in GROUPS
                  for policy in basis.in_group(group) if policy.id in variance]
    best = strongest_candidate(candidates, WITHIN_GROUP, 0.0)
    return best.policy.id if best else None


def _find_candidates(basis: Basis, metric: str, kind: Kind, group: str) -> list[Candidate]:
    means = [(policy, basis.mean_observation(metric, policy.id, basis.of_kind(kind)))
             for policy in basis.in_group(group)]
    return [Candidate(policy, average.estimate.mean) for policy, average in means if average]
