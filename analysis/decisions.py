"""What a run decides: every policy against the baseline, and how many repetitions are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import overhead, statistics
from analysis.compare import (
    SHOWN,
    SIGNIFICANT,
    by_cell,
    effects,
    probability,
    quantity,
)
from analysis.frame import METRICS, Results, natural
from analysis.names import scenario_heading
from analysis.statistics import Comparison, Outcome, Sample
from analysis.table import Column, Entry, Quantity, Table
from measure.record import record_name

#: Differences that do not matter: this share of the baseline's goodput, and this much time, a
#: thirtieth of the 0.15 s below which the 2007 paper takes a delay for inaudible.
NEGLIGIBLE_SHARE = 0.01
NEGLIGIBLE_S = 0.005
_WORDS: dict[Outcome, str] = {"different": "yes", "equivalent": "no", "undecided": "undecided"}
_MARKS: dict[Outcome, tuple[str, ...]] = {
    "different": ("significant",), "equivalent": ("spans-zero",), "undecided": ()}


@dataclass(frozen=True)
class Decision:
    """A policy against the baseline in one metric and scenario, by differences within blocks.

    `comparison` is policy minus baseline with an interval of 95 %; `p_adjusted` is corrected for
    the other policies in the same metric and scenario, and so is the `outcome`. `further` is the
    number of repetitions that probably decide it, None where it is none within reason.
    """

    metric: str
    scenario: str
    policy: str
    baseline: str
    comparison: Comparison
    p_adjusted: float | None
    outcome: Outcome
    further: int | None
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class _Case:
    """The values of a policy and of the baseline by block, before they are judged together."""

    policy: str
    first: dict[int, float]
    second: dict[int, float]
    comparison: Comparison

    @property
    def differences(self) -> Sample:
        return statistics.paired_differences(self.first, self.second)


def decisions(results: Results, baseline: str = "P1") -> list[Decision]:
    """Every comparison with the baseline, in the order of metrics, scenarios and policies.

    Those of one metric in one scenario, which are read side by side, are corrected together by
    Holm's method. Empty without a baseline.
    """
    reference = overhead.choose_baseline(results.frame, baseline).policy
    if reference is None:
        return []
    found: list[Decision] = []
    for metric in METRICS:
        cells = by_cell(results.good, metric)
        for scenario in sorted({scenario for _, scenario in cells}, key=natural):
            base = cells.get((reference, scenario), {})
            cases = [_Case(policy, values, base, statistics.paired(values, base))
                     for (policy, where), values in cells.items()
                     if where == scenario and policy != reference and values.keys() & base.keys()]
            found += _judged(metric, scenario, reference, cases)
    return found


def tables(results: Results, baseline: str = "P1") -> list[Table]:
    """A table of decisions for each metric, with what it takes to decide those that are open."""
    found = decisions(results, baseline)
    return [_table(metric, [decision for decision in found if decision.metric == metric])
            for metric in METRICS if any(decision.metric == metric for decision in found)]


def _table(metric: str, found: Sequence[Decision]) -> Table:
    title, unit, scale = SHOWN[metric]
    stem, _, si = metric.rpartition("_")
    columns = (Column("policy", "policy"),
               Column(f"{stem}_difference_{si}", "difference", unit, scale),
               Column("p_adjusted", "p, corrected", digits=3),
               Column("hedges_g", "Hedges' g", digits=1, group="effect"),
               Column("cliffs_delta", "Cliff's \N{GREEK SMALL LETTER DELTA}", digits=2,
                      group="effect"),
               Column("outcome", "differs"), Column("further_repetitions", "more needed", digits=0))
    sections = tuple((number, scenario_heading(decision.scenario))
                     for number, decision in enumerate(found)
                     if not number or found[number - 1].scenario != decision.scenario)
    reference = found[0].baseline
    return Table(f"decisions-{metric}", f"{title}: differences from {reference}", columns,
                 tuple(_row(decision) for decision in found),
                 caption=f"{title} under the policy minus that under {reference}, within blocks.",
                 notes=_NOTES, sections=sections)


def _judged(metric: str, scenario: str, baseline: str,
            cases: Sequence[_Case]) -> Iterator[Decision]:
    """The cases of one family, corrected for each other."""
    tested = [case.comparison.p_value for case in cases if case.comparison.p_value is not None]
    adjusted = iter(statistics.holm(tested).tolist())
    p_values = [None if case.comparison.p_value is None else float(next(adjusted))
                for case in cases]
    # What Holm's method has not taken by now is judged at this level.
    left = sum(p is None or p >= SIGNIFICANT for p in p_values)
    level = 1 - SIGNIFICANT / max(1, left)
    for case, p in zip(cases, p_values, strict=True):
        margin = _margin(metric, case.second)
        differences = case.differences
        outcome: Outcome = "different" if p is not None and p < SIGNIFICANT else \
            statistics.decided(statistics.mean(differences, level), margin)
        further = statistics.repetitions_to_decide(differences, margin, level) \
            if outcome == "undecided" else 0
        if further == 0 and outcome == "undecided":  # enough by expectation, but not by chance
            further = 1
        yield Decision(metric, scenario, case.policy, baseline, case.comparison, p, outcome,
                       further, tuple(sorted(case.first.keys() & case.second.keys())))


def _margin(metric: str, base: dict[int, float]) -> float:
    """The difference that does not matter, in the metric's unit."""
    if metric.endswith("_s"):
        return NEGLIGIBLE_S
    return NEGLIGIBLE_SHARE * float(np.mean(list(base.values())))


def _row(decision: Decision) -> tuple[Entry, ...]:
    found = decision.comparison
    marks = frozenset(_MARKS[decision.outcome])
    names = tuple(record_name(policy, decision.scenario, block) for block in decision.blocks
                  for policy in (decision.policy, decision.baseline))
    return (Entry(decision.policy),
            Entry(number=quantity(found.difference), marks=marks, records=names),
            probability(decision.p_adjusted, "one block in common"),
            *effects(found), Entry(_WORDS[decision.outcome], marks=marks), _further(decision))


def _further(decision: Decision) -> Entry:
    if decision.outcome != "undecided":
        return Entry("-")
    if decision.further is not None:
        return Entry(number=Quantity(float(decision.further)))
    return Entry("?", note=f"more than {statistics.MOST} in all, or too few so far to tell")


_NOTES = (
    ("Student's t test of differences within blocks; intervals of 95 %, not corrected. P-values "
     "and the words beside them are corrected by Holm's method for the policies of the same "
     "scenario."),
    (f"No: the corrected interval lies within what does not matter, {NEGLIGIBLE_SHARE:.0%} of the "
     f"baseline's goodput or {NEGLIGIBLE_S * 1e3:g} ms. Undecided: it holds 0 and more than that."),
    (f"More needed: repetitions of the cell and the baseline that decide it with a probability of "
     f"{statistics.POWER:.0%}, if mean and spread so far are the true ones; after a few "
     "repetitions that is a rough guess."))
