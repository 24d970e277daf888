"""The basis of tables, claims and advice: every value of a policy in a scenario, and sigma."""

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
#: The authentication time by another reading of Table 4: with what the visited network negotiates.
IN_BOTH_NETWORKS = "authentication_time_in_both_networks_s"
#: What the kinds of scenarios are called in headings, as in the paper.
KIND_TITLES: Mapping[Kind, str] = {"home": "Non-roaming", "roaming": "Roaming"}


@dataclass(frozen=True)
class ScoredPolicy:
    """A policy of the study; `definition` and `score` are None where its layers are not known."""

    id: str
    name: str
    definition: Policy | None
    score: Score | None

    @property
    def group(self) -> str:
        """Its security group, or `unknown`."""
        return self.score.group if self.score else "unknown"

    @property
    def encrypts(self) -> bool:
        """Whether it has the confidentiality feature."""
        return self.score is not None and "confidentiality" in self.score.features


@dataclass(frozen=True)
class Place:
    """A scenario of the study, at home or roaming, with its access points' channels if known."""

    id: str
    title: str
    kind: Kind
    channels: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Basis:
    """Everything that tables, claims and advice are made of.

    `policies` are in order of sigma, those of unknown layers last; `observations` by metric,
    policy and scenario (components of the authentication time among them, as `component_NAME_s`);
    `packets` are the fewest and most packets of a phase, by phase and policy; `published` are the
    paper's values, to be shown beside; `notes` what a reader must know; `clock` the one of all
    repetitions; `devices` the names of those that nodes computed on; `air` who let stations take
    turns, "" where none was emulated; `calls` how many calls of some packets the air of a policy
    and scenario carries at most.
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

    def find(self, metric: str, policy: str, scenario: str) -> Observation | None:
        """The observation of a cell, or None where there is no number."""
        return self.observations.get((metric, policy, scenario))

    def without_weight(self) -> Iterator[str]:
        """One line that names what of the policies' protection the weights do not know."""
        policies: dict[str, list[str]] = {}
        for policy in self.policies:
            for word in policy.score.unweighted if policy.score else ():
                policies.setdefault(word, []).append(policy.id)
        if policies:
            said = "; ".join(f"{word} ({', '.join(ids)})" for word, ids in policies.items())
            yield (f"The weights of {self.weights.title} have none for {said}: that counts nothing "
                   "in \N{GREEK SMALL LETTER SIGMA}.")

    def of_kind(self, kind: Kind) -> tuple[Place, ...]:
        """The scenarios at home, or those that roam."""
        return tuple(place for place in self.places if place.kind == kind)

    def in_group(self, group: str) -> tuple[ScoredPolicy, ...]:
        """The policies of a security group, in order of sigma."""
        return tuple(policy for policy in self.policies if policy.group == group)

    def is_papers(self, policy: str) -> bool:
        """Whether a policy is the paper's of that name, by its layers."""
        return any(name == policy for _, name, _ in self.published)

    def mean(self, metric: str, policy: str, places: Iterable[Place]) -> float | None:
        """The mean over scenarios of a policy's means; None where one is missing."""
        observations = [self.find(metric, policy, place.id) for place in places]
        values = [value.estimate.mean for value in observations if value is not None]
        return sum(values) / len(values) if values and len(values) == len(observations) else None

    def records(self, metric: str, policies: Iterable[str],
                places: Iterable[Place]) -> Iterator[str]:
        """Names of the records behind several cells."""
        scenarios = [place.id for place in places]
        for policy in policies:
            for scenario in scenarios:
                value = self.find(metric, policy, scenario)
                yield from value.records if value else ()

    def measured_places(self, metric: str, places: Iterable[Place]) -> list[Place]:
        """The scenarios in which any policy has a number for the metric."""
        there = {key[2] for key in self.observations if key[0] == metric}
        return [place for place in places if place.id in there]

    def over(self, metric: str, policy: str, places: Iterable[Place],
             level: float = LEVEL) -> Observation | None:
        """A metric of a policy as the mean over scenarios, of those that anybody has it in.

        None where the policy lacks one of them, so that all policies' means are over the same.
        """
        return mean_over(self.observations, [(metric, policy, place.id) for place in
                                             self.measured_places(metric, places)], level)
