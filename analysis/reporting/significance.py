"""Decide whether each policy differs significantly from the baseline in each metric.

The baseline is the policy that others are compared with, such as the one without protection.
`decide_differences` compares each policy with the baseline in the same scenario. It returns a
`SignificanceDecision` for each pair and metric: different, equivalent or undecided, with a p-value
corrected for the number of comparisons. For undecided pairs it estimates how many more repetitions
are needed. `make_decision_tables` makes a table of the decisions for each metric. In a run with
`--until-decided`, differences are decided only at planned interim analyses, called looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import statistics
from analysis.cells import Cells, Ids
from analysis.claims import Verdict
from analysis.metrics import Metric, insert_before_unit
from analysis.present.report import Report
from analysis.reporting.table_entries import (
    EFFECT_COLUMNS,
    P_COLUMN,
    effect_entries,
    estimate_entry,
    p_value_entry,
)
from analysis.statistics import Comparison, Looks, Outcome, Sample
from analysis.table import Column, Entry, Quantity, Table, join_words
from measure.records.manifest import RELEASE

#: Significance level. By chance alone, a family of comparisons that are corrected together shows a
#: significant difference with at most this probability.
SIGNIFICANT = 0.05
_WORDS: dict[Outcome, str] = {"different": "yes", "equivalent": "no", "undecided": "undecided"}
#: Below this number of repetitions, spreads are too uncertain to plan with.
FEW_REPETITIONS = 5
_MARKS: dict[Outcome, tuple[str, ...]] = {
    "different": ("significant",), "equivalent": ("spans-zero",), "undecided": ()}


@dataclass(frozen=True)
class SignificanceDecision:
    """The result of comparing one cell with the baseline in one metric.

    A cell is one policy in one scenario, for instance. `comparison` is the cell minus the baseline
    with a 95 % interval. `p_adjusted` and `outcome` are corrected for the other cells of the same
    metric and scenario (`decide_differences`), `family` comparisons in all. `further` is the number
    of repetitions that will probably decide an undecided comparison. It is None if that number is
    too large or unknown.
    """

    metric: Metric
    section: Ids
    ids: Ids
    baseline: Ids
    comparison: Comparison
    p_adjusted: float | None
    outcome: Outcome
    further: int | None
    blocks: tuple[int, ...]
    family: int

    @property
    def is_masked(self) -> bool:
        """Return whether only the correction for other comparisons leaves a difference unproven."""
        difference = self.comparison.difference
        return (self.outcome == "undecided" and difference.low is not None
                and not difference.spans_zero)


@dataclass(frozen=True)
class _BaselinePair:
    """The values of a policy and of the baseline by repetition number, to be compared."""

    ids: Ids
    baseline: Ids
    first: Mapping[int, float]
    second: Mapping[int, float]
    comparison: Comparison

    @property
    def differences(self) -> Sample:
        return statistics.paired_differences(self.first, self.second)


def decide_differences(cells: Cells) -> list[SignificanceDecision]:
    """Compare every cell with the baseline in every metric.

    The order is by metric, scenario and cell. Comparisons of one metric in the same scenario are
    read together, so they are corrected together by Holm's method. Where each scenario has only
    one, those of all scenarios are read together. Where Debian releases are compared, all
    comparisons of one release are read together. The list is empty without a baseline. In a run
    with planned looks, an outcome is that of the first look that decided, and the errors of all
    looks and comparisons together are at most 5 % (Bonferroni).
    """
    if not cells.baseline.levels:
        return []
    decisions: list[SignificanceDecision] = []
    for metric in cells.results.study.metrics:
        families = [[(section, case) for case in _find_cases(cells, metric, members)]
                    for section, members in cells.sections.items()]
        if RELEASE in cells.results.compared:
            families = _group_by_release(cells, families)
        elif all(len(family) <= 1 for family in families):
            families = [[case for family in families for case in family]]
        decisions += [decision for family in families
                      for decision in _judge_cases(metric, family, cells.results.planned_looks)]
    return decisions


def _group_by_release(cells: Cells, families: Sequence[Sequence[tuple[Ids, _BaselinePair]]]
                      ) -> list[list[tuple[Ids, _BaselinePair]]]:
    """Return comparisons in groups of one compared Debian release each."""
    groups: dict[Ids, list[tuple[Ids, _BaselinePair]]] = {}
    for section, case in (each for family in families for each in family):
        groups.setdefault(cells.results.select_levels(case.ids, [RELEASE]), []).append(
            (section, case))
    return list(groups.values())


def _find_cases(cells: Cells, metric: Metric, members: Sequence[Ids]) -> Iterator[_BaselinePair]:
    for ids in members:
        reference = cells.baseline.baseline_cell(cells.results, ids)
        if reference is None:
            continue
        values, base = (cells.values_by_block(metric.name, cell) for cell in (ids, reference))
        if values.keys() & base.keys():
            yield _BaselinePair(ids, reference, values, base,
                                statistics.compare_paired(values, base))


def make_decision_tables(cells: Cells,
                         decided: Sequence[SignificanceDecision] | None = None) -> list[Table]:
    """Return a table for each metric: which policies differ, and repetitions still needed."""
    every = decide_differences(cells) if decided is None else decided
    return [_make_table(cells, metric, metric_decisions) for metric in cells.results.study.metrics
            if (metric_decisions := [decision for decision in every if decision.metric is metric])]


def _make_table(cells: Cells, metric: Metric, decided: Sequence[SignificanceDecision]) -> Table:
    compared, name = cells.results.compared, cells.baseline.name
    columns = (*(Column(factor, factor) for factor in compared),
               Column(insert_before_unit(metric.name, "difference"), "difference", metric.unit,
                      metric.scale),
               P_COLUMN, *EFFECT_COLUMNS,
               Column("outcome", "differs"), Column("further_repetitions", "more needed", digits=0))
    sections = tuple((number, cells.section_heading(decision.section))
                     for number, decision in enumerate(decided)
                     if decision.section and (
                         not number or decided[number - 1].section != decision.section))
    what = " and ".join(compared)
    return Table(f"decisions-{metric.name}", f"{metric.sentence}: differences from {name}", columns,
                 tuple(_make_row(cells, decision) for decision in decided),
                 caption=f"{metric.sentence} under the {what} minus that under {name}, within "
                 "blocks.", notes=_make_notes(cells), sections=sections)


def _judge_cases(metric: Metric, family: Sequence[tuple[Ids, _BaselinePair]],
                 looks: Looks | None) -> Iterator[SignificanceDecision]:
    """Yield the results of comparing several cells, corrected for the number of comparisons.

    Args:
        metric: The compared metric.
        family: Sections (scenarios) and comparisons that are read together.
        looks: The planned judgements of a run with `--until-decided`.
    """
    tested = [case.comparison.p_value for _, case in family if case.comparison.p_value is not None]
    adjusted = iter(statistics.holm(tested).tolist())
    p_values = [None if case.comparison.p_value is None else float(next(adjusted))
                for _, case in family]
    # Level for the comparisons that Holm's method did not find significant.
    left = sum(p is None or p >= SIGNIFICANT for p in p_values)
    level = 1 - SIGNIFICANT / max(1, left)
    for (section, case), p in zip(family, p_values, strict=True):
        margin = negligible_difference(metric, case.second)
        differences = case.differences
        if looks is not None:
            outcome = decide_at_looks(differences, margin, looks, len(family))
        elif p is not None and p < SIGNIFICANT:
            outcome = "different"
        else:
            outcome = statistics.decide_outcome(statistics.mean(differences, level), margin)
        further = statistics.repetitions_to_decide(differences, margin, level) \
            if outcome == "undecided" else 0
        if further == 0 and outcome == "undecided":  # enough only on average
            further = 1
        yield SignificanceDecision(metric, section, case.ids, case.baseline, case.comparison, p,
                                   outcome, further,
                                   tuple(sorted(case.first.keys() & case.second.keys())),
                                   len(tested))


def decide_at_looks(differences: Sample, margin: float, looks: Looks, family: int) -> Outcome:
    """Return the outcome of the first planned judgement that decided, else `undecided`.

    Args:
        differences: Differences from the baseline, in the order of repetitions.
        margin: Largest difference that does not matter.
        looks: The planned judgements.
        family: Number of comparisons that share the error.
    """
    for number in range(1, looks.find_look(len(differences)) + 1):
        level = looks.raise_level(number, 1 - SIGNIFICANT / family)
        so_far = differences[:looks.counts[number - 1]]
        outcome = statistics.decide_outcome(statistics.mean(so_far, level), margin)
        if outcome != "undecided":
            return outcome
    return "undecided"


def make_verdicts(cells: Cells, decisions: Sequence[SignificanceDecision]) -> list[Verdict]:
    """Return the comparisons with the baseline in the form of claims, for a plan without claims.

    An open comparison needs its cell and the baseline, unless more repetitions than the planned
    looks have are probably necessary.
    """
    looks = cells.results.planned_looks
    verdicts = []
    for decision in decisions:
        if not decision.metric.better:
            continue
        done = len(decision.blocks)
        is_useless = looks is not None and done >= FEW_REPETITIONS and (
            decision.further is None or done + decision.further > looks.last_count)
        name = f"{decision.metric.title} of {cells.cell_name(decision.ids)}"
        pair = frozenset({"-".join(decision.ids), "-".join(decision.baseline)})
        verdicts.append(Verdict(
            name, f"{name} differs from {cells.baseline.name}", "",
            "undecided" if decision.outcome == "undecided" else "confirmed", "",
            needed=() if is_useless else (pair,), is_difference=True))
    return verdicts


def judge_differences(cells: Cells, report: Report) -> Sequence[Verdict]:
    """Return the differences that `--until-decided` decides besides a report's claims.

    The claims are not among them.
    If the report has neither claims nor differences, the differences of all cells are returned.
    """
    if report.claims or report.differences:
        return report.differences
    return make_verdicts(cells, decide_differences(cells))


def negligible_difference(metric: Metric, base: Mapping[int, float]) -> float:
    """Return the largest difference of a metric that does not matter, in its SI unit."""
    if not metric.is_relative:
        return metric.negligible
    return metric.negligible * abs(float(np.mean(list(base.values()))))


def _make_row(cells: Cells, decision: SignificanceDecision) -> tuple[Entry, ...]:
    comparison = decision.comparison
    marks = frozenset(_MARKS[decision.outcome])
    names = tuple(cells.results.record_name(ids, block) for block in decision.blocks
                  for ids in (decision.ids, decision.baseline))
    levels = cells.results.select_levels(decision.ids, cells.results.compared)
    return (*map(Entry, levels), estimate_entry(comparison.difference, marks, names),
            p_value_entry(decision.p_adjusted, "one block in common"),
            *effect_entries(comparison), Entry(_WORDS[decision.outcome], marks=marks),
            _further_entry(decision))


def _further_entry(decision: SignificanceDecision) -> Entry:
    if decision.outcome != "undecided":
        return Entry("-")
    if decision.further is not None:
        return Entry(number=Quantity(float(decision.further)))
    return Entry("?",
                 note=f"more than {statistics.MAX_REPETITIONS} in all, or too few so far to tell")


def _make_notes(cells: Cells) -> tuple[str, ...]:
    shares = {metric.negligible for metric in cells.results.study.metrics if metric.is_relative}
    sizes = {_format_size(metric) for metric in cells.results.study.metrics
             if not metric.is_relative}
    negligible = [*(f"{share:.0%} of the baseline's mean" for share in sorted(shares)),
                  *sorted(sizes)]
    return (
        ("Student's t test of differences within blocks; intervals of 95 %, not corrected. "
         "P-values and the words beside them are corrected by Holm's method for the rows of the "
         "same heading."),
        ("No: the corrected interval lies within what does not matter: "
         f"{join_words(negligible, 'or')}. "
         "Undecided: it holds 0 and more than that."),
        (f"More needed: repetitions of the cell and the baseline that decide it with a probability "
         f"of {statistics.POWER:.0%}, if mean and spread so far are the true ones; after a few "
         "repetitions that is a rough guess."))


def _format_size(metric: Metric) -> str:
    """Return the largest difference of a metric that does not matter, with its unit."""
    size = metric.negligible * metric.scale
    # Units of one letter, and abbreviations, have no plural.
    is_one = size == 1 and len(metric.unit) > 3 and metric.unit.isalpha()
    return f"{size:g} {metric.unit.removesuffix('s') if is_one else metric.unit}".strip()
