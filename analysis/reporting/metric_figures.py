"""Make figures of metrics: curves, distributions with percentile tables, and timelines.

A curve shows the means of a metric by one numeric factor, with published and modelled values. A
distribution is a list of values within each repetition, such as response times. It has a table of
percentiles with intervals over repetitions, and a cumulative figure. A timeline shows a value over
the time of one repetition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from analysis import statistics
from analysis.cells import Cells, Ids, Observation
from analysis.circumstances import stamp_table
from analysis.metrics import Metric, insert_before_unit
from analysis.present import figures
from analysis.present.report import Figure
from analysis.reporting.run_table import ReferenceValues
from analysis.reporting.table_entries import MISSING_ENTRY, estimate_entry, to_quantity
from analysis.statistics import Sample
from analysis.table import Column, Entry, Quantity, Table
from measure.records.manifest import FactorRecord

# --- Curves: a metric over a numeric factor ---

def make_curves(cells: Cells, reference: ReferenceValues | None = None) -> Iterator[Figure]:
    """Yield a figure of each metric over each numeric factor, such as a number of clients.

    The factor needs at least two values.
    """
    for factor in cells.results.factors:
        levels = cells.results.levels[factor.name]
        if factor.is_number and len(levels) > 1:
            for metric in cells.results.study.metrics:
                curve = make_curve(cells, metric, factor, reference or ReferenceValues())
                if curve is not None:
                    yield curve


def make_curve(cells: Cells, metric: Metric, factor: FactorRecord,
               reference: ReferenceValues) -> Figure | None:
    """Return a figure of a metric over a numeric factor (such as a number of clients), or None.

    There is a line for each combination of the other factors' levels. Combinations with a single
    point are no lines: a study that varies one factor at a time has many of them. A line has the
    names of those levels in which the lines differ.
    """
    values = {ids: to_quantity(value.estimate) for ids in cells.results.cells
              if isinstance(value := cells.value(metric.name, ids), Observation)}
    measured = [line for line in _make_series(cells, factor, values, "measured") if _is_line(line)]
    if not measured:
        return None
    series, names = [*measured], {line.name for line in measured}
    for origin, others in (("published", reference.published), ("modelled", reference.modelled)):
        lines = _make_series(cells, factor,
                             {key[1:]: Quantity(value) for key, value in others.items()
                                             if key[0] == metric.name}, origin)
        series += [line for line in lines if line.name in names or _is_line(line)]
    panel = figures.line_panel(metric.sentence, _shorten_names(series),
                               figures.Axis(factor.title, factor.unit),
                               figures.Axis(metric.title, metric.unit, metric.scale))
    known = [origin for origin in ("published", "modelled")
             if any(drawn.origin == origin for drawn in series)]
    dashed = f" Hollow: {' and '.join(known)}." if known else ""
    return Figure(f"fig-{metric.name}-{factor.name}".replace("_", "-"),
                  f"{metric.sentence} by {factor.title.lower()}",
                  f"Means with 95 % intervals.{dashed}",
                  f"Lines of {metric.title} over {factor.title.lower()}; the run's table has all "
                  "numbers.", (panel,))


def _is_line(series: figures.Series) -> bool:
    return len({at for at, _ in series.points}) > 1


def _make_series(cells: Cells, factor: FactorRecord, values: dict[tuple[str, ...], Quantity],
                 origin: str) -> list[figures.Series]:
    results = cells.results
    at = results.names.index(factor.name)
    lines: dict[str, list[tuple[float, Quantity]]] = {}
    for ids, value in values.items():
        number = results.level_number(factor.name, ids[at])
        if number is not None:
            others = _SEPARATOR.join(level for index, level in enumerate(ids) if index != at)
            lines.setdefault(others, []).append((number, value))
    return [figures.Series(name, points, origin) for name, points in lines.items()]


#: Character between the levels in a line's name, which no level has.
_SEPARATOR = "\n"


def _shorten_names(series: list[figures.Series]) -> list[figures.Series]:
    """Return the lines, named by the levels in which they differ."""
    levels = [line.name.split(_SEPARATOR) for line in series]
    differing = [at for at in range(len(levels[0])) if len({each[at] for each in levels}) > 1]
    return [replace(line, name=", ".join(each[at] for at in differing))
            for line, each in zip(series, levels, strict=True)]


# --- Distributions within repetitions ---

PERCENTILES = (0.5, 0.9, 0.95, 0.99)


def find_samples(cells: Cells, metric: Metric, ids: Ids) -> list[Sample]:
    """Return the lists of values (such as response times) of a cell's `ok` repetitions."""
    lists = (cells.results.samples[row].get(metric.name) or () for row in cells.good_rows(ids))
    return [np.asarray(values, dtype=np.float64) for values in lists if len(values)]


def make_percentile_table(cells: Cells, metric: Metric) -> Table:
    """Return a table of percentiles of a distribution, such as response times, a row per cell.

    Percentiles are computed for each repetition. The table has their mean with the interval over
    repetitions, because values within one repetition depend on each other. `values` counts the
    values of all repetitions.
    """
    results = cells.results
    shown = (metric.unit, metric.scale, metric.digits)
    columns = (*(Column(factor.name, factor.title.lower(), factor.unit)
                 for factor in results.factors),
               Column(f"{metric.name.rpartition('_')[0]}_values", "values", digits=0),
               *(Column(insert_before_unit(metric.name, f"p{share * 100:g}"), f"{share * 100:g} %",
                        *shown,
                        group="percentile") for share in PERCENTILES))
    rows = tuple(_make_row(cells, metric, ids) for ids in results.cells)
    return stamp_table(Table(f"distribution-{metric.name}", f"{metric.sentence}: distribution",
                             columns,
                             rows, "Percentiles of the values of a repetition: their mean over "
                             "repetitions, with its 95 % interval."), results.clock)


def _make_row(cells: Cells, metric: Metric, ids: Ids) -> tuple[Entry, ...]:
    lists = find_samples(cells, metric, ids)
    levels = [_make_level_entry(cells, name, level)
              for name, level in zip(cells.results.names, ids, strict=True)]
    if not lists or cells.status(ids).missing is not None:
        return (*levels, *[MISSING_ENTRY] * (1 + len(PERCENTILES)))
    percentiles = (statistics.mean(float(np.quantile(values, share)) for values in lists)
                   for share in PERCENTILES)
    return (*levels, Entry(number=Quantity(sum(values.size for values in lists))),
            *(estimate_entry(percentile, records=cells.record_names(ids)) for percentile
              in percentiles))


def _make_level_entry(cells: Cells, factor: str, level: str) -> Entry:
    is_number = next(known.is_number for known in cells.results.factors if known.name == factor)
    number = cells.results.level_number(factor, level) if is_number else None
    return Entry(level, None if number is None else Quantity(number))


def title_sections(cells: Cells, sections: Sequence[Ids], otherwise: str) -> list[str]:
    """Return titles of panels, a panel for each combination of surroundings.

    A title has the levels of the factors in which these sections differ. If none does, it is
    `otherwise`.
    """
    results = cells.results
    numbers = {factor.name: factor.title for factor in results.factors if factor.is_number}
    varied = [at for at in range(len(results.surroundings))
              if len({section[at] for section in sections}) > 1]
    return [", ".join(
        f"{numbers[name]} {section[at]}" if (name := results.surroundings[at]) in numbers
        else results.level_heading((section[at],), (name,)) for at in varied) or otherwise
        for section in sections]


def make_distribution_figure(cells: Cells, metric: Metric) -> Figure | None:
    """Return a figure of cumulative distributions, with a plot per section, such as a scenario.

    Cells with only a few values are left out. The result is None if all are.
    """
    axis = figures.Axis(metric.title, metric.unit, metric.scale)
    pooled: dict[Ids, dict[str, Sample]] = {}
    for section, members in cells.sections.items():
        for ids in members:
            lists = find_samples(cells, metric, ids)
            if sum(values.size for values in lists) >= figures.MIN_DISTRIBUTION:
                name = ", ".join(cells.results.select_levels(ids, cells.results.compared))
                pooled.setdefault(section, {})[name] = np.concatenate(lists)
    if not pooled:
        return None
    titles = title_sections(cells, list(pooled), metric.sentence)
    panels = [figures.ecdf_panel(title, samples, axis)
              for title, samples in zip(titles, pooled.values(), strict=True)]
    return Figure(f"fig-distribution-{metric.name.replace('_', '-')}",
                  f"{metric.sentence}: distribution",
                  "The share of values up to each, all good repetitions of a cell together.",
                  "Cumulative distributions, a line a cell; the table of percentiles has numbers.",
                  tuple(panels))


def make_timeline_figure(cells: Cells, metric: Metric) -> Figure | None:
    """Return a figure of a value over the time of a repetition, or None without a value.

    Each cell (one policy in one scenario) has a line for its first `ok` repetition with values.
    """
    axis = figures.Axis(metric.title, metric.unit, metric.scale)
    drawn: dict[Ids, dict[str, Sequence[tuple[float, float]]]] = {}
    for section, members in cells.sections.items():
        for ids in members:
            first = next((points for row in cells.good_rows(ids)
                          if (points := cells.results.series[row].get(metric.name))), None)
            if first:
                name = ", ".join(cells.results.select_levels(ids, cells.results.compared))
                drawn.setdefault(section, {})[name] = first
    if not drawn:
        return None
    titles = title_sections(cells, list(drawn), metric.sentence)
    return Figure(f"fig-time-{metric.name.replace('_', '-')}", f"{metric.sentence} over time",
                  "The first good repetition of each cell.",
                  "Lines over the seconds of a repetition, one a cell.",
                  tuple(figures.time_panel(title, lines, axis)
                        for title, lines in zip(titles, drawn.values(), strict=True)))
