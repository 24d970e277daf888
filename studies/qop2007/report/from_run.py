"""Basis of a report from a run: estimates, and sigma by the manifest's layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from pydantic import ValidationError

from analysis import statistics
from analysis.cells import Cells, Key, Observation
from analysis.protection.score import score_policy
from analysis.results import Results
from analysis.text import natural_key
from measure import unproven
from measure.manifest import LevelRecord
from policies import Layers, Policy, Weights, load_weights
from studies.qop2007 import published
from studies.qop2007.body import FOREIGN
from studies.qop2007.metrics import AUTHENTICATION
from studies.qop2007.report.basis import IN_BOTH_NETWORKS, Basis, Kind, Place, ScoredPolicy
from studies.qop2007.report.phase_names import component_names, phase_names
from topologies.model import Scenario, from_json

#: Suffix of the names of components in the visited network.
_AWAY = "_foreign"


def basis_from_run(cells: Cells, weights: Weights | None = None) -> Basis:
    """Return the basis of a run, by default with the paper's weights."""
    results = cells.results
    used = weights or load_weights()
    policies = _scored_policies(results, used)
    observations = dict(cells.observations) | dict(_component_observations(cells))
    sums = _summed_components(cells)
    observations |= dict(_in_both_networks(cells, sums))
    return Basis("measured", policies, tuple(_find_places(cells)), observations, used,
                 cells.baseline.levels.get("policy"), _packet_counts(cells), sums,
                 printed_beside(policies), tuple(_build_notes(cells.baseline.note, policies)),
                 results.clock, tuple(results.manifest.devices) if results.manifest else (),
                 results.air)


def printed_beside(policies: Iterable[ScoredPolicy]) -> dict[tuple[str, str, str], float]:
    """Return the published values of the policies that have the layers of the paper's."""
    paper = published.load()
    same = {policy.id: policy.layers for policy in published.policies()}
    ours = {scored.id for scored in policies
            if scored.definition is not None and same.get(scored.id) == scored.definition.layers}
    return {key: value for key, value in paper.cells.items() if key[1] in ours}


def sort_policies(policies: Iterable[ScoredPolicy]) -> tuple[ScoredPolicy, ...]:
    """Sort policies by sigma, then by name.

    Policies that do not protect data come first, those with unknown layers last.
    """
    return tuple(sorted(policies, key=lambda scored: (
        scored.score is None, scored.score is not None and scored.score.protects,
        scored.score.sigma if scored.score else 0.0, natural_key(scored.id))))


def policy_of(results: Results, name: str) -> Policy | None:
    """Return a policy from the run's manifest, or None if that lacks its layers."""
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
    """Return a scenario from the run's manifest, or None if that lacks its network."""
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
    among = published.policies()
    scored = []
    for name in dict.fromkeys(results.frame["policy"]):
        policy = policy_of(results, name)
        title = results.level_title("policy", name)
        scored.append(ScoredPolicy(name, title, policy,
                                   score_policy(policy, weights, among) if policy else None))
    return sort_policies(scored)


def _find_places(cells: Cells) -> Iterator[Place]:
    results = cells.results
    for name in results.levels["scenario"]:
        level = results.find_level("scenario", name)
        moved = any(np.isfinite(cells.sample("handoff_s", ids)).any() for ids in results.cells
                    if ids[1] == name)
        roams = moved or bool(level and level.content.get("roams_to"))
        kind: Kind = "roaming" if roams else "home"
        yield Place(name, results.level_title("scenario", name), kind, _channels_of(level))


def _channels_of(level: LevelRecord | None) -> frozenset[int]:
    """Return the channels of a scenario's access points, from the run's manifest."""
    network = level.content.get("network") if level else None
    nodes = network.get("nodes") if isinstance(network, dict) else None
    return frozenset(node["channel"] for node in (nodes or {}).values()
                     if isinstance(node.get("channel"), int))


def _component_observations(cells: Cells) -> Iterator[tuple[Key, Observation]]:
    """Yield the components of the authentication time, 0 in repetitions that lack them."""
    for name in component_names(cells.results.frame):
        column = f"component_{name}_s"
        for ids in cells.results.cells:
            value = cells.value(column, ids, filled=True)
            if isinstance(value, Observation):
                yield (column, *ids), value


def _in_both_networks(cells: Cells, sums: Mapping[tuple[str, str], Sequence[str]],
                      ) -> Iterator[tuple[Key, Observation]]:
    """Yield authentication times with all negotiations of the visited network.

    Table 4 does not add up all of them.
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
    """Return fewest and most packets of a phase, by its name and policy.

    The names at home and away are the same.
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
    """Return the components that the authentication time adds up, by policy and scenario."""
    sums = {}
    for ids in cells.results.cells:
        words = cells.find_words("authentication_sum", ids)
        if words:
            sums[ids[0], ids[1]] = tuple(part for part in words[0].split("+") if part)
    return sums


def _build_notes(about_baseline: str, policies: Iterable[ScoredPolicy]) -> Iterator[str]:
    if about_baseline:
        yield about_baseline
    for scored in policies:
        if scored.score is None:
            yield (f"{scored.id}: the results folder does not say which layers it has (or its "
                   "records are of others), so it has no sigma.")
        if scored.definition is not None and (
            left := unproven.unchecked_settings(scored.definition)):
            yield (
                f"{scored.id}: no check covers {'; '.join(each.description for each in left)}. The "
                   "daemons were told so, and it could be otherwise.")
