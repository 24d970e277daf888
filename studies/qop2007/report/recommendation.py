"""Recommend security policies by the rule of the 2007 paper, made exact.

`recommend_by_overhead` takes measured or printed values, and returns one policy for each group
(low, middle, high protection), and one among all.

The paper states the rule in words (section 5.2): "within each group, we recommend security policies
by giving normalized sigma values higher priority", even if the cost is "a bit higher", unless
another policy of the group comes at "almost half" of the overhead. Of all policies it recommends
the one with "a good balance between security benefits and low cryptographic overhead", or the
strongest where the difference is "relatively less".

So the strongest policy (highest sigma) is taken, unless it costs too much more than the cheapest.
"Too much" is one of the two factors below. The paper gives no factors. Any from 1.4 to 1.8 and from
2.1 to 3.5 choose every policy that its text names. The paper is Agarwal and Wang (2007).
`studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.statistics import joint_level
from studies.qop2007.measurements import OVERHEADS, STREAMS
from studies.qop2007.report.basis import Kind, ReportBasis, ScoredPolicy

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
    """A policy with its cost, such as lost goodput. All candidates have one unit."""

    policy: ScoredPolicy
    cost: float

    @property
    def sigma(self) -> float:
        """Return the policy's sigma, the sum of the weights of its features."""
        return self.policy.score.sigma if self.policy.score else 0.0


def recommend_by_overhead(basis: ReportBasis, stream: str, kind: Kind) -> dict[str, str]:
    """Return the id of the recommended policy in each security group, and of all as `all`.

    Policies are compared by their mean overhead (lost goodput) over the scenarios. A policy without
    encryption has no overhead, and is no candidate within a group.

    Args:
        basis: the measured or published values.
        stream: `tcp` or `udp`.
        kind: scenarios to average over, `home` or `roaming`.
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


def possible_recommendations(basis: ReportBasis, stream: str,
                             kind: Kind) -> dict[str, tuple[str, ...]]:
    """Return all policies that the rule may recommend, given the uncertainty of the overheads.

    The intervals of all candidates hold at the same time (Bonferroni), because the data also choose
    the cheapest policy.

    Args:
        basis: the measured or published values.
        stream: `tcp` or `udp`.
        kind: scenarios to average over, `home` or `roaming`.

    Returns:
        Policy ids by security group. Groups in which a policy has no interval are left out.
    """
    metric, floor = OVERHEADS[stream].name, _negligible_cost(basis, stream, kind)
    members = {group: _find_candidates(basis, metric, kind, group) for group in GROUPS}
    each = joint_level(sum(map(len, members.values())))
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


def _negligible_cost(basis: ReportBasis, stream: str, kind: Kind) -> float:
    """Return the overhead below which a policy counts as free, in the unit of the stream."""
    rate = basis.mean_observation(STREAMS[stream].name, basis.baseline or "", basis.of_kind(kind))
    return NO_COST * rate.estimate.mean if rate else 0.0


def _may_be_chosen(candidate: Candidate, low: float,
                   known: Sequence[tuple[Candidate, float, float]], floor: float) -> bool:
    """Return whether the rule may choose a policy, given the intervals of all overheads."""
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
    """Return the policy of highest sigma among those that cost little enough, or None.

    Args:
        candidates: the policies with their costs.
        factor: largest accepted cost, as a multiple of the lowest cost.
        floor: cost that is always accepted.
    """
    if not candidates:
        return None
    limit = max(factor * min(policy.cost for policy in candidates), floor)
    affordable = [policy for policy in candidates if policy.cost <= limit] or \
        [min(candidates, key=lambda policy: policy.cost)]
    return max(affordable, key=lambda policy: (policy.sigma, -policy.cost))


def steadiest_policies(basis: ReportBasis, variance: Mapping[str, float]) -> dict[str, str]:
    """Return in each group the policy whose overhead varies least over the scenarios (Table 9)."""
    chosen = {}
    for group in GROUPS:
        members = [policy.id for policy in basis.in_group(group) if policy.id in variance]
        if members:
            chosen[group] = min(members, key=lambda name: variance[name])
    return chosen


def steady_and_strong(basis: ReportBasis, variance: Mapping[str, float]) -> str | None:
    """Return the strongest policy among those whose throughput varies little, or None.

    Little means at most a fixed factor more than the steadiest policy varies.
    """
    candidates = [Candidate(policy, variance[policy.id]) for group in GROUPS
                  for policy in basis.in_group(group) if policy.id in variance]
    best = strongest_candidate(candidates, WITHIN_GROUP, 0.0)
    return best.policy.id if best else None


def _find_candidates(basis: ReportBasis, metric: str, kind: Kind, group: str) -> list[Candidate]:
    means = [(policy, basis.mean_observation(metric, policy.id, basis.of_kind(kind)))
             for policy in basis.in_group(group)]
    return [Candidate(policy, average.estimate.mean) for policy, average in means if average]
