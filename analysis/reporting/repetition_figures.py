"""Make figures of the single repetitions of a run, to see drift, outliers and spread.

A repetition is one measurement, for example of one policy in one scenario.
`make_repetition_section` takes the results of a run and returns a section of the report. One kind
of figure shows the values in the order of measurement. The other kind shows their cumulative
distributions. A run with only a few repetitions has neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from analysis.cells import Cells, Ids
from analysis.metrics import Metric
from analysis.present import figures
from analysis.present.report import Figure, Panel, Section
from analysis.reporting.metric_figures import title_sections
from analysis.statistics import Sample
from analysis.table import Quantity

#: A metric, and its values by cell and repetition.
_MetricValues: TypeAlias = tuple[Metric, dict[Ids, Mapping[int, float]]]
#: Fewest good repetitions of a cell that are drawn.
MIN_REPETITIONS = 6
_REPETITION = figures.Axis("repetition", from_zero=False)
_SHARE = figures.Axis("value", "% of the cell's mean", 100.0, from_zero=False)


def make_repetition_section(cells: Cells) -> Section | None:
    """Return the section of figures of repetitions, or None with only a handful of them."""
    metrics = list(_drawn_metrics(cells))
    if not metrics:
        return None
    drawn = (_make_drift_figure(cells, metrics), *_make_cdf_figures(cells, metrics))
    return Section("repetitions", "Repetitions", "How values change over the run, and how they "
                   "vary. A drift that all levels share cancels in differences within blocks.",
                   drawn)


def _drawn_metrics(cells: Cells) -> Iterator[_MetricValues]:
    """Yield metrics that have a better direction, with the values of cells by repetition."""
    for metric in cells.results.study.metrics:
        values = {ids: blocks for ids in cells.results.cells
                  if len(blocks := cells.values_by_block(metric.name, ids)) >= MIN_REPETITIONS}
        if metric.better and values:
            yield metric, values


def _make_drift_figure(cells: Cells, metrics: Sequence[_MetricValues]) -> Figure:
    """Return a figure with a panel per metric: values over the run, relative to the cell's mean."""
    panels = [_make_drift_panel(cells, metric, values) for metric, values in metrics]
    return Figure("fig-drift", "Values over the run", "Each repetition as a share of the mean of "
                  "its cell, averaged over the cells of a level. Repetitions with one number are "
                  "measured in one block, in random order.", "Lines of each metric over the number "
                  "of the repetition, one a level; the records have all numbers.", tuple(panels))


def _make_drift_panel(cells: Cells, metric: Metric,
                      values: Mapping[Ids, Mapping[int, float]]) -> Panel:
    together: dict[int, list[float]] = {}
    by_level: dict[str, dict[int, list[float]]] = {}
    for ids, blocks in values.items():
        mean = float(np.mean(list(blocks.values())))
        for block, value in blocks.items() if mean > 0 else ():
            of_level = by_level.setdefault(_level_name(cells, ids), {})
            for shares in (together, of_level):
                shares.setdefault(block, []).append(value / mean)
    series = [_average_shares(name, shares) for name, shares in by_level.items()]
    if len(by_level) > 1:
        series.append(replace(_average_shares("mean of all", together), is_reference=True))
    return figures.line_panel(metric.sentence, series, _REPETITION, _SHARE)


def _average_shares(name: str, shares: Mapping[int, list[float]]) -> figures.Series:
    return figures.Series(name, [(float(block), Quantity(float(np.mean(values))))
                                 for block, values in sorted(shares.items())])


def _make_cdf_figures(cells: Cells, metrics: Sequence[_MetricValues]) -> Iterator[Figure]:
    """Yield a figure per metric: cumulative distributions, a panel per surroundings."""
    for metric, values in metrics:
        axis = figures.Axis(metric.title, metric.unit, metric.scale, from_zero=False)
        samples: dict[Ids, dict[str, Sample]] = {}
        for section, members in cells.sections.items():
            for ids in members:
                if ids in values:
                    samples.setdefault(section, {})[_level_name(cells, ids)] = np.array(
                        list(values[ids].values()))
        titles = title_sections(cells, list(samples), metric.sentence)
        panels = [figures.ecdf_panel(title, of_levels, axis)
                  for title, of_levels in zip(titles, samples.values(), strict=True)]
        yield Figure(f"fig-cdf-{metric.name}".replace("_", "-"),
                     f"{metric.sentence}: distribution over repetitions",
                     "The share of repetitions up to each value.",
                     f"Cumulative distributions of {metric.title}, a line a level; the records "
                     "have all numbers.", tuple(panels))


def _level_name(cells: Cells, ids: Ids) -> str:
    return ", ".join(cells.results.select_levels(ids, cells.results.compared))
