"""Distributions within repetitions: percentiles with intervals, and figures of all values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis import statistics
from analysis.cells import Cells, Ids
from analysis.clock import stamp_table
from analysis.metrics import Metric, insert_before_unit
from analysis.numbers import NOTHING, estimate_entry
from analysis.present import figures
from analysis.present.report import Figure
from analysis.statistics import Sample
from analysis.table import Column, Entry, Quantity, Table

PERCENTILES = (0.5, 0.9, 0.95, 0.99)


def find_samples(cells: Cells, metric: Metric, ids: Ids) -> list[Sample]:
    """Return the non-empty lists of a cell's good repetitions as arrays in SI units."""
    lists = (cells.results.samples[row].get(metric.name) or () for row in cells.good_rows(ids))
    return [np.asarray(values, dtype=np.float64) for values in lists if len(values)]


def make_percentile_table(cells: Cells, metric: Metric,
                          shares: Sequence[float] = PERCENTILES) -> Table:
    """Return a table of percentiles of a distribution, a row per cell.

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
                        group="percentile") for share in shares))
    rows = tuple(_make_row(cells, metric, ids, shares) for ids in results.cells)
    return stamp_table(Table(f"distribution-{metric.name}", f"{metric.sentence}: distribution",
                             columns,
                             rows, "Percentiles of the values of a repetition: their mean over "
                             "repetitions, with its 95 % interval."), results.clock)


def _make_row(cells: Cells, metric: Metric, ids: Ids, shares: Sequence[float]) -> tuple[Entry, ...]:
    lists = find_samples(cells, metric, ids)
    levels = [_make_level_entry(cells, name, level)
              for name, level in zip(cells.results.names, ids, strict=True)]
    if not lists or cells.standing(ids).missing is not None:
        return (*levels, *[NOTHING] * (1 + len(shares)))
    percentiles = (statistics.mean(float(np.quantile(values, share)) for values in lists)
                   for share in shares)
    return (*levels, Entry(number=Quantity(sum(values.size for values in lists))),
            *(estimate_entry(percentile, records=cells.record_names(ids)) for percentile
              in percentiles))


def _make_level_entry(cells: Cells, factor: str, level: str) -> Entry:
    is_number = next(known.is_number for known in cells.results.factors if known.name == factor)
    number = cells.results.level_number(factor, level) if is_number else None
    return Entry(level, None if number is None else Quantity(number))


def make_distribution_figure(cells: Cells, metric: Metric) -> Figure | None:
    """Return a figure of cumulative distributions, a panel per combination of surroundings.

    The result is None without any value.
    """
    axis = figures.Axis(metric.title, metric.unit, metric.scale)
    panels = []
    for section, members in cells.sections.items():
        pooled = {", ".join(
            cells.results.select_levels(ids, cells.results.compared)): np.concatenate(lists)
                  for ids in members if (lists := find_samples(cells, metric, ids))}
        if pooled:
            panels.append(figures.ecdf_panel(cells.section_heading(section) or metric.sentence,
                                             pooled, axis))
    if not panels:
        return None
    return Figure(f"fig-distribution-{metric.name.replace('_', '-')}",
                  f"{metric.sentence}: distribution",
                  "The share of values up to each, all good repetitions of a cell together.",
                  "Cumulative distributions, a line a cell; the table of percentiles has numbers.",
                  tuple(panels))


def make_timeline_figure(cells: Cells, metric: Metric) -> Figure | None:
    """Return a figure of a value over the time of a repetition.

    Each cell has a line for its first good repetition with values. The result is None without any
    value.
    """
    axis = figures.Axis(metric.title, metric.unit, metric.scale)
    panels = []
    for section, members in cells.sections.items():
        drawn = {}
        for ids in members:
            first = next((points for row in cells.good_rows(ids)
                          if (points := cells.results.series[row].get(metric.name))), None)
            if first:
                drawn[", ".join(cells.results.select_levels(ids, cells.results.compared))] = first
        if drawn:
            panels.append(figures.time_panel(cells.section_heading(section) or metric.sentence,
                                             drawn, axis))
    if not panels:
        return None
    return Figure(f"fig-time-{metric.name.replace('_', '-')}", f"{metric.sentence} over time",
                  "The first good repetition of each cell.",
                  "Lines over the seconds of a repetition, one a cell.", tuple(panels))
