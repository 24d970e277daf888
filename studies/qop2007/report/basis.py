"""Basis of tables, claims and advice: values of policies in scenarios, and sigma."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.blocks import mean_over
from analysis.cells import Key, Observation, Origin
from analysis.protection.score import Score
from analysis.statistics import LEVEL
from policies import Policy, Weights
from studies.qop2007.report.calls import CallPackets

Kind = Literal["home", "roaming"]
KINDS: tuple[Kind, ...] = ("home", "roaming")
#: Authentication time by another reading of Table 4, with the negotiations of the visited network.
IN_BOTH_NETWORKS = "authentication_time_in_both_networks_s"
#: Titles of the kinds of scenarios in headings, as in the paper.
KIND_TITLES: Mapping[Kind, str] = {"home": "Non-roaming", "roaming": "Roaming"}


@dataclass(frozen=True)
class ScoredPolicy:
    """A policy of the study. `definition` and `score` are None where its layers are unknown."""

    id: str
    name: str
    definition: Policy | None
    score: Score | None

    @property
    def group(self) -> str:
        """Return the security group, or `unknown`."""
        return self.score.group if self.score else "unknown"

    @property
    def encrypts(self) -> bool:
        """Return whether the policy has the confidentiality feature."""
        return self.score is not None and "confidentiality" in self.score.features


@dataclass(frozen=True)
class Place:
    """A scenario of the study: its kind, and its access points' channels if known."""

    id: str
    title: str
    kind: Kind
    channels: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Basis:
    """Source of all tables, claims and advice.

    - `policies`: in order of sigma, those with unknown layers last
    - `observations`: by metric, policy and scenario, also `component_NAME_s` for the components
      of the authentication time
    - `packets`: fewest and most packets of a phase, by phase and policy
    - `sums`: components of the authentication time, by policy and scenario
    - `published`: the paper's values for comparison, by metric, policy and scenario
    - `notes`: notes for the reader
    - `clock`: the clock of all repetitions
    - `devices`: names of the devices that nodes computed on
    - `air`: channel access of stations, `dcf` or `queue`, "" where no medium was emulated
    - `calls`: largest number of calls on the air, by packets of a call, policy and scenario
    """

    origin: Origin
    policies: tuple[ScoredPolicy, ...]
    places: tuple[Place, ...]
    observations: Mapping[Key, Observation]
    weights: Weights
    baseline: str | None
    packets: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    sums: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    published: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    clock: str = ""
    devices: tuple[str, ...] = ()
    air: str = ""
    calls: Mapping[tuple[CallPackets, str, str], int] = field(default_factory=dict)

    def find_observation(self, metric: str, policy: str, scenario: str) -> Observation | None:
        """Return the observation of a cell, or None where there is no number."""
        return self.observations.get((metric, policy, scenario))

    def without_weight(self) -> Iterator[str]:
        """Yield a line that names protections of the policies that the weights do not know."""
        policies: dict[str, list[str]] = {}
        for policy in self.policies:
            for word in policy.score.unweighted if policy.score else ():
                policies.setdefault(word, []).append(policy.id)
        if policies:
            said = "; ".join(f"{word} ({', '.join(ids)})" for word, ids in policies.items())
            yield (f"The weights of {self.weights.title} have none for {said}: that counts nothing "
                   "in \N{GREEK SMALL LETTER SIGMA}.")

    def of_kind(self, kind: Kind) -> tuple[Place, ...]:
        """Return the scenarios at home, or those that roam."""
        return tuple(place for place in self.places if place.kind == kind)

    def in_group(self, group: str) -> tuple[ScoredPolicy, ...]:
        """Return the policies of a security group, in order of sigma."""
        return tuple(policy for policy in self.policies if policy.group == group)

    def is_papers(self, policy: str) -> bool:
        """Return whether a policy has the layers of the paper's policy of that name."""
        return any(name == policy for _, name, _ in self.published)

    def mean_value(self, metric: str, policy: str, places: Iterable[Place]) -> float | None:
        """Return the mean over scenarios of a policy's means, or None if one is missing."""
        observations = [self.find_observation(metric, policy, place.id) for place in places]
        values = [value.estimate.mean for value in observations if value is not None]
        return sum(values) / len(values) if values and len(values) == len(observations) else None

    def record_names(self, metric: str, policies: Iterable[str],
                     places: Iterable[Place]) -> Iterator[str]:
        """Yield the names of the records behind several cells."""
        scenarios = [place.id for place in places]
        for policy in policies:
            for scenario in scenarios:
                value = self.find_observation(metric, policy, scenario)
                yield from value.records if value else ()

    def measured_places(self, metric: str, places: Iterable[Place]) -> list[Place]:
        """Return the scenarios in which any policy has a number for the metric."""
        there = {key[2] for key in self.observations if key[0] == metric}
        return [place for place in places if place.id in there]

    def mean_observation(self, metric: str, policy: str, places: Iterable[Place],
                         level: float = LEVEL) -> Observation | None:
        """Return a policy's mean over the scenarios in which any policy has the metric.

        The result is None where the policy lacks one of them, so that all policies have the mean
        over equal scenarios.
        """
        return mean_over(self.observations, [(metric, policy, place.id) for place in
                                             self.measured_places(metric, places)], level)
