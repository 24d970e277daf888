"""Basis of a report from the paper: its printed values, without intervals."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Key, Observation, stated_observation
from analysis.protection.score import score_policy
from policies import Weights, load_weights
from studies.qop2007 import published
from studies.qop2007.report.basis import Basis, Kind, Place, ScoredPolicy
from studies.qop2007.report.from_run import sort_policies

_PLACES: tuple[tuple[str, Kind], ...] = (
    ("N1", "home"), ("N2", "home"), ("N3", "home"), ("R1", "roaming"), ("R2", "roaming"))


def basis_from_paper(weights: Weights | None = None) -> Basis:
    """Return the printed values of P1 to P12 in the paper's five scenarios.

    The paper gives authentication times for a kind of scenario. They are used for each scenario of
    that kind.
    """
    used, printed, among = weights or load_weights(), published.load(), published.policies()
    policies = sort_policies(ScoredPolicy(policy.id, policy.name, policy,
                                          score_policy(policy, used, among))
                             for policy in among)
    places = tuple(Place(name, printed.scenarios[name], kind) for name, kind in _PLACES)
    return Basis("published", policies, places, dict(_printed_observations(printed)), used, "P1",
                 published=printed.cells)


def _printed_observations(printed: published.Published) -> Iterator[tuple[Key, Observation]]:
    for key, value in printed.cells.items():
        yield key, stated_observation(value, "published")
    for (policy, kind), seconds in printed.authentication_time_s.items():
        for scenario, its_kind in _PLACES:
            if its_kind == kind:
                yield ("authentication_time_s", policy,
                       scenario), stated_observation(seconds, "published")
