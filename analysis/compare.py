"""Two runs side by side: every cell that both have, and which differences are no chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis import overhead, statistics
from analysis.errors import NothingToReport
from analysis.flags import flagged_line
from analysis.frame import METRICS, Frame, Results, natural
from analysis.names import scenario_heading
from analysis.one_clock import stamped
from analysis.statistics import Comparison, Estimate, Sample
from analysis.summary import OVERHEADS
from analysis.table import Column, Entry, Quantity, Table

#: A difference counts where chance alone would bring one like it, somewhere in all tables, in less
#: than this share of comparisons.
SIGNIFICANT = 0.05
#: Ways to correct for many comparisons, and what the tables say of them.
CORRECTIONS: Mapping[str, tuple[Callable[[Iterable[float]], Sample], str]] = {
    "holm": (statistics.holm, ("Holm's, which marks anything at all in at most 5 % of comparisons "
                               "of equal runs")),
    "benjamini-hochberg": (statistics.benjamini_hochberg, ("Benjamini and Hochberg's, of whose "
                           "marks 5 % are expected to be errors"))}
#: Metrics in words, their units as shown, and what brings them there.
SHOWN = {"authentication_time_s": ("Authentication time", "ms", 1e3),
         "handoff_s": ("Handoff", "ms", 1e3),
         "tcp_goodput_bps": ("TCP goodput", "Mbit/s", 1e-6),
         "udp_goodput_bps": ("UDP goodput", "Mbit/s", 1e-6),
         "tcp_overhead_bps": ("TCP overhead", "kbit/s", 1e-3),
         "udp_overhead_bps": ("UDP overhead", "kbit/s", 1e-3)}
Cells = Mapping[tuple[str, str], Sample]


@dataclass(frozen=True)
class _Pair:
    """One metric of one cell in both runs."""

    metric: str
    policy: str
    scenario: str
    first: Sample
    second: Sample
    comparison: Comparison


def compare(a: Results, b: Results, *, names: tuple[str, str] = ("A", "B"), baseline: str = "P1",
            correction: str = "holm") -> list[Table]:
    """A table for each metric: both runs' means, second minus first, and how sure that is.

    Runs share no blocks, so means are compared by Welch's t test, overheads as differences from the
    `baseline` within each run's own blocks. The p-values of all tables are corrected together, as
    `correction` (of CORRECTIONS) says. Raises NothingToReport where there is no cell in common, and
    for runs of different clocks, which analysis.clocks compares.
    """
    if a.clock != b.clock:
        raise NothingToReport(f"{names[0]} is of the {a.clock or 'unrecorded'} clock, {names[1]} "
                              f"of the {b.clock or 'unrecorded'} one, and no table mixes clocks; "
                              "compare runs of one clock, or let analysis.clocks compare them")
    pairs = list(_pairs(a, b, baseline))
    if not pairs:
        raise NothingToReport(f"{names[0]} and {names[1]} have no cell (policy and scenario) with "
                              "good repetitions in common; compare runs that measured the same")
    correct, said = CORRECTIONS[correction]
    tested = [pair for pair in pairs if pair.comparison.p_value is not None]
    adjusted = dict(zip(map(id, tested), correct(pair.comparison.p_value or 0.0
                                                 for pair in tested).tolist(), strict=True))
    marked = sum(p < SIGNIFICANT for p in adjusted.values())
    count = (f"{marked} of {len(tested)} comparisons (all metrics and cells) are significant after "
             f"correction: {said}.")
    notes = (count, *_NOTES, *unlike(a, b, names))
    by_metric = {metric: [pair for pair in pairs if pair.metric == metric] for metric in SHOWN}
    return [stamped(_table(metric, found, adjusted, names, notes), a.clock)
            for metric, found in by_metric.items() if found]


def changed_only(table: Table) -> Table:
    """A table of `compare` without the rows in which nothing is significant."""
    kept = [number for number, row in enumerate(table.rows)
            if any("significant" in entry.marks for entry in row)]
    # A heading stays where any row below it stays.
    starts = [start for start, _ in table.sections] + [len(table.rows)]
    sections = [(sum(number < start for number in kept), title)
                for (start, title), end in zip(table.sections, starts[1:], strict=True)
                if any(start <= number < end for number in kept)]
    return replace(table, rows=tuple(table.rows[number] for number in kept),
                   sections=tuple(sections))


def by_cell(good: Frame, metric: str) -> dict[tuple[str, str], dict[int, float]]:
    """A metric's values of every cell (policy, scenario) that has any, by block."""
    there = good[good[metric].notna()]
    return {(str(key[0]), str(key[1])): dict(zip(part["repetition"].tolist(),
                                                 part[metric].tolist(), strict=True))
            for key, part in there.groupby(["policy", "scenario"], sort=False)}


def _pairs(a: Results, b: Results, baseline: str) -> Iterator[_Pair]:
    for metric in SHOWN:
        first, second = (_samples(results, metric, baseline) for results in (a, b))
        for cell in sorted(first.keys() & second.keys(), key=_order):
            # Second minus first: what has changed since the first run.
            yield _Pair(metric, *cell, first[cell], second[cell],
                        statistics.welch(second[cell], first[cell]))


def _order(cell: tuple[str, str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Sort key of (policy, scenario): by scenario, then policy, as the paper has them."""
    return natural(cell[1]), natural(cell[0])


def _samples(results: Results, metric: str, baseline: str) -> Cells:
    """The values of a metric, cell by cell; those of overheads are differences within blocks."""
    if metric in METRICS:
        return {cell: np.array(list(blocks.values()))
                for cell, blocks in by_cell(results.good, metric).items()}
    source = next(name for name, lost in OVERHEADS.items() if lost == metric)
    reference = overhead.choose_baseline(results.frame, baseline).policy
    if reference is None:
        return {}
    found = overhead.differences(results.good, source, reference)
    return {cell: lost for cell, lost in found.items() if lost.size and cell[0] != reference}


def _table(metric: str, pairs: Sequence[_Pair], adjusted: Mapping[int, float],
           names: tuple[str, str], notes: tuple[str, ...]) -> Table:
    title, unit, scale = SHOWN[metric]
    stem, _, si = metric.rpartition("_")
    columns = (Column("policy", "policy"),
               Column(f"{stem}_first_{si}", names[0], unit, scale),
               Column(f"{stem}_second_{si}", names[1], unit, scale),
               Column(f"{stem}_difference_{si}", "difference", unit, scale),
               Column("relative", "relative", "%", 100.0, digits=1),
               Column("p_adjusted", "p, corrected", digits=3),
               Column("hedges_g", "Hedges' g", digits=1, group="effect"),
               Column("cliffs_delta", "Cliff's \N{GREEK SMALL LETTER DELTA}", digits=2,
                      group="effect"))
    rows, sections = [], []
    for number, pair in enumerate(pairs):
        if not number or pairs[number - 1].scenario != pair.scenario:
            sections.append((number, scenario_heading(pair.scenario)))
        rows.append(_row(pair, adjusted.get(id(pair))))
    return Table(f"compare-{metric}", f"{title}, {names[0]} and {names[1]}", columns, tuple(rows),
                 caption=f"{title} in both runs; the difference is {names[1]} minus {names[0]}.",
                 notes=notes, sections=tuple(sections))


def _row(pair: _Pair, p_adjusted: float | None) -> tuple[Entry, ...]:
    found = pair.comparison
    significant = p_adjusted is not None and p_adjusted < SIGNIFICANT
    marks = frozenset(["significant"] if significant else
                      ["spans-zero"] if found.difference.spans_zero else [])
    first = statistics.mean(pair.first)
    return (Entry(pair.policy), _entry(first), _entry(statistics.mean(pair.second)),
            Entry(number=quantity(found.difference), marks=marks),
            Entry("-", note="the first run's own interval holds 0") if first.spans_zero
            or not first.mean
            else Entry(number=Quantity(found.difference.mean / abs(first.mean)), marks=marks),
            probability(p_adjusted, "too few repetitions"),
            *effects(found))


def probability(p_value: float | None, otherwise: str) -> Entry:
    """The entry of a p-value, or a dash and why there is none."""
    if p_value is None:
        return Entry("-", note=otherwise)
    return Entry("<0.001" if p_value < 0.0005 else "", number=Quantity(p_value))


def effects(found: Comparison) -> tuple[Entry, Entry]:
    """The entries of Hedges' g and Cliff's delta."""
    return (Entry("-", note="no spread, or too few repetitions") if found.g is None
            else _entry(found.g),
            Entry(number=Quantity(found.delta), note=statistics.magnitude(found.delta)))


def quantity(value: Estimate) -> Quantity:
    """An estimate as a table's number."""
    return Quantity(value.mean, value.low, value.high, value.n)


def _entry(value: Estimate) -> Entry:
    return Entry(number=quantity(value))


def unlike(a: Results, b: Results, names: tuple[str, str]) -> Iterator[str]:
    """Where runs differ in more than what was measured, what only one has, and what is flagged."""
    for name, run in zip(names, (a, b), strict=True):
        yield from (f"{name}: {line}" for line in (run.left_out, flagged_line(run)) if line)
    goods = a.good, b.good
    for column in ("medium", "machine", "builder", "fault"):
        first, second = (", ".join(sorted(set(good[column]))) or "none" for good in goods)
        if first != second:
            yield f"The runs differ in {column}: {first or 'none'} and {second or 'none'}."
    digests = [good.groupby("policy")["policy_sha256"].agg(set).to_dict() for good in goods]
    changed = sorted((policy for policy in digests[0].keys() & digests[1].keys()
                      if digests[0][policy] != digests[1][policy]), key=natural)
    if changed:
        yield f"Not the same layers in both runs: {', '.join(changed)}."
    first_cells, second_cells = (set(zip(good["policy"], good["scenario"], strict=True))
                                 for good in goods)
    for name, only in ((names[0], first_cells - second_cells),
                       (names[1], second_cells - first_cells)):
        alone = sorted(only, key=_order)
        if alone:
            shown = ", ".join(f"{policy} in {scenario}" for policy, scenario in alone[:12])
            yield (f"Only {name} has good repetitions of {shown}"
                   f"{f' and {len(alone) - 12} more' if len(alone) > 12 else ''}.")


_NOTES = (
    "Means and differences with 95 % intervals, not corrected; p-values are Welch's t test's.",
    ("Hedges' g is the difference in pooled standard deviations; Cliff's delta says how often a "
     "value of the second run is above one of the first, less how often below, from -1 to 1."),
    "Few repetitions find only large differences: a difference that is not marked may be real.")
