"""A study from a run's records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from analysis import overhead, published, statistics
from analysis.frame import METRICS, Frame, Results, components, natural, phases
from analysis.names import scenario_title
from analysis.protection.score import score
from analysis.rows import FOREIGN
from analysis.study.model import Kind, Observation, Place, Profile, Study
from measure.record import record_name
from policies import Policy, Weights, load_all, load_weights

_OVERHEADS = {"tcp_goodput_bps": "tcp_overhead_bps", "udp_goodput_bps": "udp_overhead_bps"}
_Cells = dict[tuple[str, str, str], Observation]


def measured(results: Results, weights: Weights | None = None, baseline: str = "P1",
             policies: Sequence[Policy] = ()) -> Study:
    """The study of a run.

    `policies` are those of one's own files, beside the paper's twelve: records name a policy by id
    and the digest of its layers, and sigma needs the layers. `baseline` as in `summarize`.
    """
    used = weights or load_weights()
    reference = overhead.choose_baseline(results.frame, baseline)
    profiles = _profiles(results, used, policies)
    found = dict(_observations(results))
    if reference.policy:
        found |= _overheads(found, reference.policy)
    return Study("measured", profiles, tuple(_places(results)), found, used, reference.policy,
                 _packets(results.good), _sums(results.good),
                 printed_beside(profiles), tuple(_notes(reference.note, profiles)), results.clock)


def printed_beside(profiles: Iterable[Profile]) -> dict[tuple[str, str, str], float]:
    """The published values of the policies that are the paper's, by their layers."""
    paper = published.load()
    same = {policy.id: policy.digest() for policy in load_all()}
    ours = {one.id for one in profiles
            if one.policy is not None and same.get(one.id) == one.policy.digest()}
    return {key: value for key, value in paper.cells.items() if key[1] in ours}


def in_order(profiles: Iterable[Profile]) -> tuple[Profile, ...]:
    """By sigma, then by name; policies of unknown layers last."""
    return tuple(sorted(profiles, key=lambda one: (
        one.score is None, one.score.sigma if one.score else 0.0, natural(one.id))))


def _profiles(results: Results, weights: Weights, extra: Sequence[Policy]) -> tuple[Profile, ...]:
    known = {policy.digest(): policy for policy in (*extra, *load_all())}
    by_id = {policy.id: policy for policy in (*load_all(), *extra)}
    digests = results.frame.groupby("policy", sort=False)["policy_sha256"].first()
    profiles = []
    for name, digest in digests.items():
        # Without a digest there is nothing that contradicts the name.
        policy = known.get(digest) if digest else by_id.get(name)
        if policy is not None and policy.id != name:
            policy = policy.model_copy(update={"id": name})
        title = results.plan.names.get(name) or (policy.name if policy else "")
        profiles.append(Profile(name, title, policy, score(policy, weights) if policy else None))
    return in_order(profiles)


def _places(results: Results) -> Iterator[Place]:
    moved = set(results.frame.loc[results.frame["handoff_s"].notna(), "scenario"])
    names = list(dict.fromkeys([*results.plan.scenarios, *results.frame["scenario"]]))
    for name in names:
        kind: Kind = "roaming" if name in moved or _roams(name) else "home"
        yield Place(name, scenario_title(name), kind)


def _roams(scenario: str) -> bool:
    from topologies.loader import TopologyError, load_scenario, scenario_ids

    if scenario not in scenario_ids():  # the name comes from a record, not a path
        return False
    try:
        return load_scenario(scenario).roams_to is not None
    except TopologyError:
        return False


def _observations(results: Results) -> Iterator[tuple[tuple[str, str, str], Observation]]:
    parts = {f"component_{name}_s": True for name in components(results.frame)}
    wanted = dict.fromkeys(METRICS, False) | parts
    for (policy, scenario), part in results.frame.groupby(["policy", "scenario"], sort=False):
        good = part[part["status"] == "ok"]
        enough = min(2, max(len(part), results.plan.repetitions))
        repetitions = good["repetition"].to_numpy(dtype=np.int64)
        records = tuple(record_name(policy, scenario, number) for number in repetitions.tolist())
        for metric, is_part in wanted.items():
            values = good[metric].to_numpy(dtype=np.float64)
            there = np.isfinite(values)
            if is_part and there.any():
                # A component that one repetition lacks took no time there.
                values, there = np.where(there, values, 0.0), np.ones_like(there)
            if there.sum() >= enough:
                blocks = dict(zip(repetitions[there].tolist(), values[there].tolist(), strict=True))
                named = records if there.all() else tuple(
                    name for name, is_there in zip(records, there, strict=True) if is_there)
                yield (metric, policy, scenario), Observation(
                    statistics.mean(values[there]), blocks, named)


def _overheads(found: Mapping[tuple[str, str, str], Observation], baseline: str) -> _Cells:
    lost: _Cells = {}
    for (metric, policy, scenario), one in found.items():
        reference = found.get((metric, baseline, scenario))
        if metric not in _OVERHEADS or policy == baseline or reference is None:
            continue
        common = sorted(reference.blocks.keys() & one.blocks.keys())
        if len(common) >= min(2, len(one.blocks)) and common:
            values = {block: reference.blocks[block] - one.blocks[block] for block in common}
            lost[_OVERHEADS[metric], policy, scenario] = Observation(
                statistics.mean(values.values()), values, one.records)
    return lost


def _packets(good: Frame) -> dict[tuple[str, str], tuple[int, int]]:
    """Fewest and most packets of a phase, by its name (at home or away) and policy."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for name in phases(good):
        column = f"phase_{name}_packets"
        if column not in good.columns:
            continue
        grouped = good[good[column].notna()].groupby("policy")[column]
        for policy, low, high in zip(grouped.min().index, grouped.min(), grouped.max(),
                                     strict=True):
            key = (name.removeprefix(FOREIGN), str(policy))
            before = found.get(key, (int(low), int(high)))
            found[key] = min(before[0], int(low)), max(before[1], int(high))
    return found


def _sums(good: Frame) -> dict[tuple[str, str], tuple[str, ...]]:
    """The components that the authentication time adds up, by policy and scenario."""
    sums = good.groupby(["policy", "scenario"], sort=False)["authentication_sum"].first()
    return {(str(key[0]), str(key[1])): tuple(part for part in text.split("+") if part)
            for key, text in sums.items()}


def _notes(about_baseline: str, profiles: Iterable[Profile]) -> Iterator[str]:
    if about_baseline:
        yield about_baseline
    for one in profiles:
        if one.score is None:
            yield (f"{one.id}: its layers are not known here, so it has no sigma; give its policy "
                   "file, too.")
        elif one.score.unweighted:
            yield (f"{one.id}: no weight is given for {', '.join(one.score.unweighted)}; that "
                   "counts nothing in its sigma.")


