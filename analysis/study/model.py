"""A study: what was measured (or published) of every metric, policy and scenario, and sigma."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.protection.score import Score
from analysis.statistics import Estimate
from policies import Policy, Weights

#: Metrics of a study, in SI units. Components of the authentication time stand beside them, under
#: `component_NAME_s`.
METRICS = ("authentication_time_s", "handoff_s", "tcp_goodput_bps", "udp_goodput_bps",
           "tcp_overhead_bps", "udp_overhead_bps")
Kind = Literal["home", "roaming"]
KINDS: tuple[Kind, ...] = ("home", "roaming")
#: What the kinds of scenarios are called in headings, as in the paper.
KIND_TITLES: Mapping[Kind, str] = {"home": "Non-roaming", "roaming": "Roaming"}


@dataclass(frozen=True)
class Observation:
    """A metric in a cell: its estimate, its values by block, and the records behind it.

    Published values have neither interval, blocks nor records.
    """

    estimate: Estimate
    blocks: Mapping[int, float] = field(default_factory=dict)
    records: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """A policy of the study; `policy` and `score` are None where its layers are not known."""

    id: str
    name: str
    policy: Policy | None
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
    """A scenario of the study."""

    id: str
    title: str
    kind: Kind


@dataclass(frozen=True)
class Study:
    """Everything that tables, claims and advice are made of.

    `profiles` are in order of sigma, those of unknown layers last; `observations` by metric,
    policy and scenario; `packets` are the fewest and most packets of a phase, by phase and policy;
    `published` are the paper's values, to be shown beside; `notes` what a reader must know; `clock`
    the one of all repetitions.
    """

    origin: Literal["measured", "published"]
    profiles: tuple[Profile, ...]
    places: tuple[Place, ...]
    observations: Mapping[tuple[str, str, str], Observation]
    weights: Weights
    baseline: str | None
    packets: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    sums: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    published: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    clock: str = ""

    def find(self, metric: str, policy: str, scenario: str) -> Observation | None:
        """The observation of a cell, or None where there is no number."""
        return self.observations.get((metric, policy, scenario))

    def of_kind(self, kind: Kind) -> tuple[Place, ...]:
        """The scenarios at home, or those that roam."""
        return tuple(place for place in self.places if place.kind == kind)

    def in_group(self, group: str) -> tuple[Profile, ...]:
        """The policies of a security group, in order of sigma."""
        return tuple(one for one in self.profiles if one.group == group)

    def mean(self, metric: str, policy: str, places: Iterable[Place]) -> float | None:
        """The mean over scenarios of a policy's means; None where one is missing."""
        found = [self.find(metric, policy, place.id) for place in places]
        values = [one.estimate.mean for one in found if one is not None]
        return sum(values) / len(values) if values and len(values) == len(found) else None

    def records(self, metric: str, policies: Iterable[str],
                places: Iterable[Place]) -> Iterator[str]:
        """Names of the records behind several cells."""
        wanted = [place.id for place in places]
        for policy in policies:
            for scenario in wanted:
                found = self.find(metric, policy, scenario)
                yield from found.records if found else ()
