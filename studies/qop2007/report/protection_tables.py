"""Build the tables of the protection that security policies give: features, sigma and attacks.

Sigma is the sum of the weights of a policy's features (Tables 1 to 3 of the 2007 paper). The
functions take the policies of a run. Further tables show how sure the order by sigma is, which
attacks a policy withstands, and sigma by today's weights. The paper is Agarwal and Wang (2007).
`studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from analysis.protection import RankSwap, compare_policies, rank_sensitivity, score_policy
from analysis.reporting.table_entries import MISSING_ENTRY, exact_entry
from analysis.table import Column, Entry, Quantity, Table
from policies import Policy, load_weights
from policies.document import read_document
from policies.policy import FactConditions, facts_from_policy, is_fulfilled
from policies.weights import TODAYS, Feature
from studies.qop2007 import published
from studies.qop2007 import published as paper
from studies.qop2007.report.basis import (
    NAME,
    POLICY,
    SIGMA,
    ReportBasis,
    ScoredPolicy,
    group_sections,
    policy_entries,
    same_as_printed,
    sort_policies,
)

_YES, _NO = "Y", ""
_INTEGRITY = ("Table 1 marks no data integrity for P5 and P7; their sigma in Table 3 counts the 1 "
              "that Table 2 gives EAP-MD5.")
_ONCE = ("Integrity counts once per policy, as the strongest of its implementations; a plain sum "
         "would give P9 and P11 one more than Table 3 prints.")


def build_table_1(basis: ReportBasis) -> Table:
    """Build Table 1: the security features of each policy."""
    rows = []
    for policy in basis.policies:
        entries = [_feature_entry(basis, policy, feature) for feature in basis.weights.features]
        rows.append((*policy_entries(policy)[:2], *entries))
    return Table("table-1", "Table 1: features of security policies",
                 (POLICY, NAME, *(Column(name, title)
                                  for name, title in basis.weights.features.items())),
                 tuple(rows), "Features that a policy's layers provide, by the weights in use.",
                 (_INTEGRITY,) if _has_paper(basis) else (), group_sections(basis.policies))


def _feature_entry(basis: ReportBasis, policy: ScoredPolicy, feature: Feature) -> Entry:
    if policy.score is None:
        return MISSING_ENTRY
    ours = _YES if feature in policy.score.features else _NO
    known = paper.load_values().features.get(policy.id) if basis.is_papers(policy.id) else None
    if known is None:
        return Entry(ours)
    theirs = _YES if feature in known else _NO
    if ours == theirs:
        return Entry(ours)
    note = f"printed: {theirs or 'no mark'}; by the weights: {ours or 'none'}"
    return Entry(theirs if basis.origin == "published" else ours,
                 marks=frozenset({"differs"}), note=note)


def build_table_2(basis: ReportBasis) -> Table:
    """Build Table 2: the weights of features, next to those that the paper printed."""
    printed = paper.load_values().weights
    rows: list[tuple[Entry, ...]] = []
    starts: dict[str, int] = {}
    ordered = sorted(basis.weights.implementations.items(),
                     key=lambda item: item[1].source != "table-2")
    for key, implementation in ordered:
        starts.setdefault(implementation.source, len(rows))
        entries = []
        for feature in basis.weights.features:
            weight = implementation.weights.get(feature)
            theirs = printed.get(key, {}).get(feature)
            entries.append(Entry("-", published=theirs) if weight is None
                           else exact_entry(weight, theirs, ["differs"] * (
                               theirs is not None and theirs != weight)))
        rows.append((Entry(key), Entry(implementation.name), *entries))
    titles = {"table-2": "Printed in the paper", "extension": "Beyond the paper"}
    return Table("table-2", "Table 2: weights of implementations",
                 (Column("implementation", "Implementation"), NAME,
                  *(Column(f"weight_{name}", title)
                    for name, title in basis.weights.features.items())),
                 tuple(rows), "A weight shows which of two implementations is stronger, but not "
                              "by how much.",
                 (_ONCE,) if basis.weights.once == ["data_integrity"] else (),
                 tuple((row, titles[source]) for source, row in starts.items()))


def build_table_3(basis: ReportBasis) -> Table:
    """Build Table 3: sigma of each policy, sigma in percent of the largest, and security group."""
    printed = paper.load_values()
    groups = {policy: group for group, members in printed.groups.items() for policy in members}
    rows = []
    for scored in basis.policies:
        known = basis.is_papers(scored.id)
        if scored.score is None:
            rows.append((*policy_entries(scored)[:2], MISSING_ENTRY, MISSING_ENTRY, MISSING_ENTRY))
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
                 "Sum of the weights of a policy's features (equation 1), in percent of the "
                 "strongest of the paper's twelve policies.",
                 (f"Groups: low below {limits.middle:g} %, high above {limits.high:g} %.",
                  *basis.without_weight(),
                  *([_ONCE] if basis.weights.once == ["data_integrity"] else [])),
                 group_sections(basis.policies))


def _entry_with_printed(value: float, printed: float | None, digits: int) -> Entry:
    differs = printed is not None and not same_as_printed(value, printed, 1.0, digits)
    return exact_entry(value, printed, ["differs"] * differs)


def _has_paper(basis: ReportBasis) -> bool:
    return any(basis.is_papers(policy.id) for policy in basis.policies)


# --- Attacks, and whether policies withstand them (section 6.4 of the paper) ---

_FILE = Path(__file__).with_name("attacks.yml")
#: Attacks that the paper does not discuss.
TODAYS_ATTACKS = Path(__file__).with_name("attacks-2026.yml")


@dataclass(frozen=True)
class Attack:
    """An attack: the protections that stop it, and the policies that the paper calls safe.

    - `reason`: why the protections stop it
    - `withstood_by`: conditions on a policy's layers, of which one suffices
    - `said`: for each policy that the paper judges, whether the paper calls it safe
    """

    id: str
    title: str
    reason: str
    withstood_by: tuple[FactConditions, ...]
    said: Mapping[str, bool]
    #: Test of the attack and its result, or "" where there are only arguments.
    tried: str = ""

    def is_withstood(self, policy: Policy) -> bool:
        """Return whether a layer of the policy stops the attack."""
        facts = facts_from_policy(policy)
        return any(is_fulfilled(when, facts) for when in self.withstood_by)


@cache
def load_attacks(file: Path = _FILE) -> tuple[Attack, ...]:
    """Read the attacks of a file in its order, by default the paper's attacks."""
    document: dict[str, Any] = read_document(str(file)).data
    return tuple(Attack(key, attack["title"], attack["reason"], tuple(attack["withstood_by"]),
                        {policy: word == "withstands" for policy, word in attack["said"].items()},
                        attack.get("tried", ""))
                 for key, attack in document.items())


# --- Other views than the additive reward: maxima, sensitivity and attacks ---

_TODAY = ("This is what the paper knew. WEP's keys have since been recovered from minutes of "
          "traffic: count a policy's WEP as no protection today.")


def build_views_table(basis: ReportBasis) -> Table:
    """Build a table that compares the protection of policies without adding up all weights.

    For each policy, it has the weight of the strongest implementation of each feature, the sum of
    these weights, and the policies that dominate it. A policy dominates another one if it is at
    least as strong in every feature and stronger in one.
    """
    known = [policy for policy in basis.policies if policy.score is not None]
    policy_views = compare_policies([policy.score for policy in known if policy.score is not None])
    rows = []
    for policy, view in zip(known, policy_views, strict=True):
        strongest = policy.score.strongest if policy.score else {}
        front = ["best"] if view.on_front else []
        weights = [exact_entry(strongest.get(name, 0.0)) for name in basis.weights.features]
        rows.append((*policy_entries(policy), *weights,
                     exact_entry(view.maximum), Entry(", ".join(view.equals)),
                     Entry(", ".join(view.dominated_by) or "none", marks=frozenset(front))))
    group = "Strongest weight"
    return Table("views", "Protection without adding up",
                 (POLICY, NAME, SIGMA,
                  *(Column(f"strongest_{name}", title, group=group)
                    for name, title in basis.weights.features.items()),
                  Column("maximum", "Sum of them"), Column("equals", "As strong as"),
                  Column("dominated_by", "Dominated by")),
                 tuple(rows), "Section 3.4 of the paper: in a sum, several weak implementations "
                 "outweigh a strong one. Here a feature counts as its strongest implementation; "
                 "and a policy dominates another that it equals or exceeds in every feature.",
                 ("Best: on the Pareto front, dominated by none.",), group_sections(known))


def build_sensitivity_table(basis: ReportBasis, generator: np.random.Generator) -> Table:
    """Build the table of each policy's possible ranks by sigma if weights change at random.

    It also names the smallest change of weights that swaps a policy with a neighbour.
    """
    known = {policy.id: policy for policy in basis.policies if policy.definition is not None}
    ranking = rank_sensitivity([policy.definition for policy in known.values()
                                if policy.definition is not None],
                               basis.weights, generator)
    rows = []
    for rank, swap in zip_longest(ranking.ranks, ranking.swaps):
        below = rank is not ranking.ranks[-1]
        rows.append((*policy_entries(known[rank.policy]),
                     Entry(number=Quantity(rank.rank, rank.low, rank.high, ranking.draws)),
                     *_swap_entries(basis, swap, below=below)))
    return Table("sensitivity", "How sure the ranking is",
                 (POLICY, NAME, SIGMA, Column("rank", "Rank", digits=0),
                  Column("swap", "Changes places with the next below when", group="Smallest swap"),
                  Column("swap_change_percent", "Change", "%", digits=0, group="Smallest swap")),
                 tuple(rows),
                 f"Ranks under {ranking.draws} draws of the weights ({ranking.scheme}, each weight "
                 f"varying by {100 * ranking.spread:.0f} % of itself, the order of weights within "
                 "a feature kept): the interval holds 95 % of them.",
                 (f"The whole ranking stayed as it is in {100 * ranking.kept:.0f} % of the draws.",
                  "No swap: the upper policy has all that the lower one has, and more."))


def _swap_entries(basis: ReportBasis, swap: RankSwap | None, *, below: bool) -> tuple[Entry, Entry]:
    """Return two entries: the weight change that swaps a policy's rank, and its size in percent."""
    if swap is None:
        return Entry("never, by one weight" if below else ""), Entry("")
    name = basis.weights.implementations[swap.implementation].name
    feature = basis.weights.features[swap.feature].lower()
    text = f"{name}, {feature}: {swap.before:g} to {swap.after:g}"
    return Entry(f"with {swap.below}: {text}"), exact_entry(100 * swap.change)


def build_attacks_table(basis: ReportBasis) -> Table:
    """Build the table of attacks that each policy withstands (section 6.4 of the paper)."""
    known, kinds = [policy for policy in basis.policies
                    if policy.definition is not None], load_attacks()
    rows = []
    for policy in known:
        entries = list(_attack_entries(basis, policy))
        rows.append((*policy_entries(policy), *entries))
    return Table("attacks", "Attacks withstood",
                 (POLICY, NAME, SIGMA, *(Column(attack.id, attack.title) for attack in kinds)),
                 tuple(rows),
                 "By the reasons that section 6.4 of the paper gives, from a policy's layers.",
                 (*(f"{attack.title}: {attack.reason}" for attack in kinds), _TODAY),
                 group_sections(known))


def _attack_entries(basis: ReportBasis, policy: ScoredPolicy) -> Iterator[Entry]:
    for attack in load_attacks():
        if policy.definition is None:
            continue
        holds = attack.is_withstood(policy.definition)
        printed = attack.said.get(policy.id) if basis.is_papers(policy.id) else None
        differs = printed is not None and printed != holds
        yield Entry("yes" if holds else "no", marks=frozenset(["differs"] * differs),
                    note="" if printed is not None else "the paper does not say")


# --- Protection by today's weights, in columns apart from the paper's ---

_SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
_NOT_MIXED = ("The columns use two schemes of weights, so their percentages cannot be compared. "
              "In the scheme of 2007, features add up, and implementations that have been broken "
              "since still count.")


_OPEN = ("Group open: neither confidential nor protected from change on any layer, so never "
         "recommended, whatever the sum.")


def rescore_today(basis: ReportBasis) -> ReportBasis:
    """Return the same values with sigma by today's weights, and policies in that order."""
    weights, among = load_weights(TODAYS), published.load_policies()
    policies = sort_policies(
        replace(policy, score=score_policy(policy.definition, weights, among))
        if policy.definition else policy for policy in basis.policies)
    return replace(basis, policies=policies, weights=weights, notes=())


def protection_tables(basis: ReportBasis, today: ReportBasis) -> Iterator[Table]:
    """Yield a table of sigma by the weights of 2007 and of 2026, and one of today's attacks.

    Args:
        basis: the values with sigma by the weights of 2007.
        today: the values with sigma by the weights of 2026.
    """
    yield _score_table(basis, today)
    yield _attack_table(today)


def _score_table(basis: ReportBasis, today: ReportBasis) -> Table:
    then = {policy.id: policy_entries(policy)[2] for policy in basis.policies}
    known = [policy for policy in today.policies if policy.score is not None]
    features = today.weights.features
    rows = []
    for policy in known:
        strongest = policy.score.strongest if policy.score else {}
        rows.append((*policy_entries(policy)[:2], then.get(policy.id, MISSING_ENTRY),
                     policy_entries(policy)[2],
                     Entry(policy.group),
                     *(exact_entry(strongest.get(name, 0.0)) for name in features)))
    limits, title = today.weights.groups, today.weights.title
    return Table(f"protection-{title}", f"Protection as of {title}, beside 2007's",
                 (POLICY, NAME, replace(SIGMA, key="sigma_2007_percent", title=f"{_SIGMA} 2007"),
                  replace(SIGMA, key=f"sigma_{title}_percent", title=f"{_SIGMA} {title}"),
                  Column(f"group_{title}", f"Group {title}"),
                  *(Column(f"{name}_{title}", words, group="Strongest layer")
                    for name, words in features.items())),
                 tuple(rows), "A feature counts once, as the strongest layer provides it. Broken "
                              "implementations weigh nothing. The percentage is of the best "
                              "implementation of every feature.",
                 (_NOT_MIXED, _OPEN,
                  (f"Groups of {title}: low below {limits.middle:g} %, high above "
                   f"{limits.high:g} %. Weights: policies/{TODAYS.name}, which is our judgement.")),
                 group_sections(known))


def _attack_table(today: ReportBasis) -> Table:
    kinds = load_attacks(TODAYS_ATTACKS)
    known = [policy for policy in today.policies if policy.definition is not None]
    rows = [(*policy_entries(policy)[:2],
             *(Entry("yes" if attack.is_withstood(policy.definition) else "no")
                                            for attack in kinds if policy.definition)) for policy
            in known]
    title = today.weights.title
    return Table(f"attacks-{title}", f"Attacks withstood, as of {title}",
                 (POLICY, NAME, *(Column(f"{attack.id}_{title}", attack.title,
                                         group="Tested" if attack.tried else "Argued")
                                  for attack in kinds)),
                 tuple(rows), "From a policy's layers, by the reasons below. Those tested have "
                 "been carried out, where they succeed and where they are withstood.",
                 tuple(f"{attack.title}: {attack.reason}"
                       + (f" Tested: {attack.tried}." if attack.tried else "")
                       for attack in kinds), group_sections(known))
