"""Tables 1 to 3: features, weights and sigma."""

from __future__ import annotations

from analysis.numbers import NOTHING, exact_entry
from analysis.table import Column, Entry, Table
from policies.weights import Feature
from studies.qop2007 import published as paper
from studies.qop2007.report.basis import Basis, ScoredPolicy
from studies.qop2007.report.entries import (
    NAME,
    POLICY,
    SIGMA,
    group_sections,
    policy_entries,
    same_as_printed,
)

_YES, _NO = "Y", ""
_INTEGRITY = ("Table 1 marks no data integrity for P5 and P7; their sigma in Table 3 counts the 1 "
              "that Table 2 gives EAP-MD5.")
_ONCE = ("Integrity counts once per policy, as the strongest of its implementations; a plain sum "
         "would give P9 and P11 one more than Table 3 prints.")


def table_1(basis: Basis) -> Table:
    """Build Table 1: the features of each policy."""
    rows = []
    for policy in basis.policies:
        entries = [_feature_entry(basis, policy, feature) for feature in basis.weights.features]
        rows.append((*policy_entries(policy)[:2], *entries))
    return Table("table-1", "Table 1: features of security policies",
                 (POLICY, NAME, *(Column(name, title)
                                  for name, title in basis.weights.features.items())),
                 tuple(rows), "What a policy's layers provide, by the weights in use.",
                 (_INTEGRITY,) if _has_paper(basis) else (), group_sections(basis.policies))


def _feature_entry(basis: Basis, policy: ScoredPolicy, feature: Feature) -> Entry:
    if policy.score is None:
        return NOTHING
    ours = _YES if feature in policy.score.features else _NO
    known = paper.load().features.get(policy.id) if basis.is_papers(policy.id) else None
    if known is None:
        return Entry(ours)
    theirs = _YES if feature in known else _NO
    if ours == theirs:
        return Entry(ours)
    note = f"printed: {theirs or 'no mark'}; by the weights: {ours or 'none'}"
    return Entry(theirs if basis.origin == "published" else ours,
                 marks=frozenset({"differs"}), note=note)


def table_2(basis: Basis) -> Table:
    """Build Table 2: the weights in use, next to those that the paper printed."""
    printed = paper.load().weights
    rows: list[tuple[Entry, ...]] = []
    starts: dict[str, int] = {}
    ordered = sorted(basis.weights.implementations.items(),
                     key=lambda item: item[1].source != "table-2")
    for key, policy in ordered:
        starts.setdefault(policy.source, len(rows))
        entries = []
        for feature in basis.weights.features:
            weight, theirs = policy.weights.get(feature), printed.get(key, {}).get(feature)
            entries.append(Entry("-", published=theirs) if weight is None
                           else exact_entry(weight, theirs, ["differs"] * (
                               theirs is not None and theirs != weight)))
        rows.append((Entry(key), Entry(policy.name), *entries))
    titles = {"table-2": "Printed in the paper", "extension": "Beyond the paper"}
    return Table("table-2", "Table 2: weights of implementations",
                 (Column("implementation", "Implementation"), NAME,
                  *(Column(f"weight_{name}", title)
                    for name, title in basis.weights.features.items())),
                 tuple(rows), "A weight says which of two implementations is stronger, not by how "
                 "much.", (_ONCE,) if basis.weights.once == ["data_integrity"] else (),
                 tuple((row, titles[source]) for source, row in starts.items()))


def table_3(basis: Basis) -> Table:
    """Build Table 3: additive rewards, normalised rewards and groups."""
    printed = paper.load()
    groups = {policy: group for group, members in printed.groups.items() for policy in members}
    rows = []
    for scored in basis.policies:
        known = basis.is_papers(scored.id)
        if scored.score is None:
            rows.append((*policy_entries(scored)[:2], NOTHING, NOTHING, NOTHING))
            continue
        group = Entry(scored.group)
        if known and groups.get(scored.id) != scored.group:
            group = Entry(scored.group, marks=frozenset({"differs"}),
                          note=f"printed: {groups.get(scored.id)}")
        sigma, normalized = (values.get(scored.id) if known else None
                             for values in (printed.sigma, printed.sigma_normalized))
        rows.append((*policy_entries(scored)[:2], _entry_with_printed(scored.score.sigma, sigma, 0),
                     _entry_with_printed(scored.score.sigma_normalized, normalized, 1), group))
    limits = basis.weights.groups
    return Table("table-3", "Table 3: additive rewards",
                 (POLICY, NAME, Column("sigma", "\N{GREEK SMALL LETTER SIGMA}"), SIGMA,
                  Column("group", "Group")), tuple(rows),
                 "Sum of the weights of what a policy has (equation 1); in percent of the "
                 "strongest of the paper's twelve.",
                 (f"Groups: low below {limits.middle:g} %, high above {limits.high:g} %.",
                  *basis.without_weight(),
                  *([_ONCE] if basis.weights.once == ["data_integrity"] else [])),
                 group_sections(basis.policies))


def _entry_with_printed(value: float, printed: float | None, digits: int) -> Entry:
    differs = printed is not None and not same_as_printed(value, printed, 1.0, digits)
    return exact_entry(value, printed, ["differs"] * differs)


def _has_paper(basis: Basis) -> bool:
    return any(basis.is_papers(policy.id) for policy in basis.policies)
