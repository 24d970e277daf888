"""Protection by today's weights, in columns apart from the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from analysis.numbers import NOTHING, exact_entry
from analysis.protection.score import score_policy
from analysis.table import Column, Entry, Table
from policies import load_weights
from policies.weights import TODAYS
from studies.qop2007 import published
from studies.qop2007.report.attacks import TODAYS_ATTACKS, load_attacks
from studies.qop2007.report.basis import Basis
from studies.qop2007.report.entries import NAME, POLICY, SIGMA, group_sections, policy_entries
from studies.qop2007.report.from_run import sort_policies

_SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
_NOT_MIXED = ("Two schemes, two columns: a percentage of the one says nothing about one of the "
              "other. In 2007's, features add up, and what has been broken since still counts.")


_OPEN = ("Group open: neither confidential nor protected from change on any layer, so never "
         "recommended, whatever the sum.")


def rescore_today(basis: Basis) -> Basis:
    """Return the values with protection by today's weights, and the policies in its order."""
    weights, among = load_weights(TODAYS), published.policies()
    policies = sort_policies(
        replace(policy, score=score_policy(policy.definition, weights, among))
        if policy.definition else policy for policy in basis.policies)
    return replace(basis, policies=policies, weights=weights, notes=())


def protection_tables(basis: Basis, today: Basis) -> Iterator[Table]:
    """Yield the table of both scores, and that of attacks as of today."""
    yield _score_table(basis, today)
    yield _attack_table(today)


def _score_table(basis: Basis, today: Basis) -> Table:
    then = {policy.id: policy_entries(policy)[2] for policy in basis.policies}
    known = [policy for policy in today.policies if policy.score is not None]
    features = today.weights.features
    rows = []
    for policy in known:
        strongest = policy.score.strongest if policy.score else {}
        rows.append((*policy_entries(policy)[:2], then.get(policy.id, NOTHING),
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
                 tuple(rows), "A feature counts once, as the strongest layer provides it; what has "
                 "been broken weighs nothing; in percent of the best of every feature.",
                 (_NOT_MIXED, _OPEN,
                  (f"Groups of {title}: low below {limits.middle:g} %, high above "
                   f"{limits.high:g} %. Weights: policies/{TODAYS.name}, which is our judgement.")),
                 group_sections(known))


def _attack_table(today: Basis) -> Table:
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
