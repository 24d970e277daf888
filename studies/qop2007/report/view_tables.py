"""Other views of protection than the additive reward: maxima, sensitivity and attacks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from analysis.numbers import exact_entry
from analysis.protection import rank_sensitivity
from analysis.protection.dominance import make_views
from analysis.protection.rank_reversal import Swap
from analysis.table import Column, Entry, Quantity, Table
from studies.qop2007.report.attacks import load_attacks
from studies.qop2007.report.basis import Basis, ScoredPolicy
from studies.qop2007.report.entries import NAME, POLICY, SIGMA, group_sections, policy_entries

_TODAY = ("This is what the paper knew. WEP's keys have since been recovered from minutes of "
          "traffic: count a policy's WEP as no protection today.")


def table_views(basis: Basis) -> Table:
    """Build the table of features' strongest weights, their sum and dominance."""
    known = [policy for policy in basis.policies if policy.score is not None]
    policy_views = make_views([policy.score for policy in known if policy.score is not None])
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


def table_sensitivity(basis: Basis, generator: np.random.Generator) -> Table:
    """Build the table of rank intervals under perturbed weights, and of the smallest swaps."""
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


def _swap_entries(basis: Basis, swap: Swap | None, *, below: bool) -> tuple[Entry, Entry]:
    if swap is None:
        return Entry("never, by one weight" if below else ""), Entry("")
    name = basis.weights.implementations[swap.implementation].name
    feature = basis.weights.features[swap.feature].lower()
    text = f"{name}, {feature}: {swap.before:g} to {swap.after:g}"
    return Entry(f"with {swap.below}: {text}"), exact_entry(100 * swap.change)


def table_attacks(basis: Basis) -> Table:
    """Build the table of attacks that each policy withstands (section 6.4), from its layers."""
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


def _attack_entries(basis: Basis, policy: ScoredPolicy) -> Iterator[Entry]:
    for attack in load_attacks():
        if policy.definition is None:
            continue
        holds = attack.is_withstood(policy.definition)
        said = attack.said.get(policy.id) if basis.is_papers(policy.id) else None
        differs = said is not None and said != holds
        yield Entry("yes" if holds else "no", marks=frozenset(["differs"] * differs),
                    note="" if said is not None else "the paper does not say")

