"""Compare the results of two runs with the same clock, with significance tests.

This is `./qop compare`, for example for two versions of a daemon. A cell is a measured combination,
such as one policy in one scenario. `compare_runs` takes the results of both runs. For each metric
it returns a table with a row per cell: both means, their difference, and whether the difference is
significant. p-values are corrected for the number of comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import statistics
from analysis.cells import Cells, Ids, Observation
from analysis.circumstances import stamp_table
from analysis.measurements import NoResultsError
from analysis.metrics import Metric, insert_before_unit
from analysis.reporting.run_table import describe_flagged, list_result_complaints
from analysis.reporting.significance import SIGNIFICANT
from analysis.reporting.table_entries import (
    EFFECT_COLUMNS,
    P_COLUMN,
    effect_entries,
    estimate_entry,
    p_value_entry,
    to_quantity,
)
from analysis.results import Results
from analysis.statistics import Comparison, Sample
from analysis.table import (
    Column,
    Entry,
    Quantity,
    Table,
    natural_cell_key,
    natural_key,
    to_printable,
)

#: Methods to correct p-values for many comparisons, each with its explanation in tables.
CORRECTIONS: Mapping[str, tuple[Callable[[Iterable[float]], Sample], str]] = {
    "holm": (statistics.holm, ("Holm's, which marks anything at all in at most 5 % of comparisons "
                               "of equal runs")),
    "benjamini-hochberg": (statistics.benjamini_hochberg, ("Benjamini and Hochberg's, of whose "
                           "marks 5 % are expected to be errors"))}
_MAX_CELLS = 12
#: Circumstances that every record has. A setting of the same name is not reported again.
_COLUMNS = ("medium", "machine", "builder", "debian", "programs", "fault")


@dataclass(frozen=True)
class _RunPair:
    """The values of a metric in one cell of both runs."""

    metric: Metric
    ids: Ids
    first: Sample
    second: Sample
    comparison: Comparison


def compare_runs(a: Results, b: Results, *, names: tuple[str, str] = ("A", "B"), baseline: str = "",
                 correction: str = "holm") -> list[Table]:
    """Return a table for each metric: both runs' means, their difference and its significance.

    The difference is the second run minus the first. The runs have no blocks in common, so means
    are compared by Welch's t test. Differences from the `baseline` are taken within each run's own
    blocks. The p-values of all tables are corrected together.

    Args:
        a: Results of the first run.
        b: Results of the second run.
        names: Names of the runs in tables and messages.
        baseline: The level to compare with, as in analysis.cells.choose_baseline.
        correction: Method of correction, a key of CORRECTIONS.

    Raises:
        NoResultsError: The runs have no cell in common, or differ in study, air or clock (for two
            clocks see analysis.reporting.clock_comparison).
    """
    check_comparable(a, b, names)
    if a.clock != b.clock:
        raise NoResultsError(f"{names[0]} is of the {a.clock or 'unrecorded'} clock, {names[1]} "
                             f"of the {b.clock or 'unrecorded'} one, and no table mixes clocks; "
                             "compare runs of one clock, or let "
                             "analysis.reporting.clock_comparison "
                             "compare them")
    pairs = list(_find_pairs(Cells(a, baseline), Cells(b, baseline)))
    if not pairs:
        raise no_common_cell_error(a, names)
    adjusted = correct_p_values([pair.comparison for pair in pairs], correction)
    notes = (describe_significant_count(adjusted, correction), *_NOTES,
             *describe_differences(a, b, names))
    metrics = dict.fromkeys(pair.metric for pair in pairs)
    return [stamp_table(_make_table(a, [pair for pair in pairs if pair.metric is metric], adjusted,
                                    names,
                                    notes), a.clock) for metric in metrics]


def check_comparable(a: Results, b: Results, names: tuple[str, str]) -> None:
    """Check that two runs are of the same study and use the same model of the air.

    Raises:
        NoResultsError: The studies or the airs differ.
    """
    if a.study.id != b.study.id:
        raise NoResultsError(f"{names[0]} is of the study {a.study.id}, {names[1]} of "
                             f"{b.study.id}; compare runs of one study")
    if a.air and b.air and a.air != b.air:
        raise NoResultsError(f"{names[0]} is of the air {a.air}, {names[1]} of {b.air}, and no "
                             "table mixes airs; compare runs of one air")


def no_common_cell_error(results: Results, names: tuple[str, str]) -> NoResultsError:
    """Return the error for two runs that have measured nothing in common."""
    factors = " and ".join(factor.title.lower() for factor in results.factors)
    return NoResultsError(f"{names[0]} and {names[1]} have no cell ({factors}) with good "
                          "repetitions in common; compare runs that measured the same")


def correct_p_values(comparisons: Sequence[Comparison], correction: str) -> Mapping[int, float]:
    """Return p-values corrected for the number of comparisons, by the comparison's id().

    Comparisons without a p-value are left out.
    """
    tested = [comparison for comparison in comparisons if comparison.p_value is not None]
    correct, _ = CORRECTIONS[correction]
    values = correct(comparison.p_value or 0.0 for comparison in tested).tolist()
    return dict(zip(map(id, tested), values, strict=True))


def describe_significant_count(adjusted: Mapping[int, float], correction: str) -> str:
    """Return a sentence on how many comparisons are significant after the correction."""
    marked = sum(p < SIGNIFICANT for p in adjusted.values())
    return (f"{marked} of {len(adjusted)} comparisons (all metrics and cells) are significant "
            f"after correction: {CORRECTIONS[correction][1]}.")


def changed_only(table: Table) -> Table:
    """Return a table of `compare_runs` with only the rows whose difference is significant."""
    chosen = [number for number, row in enumerate(table.rows)
              if any("significant" in entry.marks for entry in row)]
    # Keep a heading if any row below it is kept.
    starts = [start for start, _ in table.sections] + [len(table.rows)]
    sections = [(sum(number < start for number in chosen), title)
                for (start, title), end in zip(table.sections, starts[1:], strict=True)
                if any(start <= number < end for number in chosen)]
    return replace(table, rows=tuple(table.rows[number] for number in chosen),
                   sections=tuple(sections))


def sort_cells(results: Results, cells: Iterable[Ids]) -> list[Ids]:
    """Return cells sorted by section (scenario), then by compared level (policy).

    Names are in natural order (A2 before A10).
    """
    return sorted(cells, key=lambda ids: tuple(
        natural_cell_key(results.select_levels(ids, factors))
        for factors in (results.surroundings, results.compared)))


def section_starts(results: Results, cells: Sequence[Ids]) -> tuple[tuple[int, str], ...]:
    """Return the row numbers at which a new section (scenario) begins, with its heading."""
    parts = [results.select_levels(ids, results.surroundings) for ids in cells]
    return tuple((number, results.level_heading(part, results.surroundings))
                 for number, part in enumerate(parts)
                 if part and (not number or parts[number - 1] != part))


def _find_pairs(a: Cells, b: Cells) -> Iterator[_RunPair]:
    metrics = a.results.study.metrics
    for metric in metrics:
        yield from _compare_cells(a, metric, *({ids: _find_values(cells, metric.name, ids)
                                                for ids in cells.results.cells} for cells
                                               in (a, b)))
    for metric in metrics:
        if metric.difference is not None:
            yield from _compare_cells(a, metric.difference, *(_find_differences(cells, metric)
                                                              for cells in (a, b)))


def _compare_cells(cells: Cells, metric: Metric, first: Mapping[Ids, Sample],
                   second: Mapping[Ids, Sample]) -> Iterator[_RunPair]:
    for ids in sort_cells(cells.results, first.keys() & second.keys()):
        if first[ids].size and second[ids].size:
            # Second minus first: the change since the first run.
            yield _RunPair(metric, ids, first[ids], second[ids],
                           statistics.compare_welch(second[ids], first[ids]))


def _find_values(cells: Cells, name: str, ids: Ids) -> Sample:
    return np.array(list(cells.values_by_block(name, ids).values()), dtype=np.float64)


def _find_differences(cells: Cells, metric: Metric) -> dict[Ids, Sample]:
    """Return how much each cell (policy in scenario) differs from the baseline.

    The differences are by repetition number.
    """
    differences = ((ids, cells.difference(metric, ids)) for ids in cells.results.cells)
    return {ids: np.array(list(difference.blocks.values())) for ids, difference in differences
            if isinstance(difference, Observation)}


def _make_table(results: Results, pairs: Sequence[_RunPair], adjusted: Mapping[int, float],
                names: tuple[str, str], notes: tuple[str, ...]) -> Table:
    metric = pairs[0].metric
    shown = (metric.unit, metric.scale)
    columns = (*(Column(name, name) for name in results.compared),
               Column(insert_before_unit(metric.name, "first"), names[0], *shown),
               Column(insert_before_unit(metric.name, "second"), names[1], *shown),
               Column(insert_before_unit(metric.name, "difference"), "difference", *shown),
               Column("relative", "relative", "%", 100.0, digits=1), P_COLUMN, *EFFECT_COLUMNS)
    return Table(f"compare-{metric.name}", f"{metric.sentence}, {names[0]} and {names[1]}", columns,
                 tuple(_make_row(results, pair, adjusted.get(id(pair.comparison))) for pair
                       in pairs),
                 caption=f"{metric.sentence} in both runs; the difference is {names[1]} minus "
                 f"{names[0]}.", notes=notes,
                 sections=section_starts(results, [pair.ids for pair in pairs]))


def _make_row(results: Results, pair: _RunPair, p_adjusted: float | None) -> tuple[Entry, ...]:
    comparison = pair.comparison
    significant = p_adjusted is not None and p_adjusted < SIGNIFICANT
    marks = frozenset(["significant"] if significant else
                      ["spans-zero"] if comparison.difference.spans_zero else [])
    first = statistics.mean(pair.first)
    relative = Entry("-", note="the first run's own interval holds 0") \
        if first.spans_zero or not first.mean \
        else Entry(number=Quantity(comparison.difference.mean / abs(first.mean)), marks=marks)
    return (*map(Entry, results.select_levels(pair.ids, results.compared)),
            estimate_entry(first), estimate_entry(statistics.mean(pair.second)),
            Entry(number=to_quantity(comparison.difference), marks=marks), relative,
            p_value_entry(p_adjusted, "too few repetitions"), *effect_entries(comparison))


def describe_differences(a: Results, b: Results, names: tuple[str, str]) -> Iterator[str]:
    """Yield lines on how two runs differ apart from the measured values.

    The lines also name flagged repetitions, unusable files, and cells that only one run has.
    """
    for name, run in zip(names, (a, b), strict=True):
        lines = (*run.notices, *list_result_complaints(run), run.left_out, describe_flagged(run))
        yield from (f"{name}: {line}" for line in lines if line)
    goods = a.good, b.good
    for column in _COLUMNS:
        first, second = (", ".join(sorted(set(good[column]))) or "none" for good in goods)
        if first != second:
            yield f"The runs differ in {column}: {first or 'none'} and {second or 'none'}."
    yield from _describe_plan_differences(a, b)
    for factor in a.names:
        digests = [good.groupby(factor)[f"{factor}_sha256"].agg(set).to_dict() for good in goods]
        changed = sorted((name for name in digests[0].keys() & digests[1].keys()
                          if digests[0][name] != digests[1][name]), key=natural_key)
        if changed:
            yield f"Not the same {factor} in both runs: {', '.join(changed)}."
    first_cells, second_cells = (set(zip(*(good[name] for name in a.names), strict=True))
                                 for good in goods)
    for name, only in ((names[0], first_cells - second_cells),
                       (names[1], second_cells - first_cells)):
        if only:
            yield _describe_extra_cells(a, name, sort_cells(a, only))


def _describe_plan_differences(a: Results, b: Results) -> Iterator[str]:
    """Yield lines on how the plans of two runs differ.

    Compared are the study's version, settings, wires, devices and media.
    """
    if a.manifest is None or b.manifest is None:
        return
    pairs = [("the study's version", *(str(run.study.version) for run in (a.manifest, b.manifest)))]
    pairs += [(f"the setting {name}", a.settings.get(name, "none"), b.settings.get(name, "none"))
              for name in dict.fromkeys((*a.settings, *b.settings)) if name not in _COLUMNS]
    pairs.append(("wires", a.wires, b.wires))
    devices = a.manifest.devices, b.manifest.devices
    pairs.append(("devices", *(", ".join(sorted(map(to_printable, names))) for names in devices)))
    yield from (f"The runs differ in {what}: {first or 'none'} and {second or 'none'}."
                for what, first, second in pairs if first != second)
    media = a.manifest.media, b.manifest.media
    for what, (first_ones, second_ones) in (("device", devices), ("medium", media)):
        if changed := sorted(to_printable(name) for name in first_ones.keys() & second_ones.keys()
                             if first_ones[name] != second_ones[name]):
            yield f"Not the same {what} in both runs: {', '.join(changed)}."


def _describe_extra_cells(results: Results, name: str, only: Sequence[Ids]) -> str:
    more = len(only) - _MAX_CELLS
    shown = ", ".join(" in ".join(filter(None, (
        ", ".join(results.select_levels(ids, factors))
        for factors in (results.compared, results.surroundings)))) for ids in only[:_MAX_CELLS])
    return f"Only {name} has good repetitions of {shown}{f' and {more} more' if more > 0 else ''}."


_NOTES = (
    "Means and differences with 95 % intervals, not corrected; p-values are Welch's t test's.",
    ("Hedges' g is the difference in pooled standard deviations; Cliff's delta says how often a "
     "value of the second run is above one of the first, less how often below, from -1 to 1."),
    "Few repetitions find only large differences: a difference that is not marked may be real.")
