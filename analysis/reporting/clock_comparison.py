"""Compare a run with the real clock to one with the virtual clock: `./qop compare`.

In virtual time, computing takes no time and waiting is skipped. So virtual time is the cost of
airtime and protocol, and real minus virtual time is the processor's part. The result is one
overview table, a table for each metric, and a figure with stacked bars.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import statistics
from analysis.cells import Cells, Ids
from analysis.circumstances import REAL, VIRTUAL, VIRTUAL_CAVEAT, stamp_table
from analysis.measurements import NoResultsError
from analysis.metrics import Metric, insert_before_unit
from analysis.present.figures import Axis, BarSeries, bar_panel
from analysis.present.report import Figure, Panel
from analysis.reporting.comparison import (
    CORRECTIONS,
    check_comparable,
    correct_p_values,
    describe_differences,
    describe_significant_count,
    no_common_cell_error,
    section_starts,
    sort_cells,
)
from analysis.reporting.significance import SIGNIFICANT
from analysis.reporting.table_entries import P_COLUMN, estimate_entry, p_value_entry, to_quantity
from analysis.results import Results
from analysis.statistics import Comparison, Sample
from analysis.table import Column, Entry, Quantity, Table

# --- Tables of both clocks ---

#: Value of the clock column in files.
BOTH = f"{REAL}, {VIRTUAL}"


@dataclass(frozen=True)
class MetricPart:
    """A part of a metric, such as one phase of the authentication, that is compared too.

    `column` is its column in the frame. A repetition without this column spent no time on the part.
    `counted` are the cells (policy in scenario) whose metric includes the part.
    """

    of: Metric
    column: str
    title: str
    counted: frozenset[Ids]


@dataclass(frozen=True)
class _ClockPair:
    """The values of a metric, or of a part of it, in one cell under both clocks.

    A cell is one policy in one scenario, for instance.
    """

    metric: Metric
    ids: Ids
    real: Sample
    virtual: Sample
    #: Difference of the means, real minus virtual.
    comparison: Comparison
    records: tuple[str, ...]
    part: MetricPart | None = None

    @property
    def counted(self) -> bool:
        """Return whether the metric of this cell includes this part."""
        return self.part is None or self.ids in self.part.counted

    @property
    def share(self) -> float | None:
        """Return real minus virtual time as a fraction of real time, None where real time is 0."""
        mean = float(self.real.mean())
        return self.comparison.difference.mean / mean if mean else None


def compare_clocks(a: Results, b: Results, *, names: tuple[str, str] = ("A", "B"),
                   correction: str = "holm", parts: Sequence[MetricPart] = ()) -> list[Table]:
    """Return an overview table, and for each metric a table of real minus virtual time.

    Means are compared by Welch's t test. The p-values of all tables are corrected together.

    Args:
        a: Results of one clock.
        b: Results of the other clock. One run must be of the real clock, the other of the virtual
            one, in any order.
        names: Names of the runs `a` and `b` in tables and messages.
        correction: Method of correction, a key of analysis.reporting.comparison.CORRECTIONS.
        parts: Parts of metrics to compare as well.

    Raises:
        NoResultsError: There is nothing to compare.
    """
    check_comparable(a, b, names)
    if {a.clock, b.clock} != {REAL, VIRTUAL}:
        raise NoResultsError(f"{names[0]} is of the {a.clock or 'unrecorded'} clock, {names[1]} "
                             f"of the {b.clock or 'unrecorded'} one; compare runs of one clock, "
                             "or one of the real and one of the virtual clock")
    if a.clock == VIRTUAL:
        a, b, names = b, a, (names[1], names[0])
    cases = list(_find_cases(Cells(a), Cells(b), parts))
    if not cases:
        raise no_common_cell_error(a, names)
    adjusted = correct_p_values([case.comparison for case in cases], correction)
    notes = (*_make_notes(cases, adjusted, correction), *describe_differences(a, b, names))
    tables = [_make_overview(cases, adjusted, correction, notes)]
    for metric in dict.fromkeys(case.metric for case in cases):
        metric_cases = [case for case in cases if case.metric is metric]
        whole, parted = ([case for case in metric_cases if (case.part is not None) == is_part]
                         for is_part in (False, True))
        tables += [_make_table(a, chosen, adjusted, names, notes) for chosen in (whole, parted)
                   if chosen]
    return [stamp_table(table, BOTH) for table in tables]


def _find_cases(real: Cells, virtual: Cells, parts: Sequence[MetricPart]) -> Iterator[_ClockPair]:
    """Yield all pairs of values that both runs have, in the order of the tables' rows."""
    common = sort_cells(real.results, {ids for ids in real.results.cells
                                       if real.record_names(ids) and virtual.record_names(ids)})
    for ids in common:
        metrics: list[tuple[Metric, MetricPart | None]] = [
            (metric, None) for metric in real.results.study.metrics]
        for metric, part in [*metrics, *((part.of, part) for part in parts)]:
            name = part.column if part else metric.name
            first, second = (_find_sample(cells, name, ids, filled=part is not None)
                             for cells in (real, virtual))
            if first.size and second.size:
                yield _ClockPair(metric, ids, first, second,
                                 statistics.compare_welch(first, second),
                                 real.record_names(ids), part)


def _find_sample(cells: Cells, name: str, ids: Ids, *, filled: bool) -> Sample:
    """Return the values of a cell's column, with 0 for missing values of a metric's part.

    A part that one repetition lacks took no time there. A part that no repetition has is empty.
    """
    values = cells.sample(name, ids)
    there = np.isfinite(values)
    return np.where(there, values, 0.0) if filled and there.any() else values[there]


def _make_notes(cases: Sequence[_ClockPair], adjusted: Mapping[int, float],
                correction: str) -> Iterator[str]:
    if adjusted:
        yield describe_significant_count(adjusted, correction)
    if few := len(cases) - len(adjusted):
        yield (f"{few} of {len(cases)} comparisons have a single repetition under one clock, so "
               "that no interval tells chance from a difference; ask both runs for --repetitions 3 "
               "or more.")
    yield ("Processor: real minus virtual time, so all that computing takes in the real run, and "
           "waiting for the processor where others used it. Of a rate, a negative difference is "
           "what the processor takes off it; a positive one is none of its doing.")
    yield ("Means and differences with 95 % intervals, not corrected; p-values are Welch's t "
           "test's, because the runs share no blocks.")


_OVERVIEW = (
    Column("what", "what"), Column("cells", "cells", digits=0),
    Column("processor_median_share", "median", "%", 100.0, 1, "processor's part"),
    Column("processor_least_share", "least", "%", 100.0, 1, "processor's part"),
    Column("processor_most_share", "most", "%", 100.0, 1, "processor's part"),
    Column("p_adjusted", "p of the mean, corrected", digits=3),
    Column("significant", "significant cells", digits=0))
_OF_THE_MEAN = ("P of the mean: for no difference in the mean over all cells, which shows what "
                "single cells of few repetitions cannot; corrected for the rows of this table.")


def _make_overview(cases: Sequence[_ClockPair], adjusted: Mapping[int, float], correction: str,
                   notes: tuple[str, ...]) -> Table:
    """Return the table that shows the processor's part of each metric, over all cells."""
    grouped = _group_cases(cases)
    means = _mean_p_values(grouped.values(), correction)
    rows = tuple(_overview_row(title, group_cases, adjusted, p_value)
                 for (title, group_cases), p_value in zip(grouped.items(), means, strict=True))
    return Table("clocks", "What the processor adds to airtime and protocol", _OVERVIEW, rows,
                 caption="Real minus virtual, as a share of real, over the cells of both runs.",
                 notes=(_OF_THE_MEAN, *notes))


def _overview_row(title: str, cases: Sequence[_ClockPair], adjusted: Mapping[int, float],
                  p_of_mean: float | None) -> tuple[Entry, ...]:
    shares = [case.share for case in cases if case.share is not None]
    spread = [Entry(number=Quantity(float(value))) for value in
              (np.median(shares), min(shares), max(shares))] if shares else [Entry("-")] * 3
    tested = [adjusted[id(case.comparison)] for case in cases if id(case.comparison) in adjusted]
    marked = sum(p < SIGNIFICANT for p in tested)
    mean = p_value_entry(p_of_mean, "too few repetitions")
    return (Entry(title), Entry(number=Quantity(len(cases))), *spread,
            replace(mean, marks=_significance_marks(p_of_mean)),
            Entry(number=Quantity(marked), marks=_significance_marks(min(tested))) if tested
            else Entry("-", note="none was tested"))


def _significance_marks(p_value: float | None) -> frozenset[str]:
    return frozenset(["significant"] if p_value is not None and p_value < SIGNIFICANT else [])


def _mean_p_values(groups: Iterable[Sequence[_ClockPair]], correction: str) -> list[float | None]:
    """Return the corrected p-value of the mean difference in each group of comparisons.

    Comparisons without a p-value are left out.
    """
    p_values = []
    for group in groups:
        pairs = [(case.real, case.virtual) for case in group
                 if case.comparison.p_value is not None]
        p_values.append(statistics.compare_welch_pairs(pairs)[1] if pairs else None)
    correct, _ = CORRECTIONS[correction]
    adjusted = iter(correct(p for p in p_values if p is not None).tolist())
    return [None if p is None else float(next(adjusted)) for p in p_values]


def _group_cases(cases: Sequence[_ClockPair]) -> Mapping[str, list[_ClockPair]]:
    """Return the pairs of values grouped by metric, each metric followed by its parts."""
    grouped: dict[str, list[_ClockPair]] = {}
    for metric in dict.fromkeys(case.metric for case in cases):
        for case in sorted((case for case in cases if case.metric is metric and case.counted),
                           key=lambda case: case.part is not None):
            title = f"of it {case.part.title}" if case.part else metric.sentence
            grouped.setdefault(title, []).append(case)
    return grouped


def _make_table(results: Results, cases: Sequence[_ClockPair], adjusted: Mapping[int, float],
                names: tuple[str, str], notes: tuple[str, ...]) -> Table:
    metric, is_part = cases[0].metric, cases[0].part is not None
    name = metric.name if not is_part else f"component_{metric.name.rpartition('_')[2]}"
    title = f"Parts of the {metric.title}" if is_part else metric.sentence
    is_time = metric.name.endswith("_s")
    part = (Column("component", "part"), Column("counted", "counts")) if is_part else ()
    shown = (metric.unit, metric.scale)
    columns = (*(Column(factor, factor) for factor in results.compared), *part,
               Column(insert_before_unit(name, "real"), "real", *shown),
               Column(insert_before_unit(name, "virtual"), "airtime and protocol" if is_time
                      else "virtual",
                      *shown),
               Column(insert_before_unit(name, "processor"), "processor", *shown),
               Column("processor_share", "of real", "%", 100.0, digits=1), P_COLUMN)
    what = "airtime and protocol" if is_time else "the rate that airtime and protocol leave"
    counts = f" Counts: whether the {metric.title} adds it up." * is_part
    return Table(f"clocks-{'components' if is_part else metric.name}", f"{title} by clock", columns,
                 tuple(_make_row(results, case, adjusted.get(id(case.comparison))) for case
                       in cases),
                 caption=f"Real time ({names[0]}), virtual time ({names[1]}: {what}), and real "
                 f"minus virtual, which is the processor's.{counts}",
                 notes=notes, sections=section_starts(results, [case.ids for case in cases]))


def _make_row(results: Results, case: _ClockPair, p_adjusted: float | None) -> tuple[Entry, ...]:
    difference = case.comparison.difference
    marks = _significance_marks(p_adjusted) or frozenset(
        ["spans-zero"] if difference.n > 1 and difference.spans_zero else [])
    part = (Entry(case.part.title), Entry("yes" if case.counted else "no")) if case.part else ()
    return (*map(Entry, results.select_levels(case.ids, results.compared)), *part,
            estimate_entry(statistics.mean(case.real), records=case.records),
            estimate_entry(statistics.mean(case.virtual)),
            Entry(number=to_quantity(difference), marks=marks),
            Entry("-", note="nothing in real time") if case.share is None
            else Entry(number=Quantity(case.share), marks=marks),
            p_value_entry(p_adjusted, "too few repetitions"))


# --- Figure: stacked bars of airtime and protocol, and of the processor ---

#: Name, colour in the page's palette and pattern of the two parts of a bar.
_VIRTUAL, _PROCESSOR = ("airtime and protocol", "@0", ""), ("processor", "@1", "/")


def make_clock_figure(tables: Sequence[Table]) -> Figure | None:
    """Return a figure of real and virtual time, for the first time metric, None without one."""
    table = next((table for table in tables if table.rows
                  and _real_column(table).endswith("_real_s")
                  and not table.has_column("component")), None)
    if table is None:
        return None
    what = table.title.removesuffix(" by clock").lower()
    return Figure(
        "fig-clocks", f"What the {what} is made of",
        "Means of virtual time, and what real time has beyond; the whisker is the 95 % interval in "
        f"real time. {VIRTUAL_CAVEAT}",
        "Stacked bars, a row a cell and a plot for each heading; the table below has all numbers.",
        tuple(_make_panel(title or table.title, table, rows) for title, rows in _by_section(table)))


def _real_column(table: Table) -> str:
    """Return the key of the table column with real time, or ""."""
    return next((column.key for column in table.columns if "_real_" in column.key), "")


def _by_section(table: Table) -> Iterator[tuple[str, Sequence[tuple[Entry, ...]]]]:
    starts = [*(table.sections or ((0, ""),)), (len(table.rows), "")]
    for (first, title), (last, _) in itertools.pairwise(starts):
        yield title, table.rows[first:last]


def _make_panel(title: str, table: Table, rows: Sequence[tuple[Entry, ...]]) -> Panel:
    first = table.column_index(_real_column(table))
    names = [", ".join(entry.text for entry in row[:first]) for row in rows]
    real, virtual, processor = ({name: row[at].number for name, row in
                                 zip(names, rows, strict=True)} for at in range(first, first + 3))
    parts = [BarSeries(*style, {name: max(0.0, number.value) for name, number in numbers.items()
                                if number})
             for style, numbers in ((_VIRTUAL, virtual), (_PROCESSOR, processor))]
    column = table.columns[first]
    return bar_panel(title, names, parts,
                     {name: number for name, number in real.items() if number},
                     Axis(column.unit, column.unit, column.scale))
