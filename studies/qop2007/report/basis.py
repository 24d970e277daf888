"""Collect the data from which all tables, claims and advice of the report are built.

A `ReportBasis` has the mean values per policy and scenario, and each policy's sigma (strength of
protection). `basis_from_run` takes the values from a run, `basis_from_paper` from the 2007 paper.
So both get the same tables. The paper is Agarwal and Wang (2007), on the cost of security policies
in wireless LANs. `studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from pydantic import ValidationError

from analysis import statistics
from analysis.blocks import mean_over
from analysis.cells import Cells, Key, Observation, Origin, stated_observation
from analysis.metrics import Metric, insert_before_unit
from analysis.protection import Score, score_policy
from analysis.reporting.table_entries import MISSING_ENTRY, exact_entry
from analysis.results import Results
from analysis.statistics import LEVEL, Looks
from analysis.table import Column, Entry, join_words, natural_key
from measure.records import judgement
from measure.records.manifest import LevelRecord
from policies import Layers, Policy, Weights, load_weights
from studies.qop2007 import published
from studies.qop2007.measurements import AUTHENTICATION, FOREIGN
from studies.qop2007.report.phase_names import component_names, phase_names
from topologies.model import Scenario, from_json

# --- Packets of voice calls ---
# The number of calls that the air carries depends on them.

_RTP_BYTES = 12  # RFC 3550, 5.1


@dataclass(frozen=True)
class CallPackets:
    """Packets of a voice call in one direction: interval and payload. Both directions are equal."""

    payload_bytes: int
    interval_s: float


#: G.711 in packets of 20 ms (RFC 3551, 4.2 and 4.5.14): 160 bytes of voice after the RTP header.
G711 = CallPackets(160 + _RTP_BYTES, 0.020)


# --- Policies, scenarios and their values ---

Kind = Literal["home", "roaming"]
KINDS: tuple[Kind, ...] = ("home", "roaming")
#: Authentication time by another reading of Table 4, with the negotiations of the visited network.
IN_BOTH_NETWORKS = "authentication_time_in_both_networks_s"
#: Titles of the kinds of scenarios in headings, as in the paper.
KIND_TITLES: Mapping[Kind, str] = {"home": "Non-roaming", "roaming": "Roaming"}


@dataclass(frozen=True)
class ScoredPolicy:
    """A security policy with the score of its protection.

    Both are None if its layers are unknown.
    """

    id: str
    name: str
    definition: Policy | None
    score: Score | None

    @property
    def group(self) -> str:
        """Return the security group by sigma, such as `low` or `high`, or `unknown`."""
        return self.score.group if self.score else "unknown"

    @property
    def encrypts(self) -> bool:
        """Return whether the policy has the feature `confidentiality`."""
        return self.score is not None and "confidentiality" in self.score.features


@dataclass(frozen=True)
class ReportScenario:
    """A scenario of the report: at home or roaming, and the channels of its access points."""

    id: str
    title: str
    kind: Kind
    channels: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ReportBasis:
    """Measured or published values, from which tables, claims and advice are built.

    - `policies`: in order of sigma (strength of protection), those with unknown layers last
    - `observations`: by metric, policy and scenario, also `component_NAME_s` for each negotiation
      of the authentication time
    - `packets`: fewest and most packets of a phase, by phase and policy
    - `sums`: negotiations that the authentication time adds up, by policy and scenario
    - `published`: the paper's values for comparison, by metric, policy and scenario
    - `notes`: notes for the reader
    - `clock`: the clock of all repetitions
    - `devices`: names of the processor models that nodes computed on
    - `air`: channel access of stations, `dcf` or `queue`, "" if the air cost no time
    - `calls`: number of voice calls that the air carries, by call, policy and scenario
    - `looks`: planned evaluations of a run that stops once its claims are decided, else None
    """

    origin: Origin
    policies: tuple[ScoredPolicy, ...]
    places: tuple[ReportScenario, ...]
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
    looks: Looks | None = None

    def find_observation(self, metric: str, policy: str, scenario: str) -> Observation | None:
        """Return the value of a metric for a policy and scenario, or None if there is none."""
        return self.observations.get((metric, policy, scenario))

    def without_weight(self) -> Iterator[str]:
        """Yield a note that names the protections for which the weights file has no weight."""
        policies: dict[str, list[str]] = {}
        for policy in self.policies:
            for word in policy.score.unweighted if policy.score else ():
                policies.setdefault(word, []).append(policy.id)
        if policies:
            unweighted = "; ".join(f"{word} ({', '.join(ids)})" for word, ids in policies.items())
            yield (f"The weights of {self.weights.title} have none for {unweighted}: that counts "
                   "nothing in \N{GREEK SMALL LETTER SIGMA}.")

    def of_kind(self, kind: Kind) -> tuple[ReportScenario, ...]:
        """Return the scenarios of a kind: "home" (the mobile node stays there) or "roaming"."""
        return tuple(place for place in self.places if place.kind == kind)

    def in_group(self, group: str) -> tuple[ScoredPolicy, ...]:
        """Return the policies of a security group, from the weakest to the strongest protection."""
        return tuple(policy for policy in self.policies if policy.group == group)

    def is_papers(self, policy: str) -> bool:
        """Return whether a policy is exactly the 2007 paper's policy of that name."""
        return any(name == policy for _, name, _ in self.published)

    def mean_value(self, metric: str, policy: str,
                   places: Iterable[ReportScenario]) -> float | None:
        """Return a policy's mean value over several scenarios, or None if one was not measured."""
        observations = [self.find_observation(metric, policy, place.id) for place in places]
        values = [value.estimate.mean for value in observations if value is not None]
        return sum(values) / len(values) if values and len(values) == len(observations) else None

    def record_names(self, metric: str, policies: Iterable[str],
                     places: Iterable[ReportScenario]) -> Iterator[str]:
        """Yield the names of the result files that several policies and scenarios have."""
        scenarios = [place.id for place in places]
        for policy in policies:
            for scenario in scenarios:
                value = self.find_observation(metric, policy, scenario)
                yield from value.records if value else ()

    def measured_places(self, metric: str,
                        places: Iterable[ReportScenario]) -> list[ReportScenario]:
        """Return the scenarios in which at least one policy has a value of the metric."""
        measured = {key[2] for key in self.observations if key[0] == metric}
        return [place for place in places if place.id in measured]

    def mean_observation(self, metric: str, policy: str, places: Iterable[ReportScenario],
                         level: float = LEVEL) -> Observation | None:
        """Return a policy's mean with interval, over all scenarios that have the metric.

        The result is None if the policy lacks one of these scenarios. So the means of all policies
        are over equal scenarios.

        Args:
            metric: name of the metric.
            policy: id of the policy.
            places: scenarios to choose from.
            level: confidence level of the interval.
        """
        return mean_over(self.observations, [(metric, policy, place.id) for place in
                                             self.measured_places(metric, places)], level)


# --- Columns, sections and entries that several tables share ---

GROUP_TITLES = {"none": "No security (NS)",
                "open": "Data neither confidential nor protected from change",
                "low": "Low security group",
                "middle": "Middle security group", "high": "High security group",
                "unknown": "Layers not known"}
POLICY = Column("policy", "Policy")
NAME = Column("name", "Name", optional=True)
SIGMA = Column("sigma_normalized_percent", "\N{GREEK SMALL LETTER SIGMA}", "%", digits=1)


def policy_entries(policy: ScoredPolicy) -> tuple[Entry, Entry, Entry]:
    """Return the first columns of a policy's row: id, name and sigma (strength) in percent."""
    sigma = exact_entry(policy.score.sigma_normalized) if policy.score else MISSING_ENTRY
    return Entry(policy.id), Entry(policy.name), sigma


def group_sections(policies: Sequence[ScoredPolicy]) -> tuple[tuple[int, str], ...]:
    """Return the headings of a table: one above the first policy of each security group."""
    return tuple((row, GROUP_TITLES[policy.group]) for row, policy in enumerate(policies)
                 if row == 0 or policy.group != policies[row - 1].group)


def place_columns(places: Iterable[ReportScenario], metric: Metric,
                  digits: int | None) -> Iterator[Column]:
    """Yield a table column for each scenario, under a heading `at home` or `roaming`."""
    for place in places:
        yield Column(insert_before_unit(metric.name, place.id), place.id, metric.unit, metric.scale,
                     digits,
                     KIND_TITLES[place.kind])


def same_as_printed(value: float, printed: float, scale: float, digits: int) -> bool:
    """Return whether a number, rounded like the paper's printed number, is equal to it."""
    return f"{value * scale:.{digits}f}" == f"{printed * scale:.{digits}f}"


# --- Basis from a run: estimates, and sigma by the manifest's layers ---

#: Suffix of the names of components in the visited network.
_AWAY = "_foreign"


def basis_from_run(cells: Cells, weights: Weights | None = None) -> ReportBasis:
    """Collect the values of a run for its report.

    Args:
        cells: the records of the run, grouped by policy and scenario.
        weights: weights of protection, by default those of the 2007 paper.
    """
    results = cells.results
    used = weights or load_weights()
    policies = _scored_policies(results, used)
    observations = dict(cells.observations) | dict(_component_observations(cells))
    sums = _summed_components(cells)
    observations |= dict(_in_both_networks(cells, sums))
    return ReportBasis("measured", policies, tuple(_find_places(cells)), observations, used,
                       cells.baseline.levels.get("policy"), _packet_counts(cells), sums,
                       add_printed_values(policies),
                       tuple(_build_notes(cells.baseline.note, policies)),
                       results.clock, tuple(results.manifest.devices) if results.manifest else (),
                       results.air, looks=results.planned_looks)


def add_printed_values(policies: Iterable[ScoredPolicy]) -> dict[tuple[str, str, str], float]:
    """Return the paper's values for policies whose definition is the same as in the paper.

    Returns:
        Printed values by metric, policy and scenario.
    """
    paper = published.load_values()
    same = {policy.id: policy.layers for policy in published.load_policies()}
    ours = {scored.id for scored in policies
            if scored.definition is not None and same.get(scored.id) == scored.definition.layers}
    return {key: value for key, value in paper.cells.items() if key[1] in ours}


def sort_policies(policies: Iterable[ScoredPolicy]) -> tuple[ScoredPolicy, ...]:
    """Sort policies by sigma (strength of protection), then by name.

    Policies that do not protect data come first, those with unknown layers last.
    """
    return tuple(sorted(policies, key=lambda scored: (
        scored.score is None, scored.score is not None and scored.score.protects,
        scored.score.sigma if scored.score else 0.0, natural_key(scored.id))))


def policy_of(results: Results, name: str) -> Policy | None:
    """Read a policy from the stored plan of a run, or return None if its layers are missing."""
    level = results.find_level("policy", name)
    if level is None or "layers" not in level.content or name in results.changed["policy"]:
        return None
    try:
        return Policy(id=name, name=level.title,
                      layers=Layers.model_validate(level.content["layers"]))
    # The manifest is of another version, or its policy is a different one of that name.
    except ValidationError:
        return None


def scenario_of(results: Results, name: str) -> Scenario | None:
    """Read a scenario from the stored plan of a run, or return None if its network is missing."""
    level = results.find_level("scenario", name)
    if level is None or "network" not in level.content:
        return None
    try:
        scenario: Scenario = from_json(Scenario, level.content)
        return scenario if {scenario.home, scenario.roams_to or scenario.home} <= (
            scenario.network.nodes.keys()) else None
    # The manifest is of another version.
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _scored_policies(results: Results, weights: Weights) -> tuple[ScoredPolicy, ...]:
    among = published.load_policies()
    scored = []
    for name in dict.fromkeys(results.frame["policy"]):
        policy = policy_of(results, name)
        title = results.level_title("policy", name)
        scored.append(ScoredPolicy(name, title, policy,
                                   score_policy(policy, weights, among) if policy else None))
    return sort_policies(scored)


def _find_places(cells: Cells) -> Iterator[ReportScenario]:
    results = cells.results
    for name in results.levels["scenario"]:
        level = results.find_level("scenario", name)
        moved = any(np.isfinite(cells.sample("handoff_s", ids)).any() for ids in results.cells
                    if ids[1] == name)
        roams = moved or bool(level and level.content.get("roams_to"))
        kind: Kind = "roaming" if roams else "home"
        yield ReportScenario(name, results.level_title("scenario", name), kind, _channels_of(level))


def _channels_of(level: LevelRecord | None) -> frozenset[int]:
    """Return the radio channels of a scenario's access points, from the stored plan of a run."""
    network = level.content.get("network") if level else None
    nodes = network.get("nodes") if isinstance(network, dict) else None
    return frozenset(node["channel"] for node in (nodes or {}).values()
                     if isinstance(node.get("channel"), int))


def _component_observations(cells: Cells) -> Iterator[tuple[Key, Observation]]:
    """Yield the mean duration of each negotiation, with its key (column and cell).

    A repetition in which the negotiation did not take place counts as 0.
    """
    for name in component_names(cells.results.frame):
        column = f"component_{name}_s"
        for ids in cells.results.cells:
            value = cells.value(column, ids, filled=True)
            if isinstance(value, Observation):
                yield (column, *ids), value


def _in_both_networks(cells: Cells, sums: Mapping[tuple[str, str], Sequence[str]],
                      ) -> Iterator[tuple[Key, Observation]]:
    """Yield authentication times that count all negotiations in the visited network.

    Table 4 of the 2007 paper counts only some of these.
    """
    away = [name for name in component_names(cells.results.frame) if name.endswith(_AWAY)]
    for ids in cells.results.cells:
        summed = cells.value(AUTHENTICATION.name, ids)
        further = [cells.value(f"component_{name}_s", ids, filled=True) for name in away
                   if name not in sums.get((ids[0], ids[1]), ())]
        parts = [part for part in (summed, *further) if isinstance(part, Observation)]
        if not isinstance(summed, Observation) or not summed.blocks:
            continue
        blocks = {block: sum(part.blocks.get(block, 0.0) for part in parts)
                  for block in summed.blocks}
        yield (IN_BOTH_NETWORKS, *ids), replace(
            summed, estimate=statistics.mean(blocks.values()), blocks=blocks)


def _packet_counts(cells: Cells) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the fewest and most packets of each phase, by phase and policy.

    Phases at home and in the visited network are counted together.
    """
    counts: dict[tuple[str, str], list[float]] = {}
    for name in phase_names(cells.results.frame):
        for ids in cells.results.cells:
            values = cells.sample(f"phase_{name}_packets", ids)
            counts.setdefault((name.removeprefix(FOREIGN), ids[0]), []).extend(
                values[np.isfinite(values)].tolist())
    # The value of a repetition is the mean over its authentications.
    return {key: (math.floor(min(values)), math.ceil(max(values)))
            for key, values in counts.items() if values}


def _summed_components(cells: Cells) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return which negotiations the authentication time adds up, by policy and scenario."""
    sums = {}
    for ids in cells.results.cells:
        words = cells.find_words("authentication_sum", ids)
        if words:
            sums[ids[0], ids[1]] = tuple(part for part in words[0].split("+") if part)
    return sums


def _build_notes(about_baseline: str, policies: Iterable[ScoredPolicy]) -> Iterator[str]:
    """Yield notes on the baseline, on policies without a score, and on settings without a check."""
    if about_baseline:
        yield about_baseline
    #: Policies by the settings of theirs that no check covers.
    unchecked: dict[str, list[str]] = {}
    for scored in policies:
        if scored.score is None:
            yield (f"{scored.id}: the results folder does not say which layers it has (or its "
                   "records are of others), so it has no sigma.")
        if scored.definition is not None and (
            left := judgement.unchecked_settings(scored.definition)):
            unchecked.setdefault("; ".join(each.description for each in left), []).append(
                scored.id)
    for settings, ids in unchecked.items():
        yield (f"{join_words(ids)}: no check covers {settings}. The daemons were configured so, "
               "but no capture proves it.")


# --- Basis from the paper: its printed values, without intervals ---

_PLACES: tuple[tuple[str, Kind], ...] = (
    ("N1", "home"), ("N2", "home"), ("N3", "home"), ("R1", "roaming"), ("R2", "roaming"))


def basis_from_paper(weights: Weights | None = None) -> ReportBasis:
    """Collect the values that the paper printed for P1 to P12 in its five scenarios.

    The paper gives one authentication time for all scenarios at home, and one for all roaming ones.
    Each scenario gets the time of its kind.
    """
    used, printed = weights or load_weights(), published.load_values()
    among = published.load_policies()
    policies = sort_policies(ScoredPolicy(policy.id, policy.name, policy,
                                          score_policy(policy, used, among))
                             for policy in among)
    places = tuple(ReportScenario(name, printed.scenarios[name], kind) for name, kind in _PLACES)
    return ReportBasis("published", policies, places, dict(_printed_observations(printed)), used,
                       "P1",
                       published=printed.cells)


def _printed_observations(printed: published.PublishedValues) -> Iterator[tuple[Key, Observation]]:
    for key, value in printed.cells.items():
        yield key, stated_observation(value, "published")
    for (policy, kind), seconds in printed.authentication_time_s.items():
        for scenario, its_kind in _PLACES:
            if its_kind == kind:
                yield ("authentication_time_s", policy,
                       scenario), stated_observation(seconds, "published")
