"""Draw Figures 3 to 7 of the 1987 paper on ADP with a run's measured values.

`build_figures` takes the measured and the printed values, and yields the figures that have
measurements. Printed values are drawn only where the paper has them in its text or tables. The
paper is the report of Anderson, Ferrari, Rangan and Sartirana (1987). `studies.adp1987` lists the
terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from analysis.cells import Cells, Ids, Key, Observation
from analysis.metrics import Metric
from analysis.present import figures as drawing
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure, Panel
from analysis.reporting import metric_figures
from analysis.reporting.table_entries import to_quantity
from analysis.table import Quantity
from studies.adp1987.cells import RATES, TIMEOUTS_MS, cell_ids
from studies.adp1987.measurements import LATENCIES, LATENCY, SHARES, THROUGHPUT
from studies.adp1987.published import PublishedValues
from studies.adp1987.report import tables
from studies.adp1987.traces import TRACES

_BINS = 40
_LONGEST_S = 0.04


def build_figures(cells: Cells, paper: PublishedValues) -> Iterator[Figure]:
    """Yield the figures that have measured values."""
    for figure in (_figure_3(cells), _figure_4(cells, paper),
                   _by_timeout(cells, paper, "5", THROUGHPUT),
                   _by_timeout(cells, paper, "6", LATENCY), _figure_7(cells, paper)):
        if figure is not None:
            yield figure


def _build_figure(name: str, title: str, caption: str, panels: Sequence[Panel]) -> Figure | None:
    return Figure(f"fig-paper-{name}", f"Figure {name}: {title}", caption,
                  f"{caption} The run's table has the numbers.", tuple(panels)) if panels else None


def _measured_points(cells: Cells,
                     places: Sequence[tuple[float, Key]]) -> list[tuple[float, Quantity]]:
    return [(at, to_quantity(value.estimate)) for at, key in places
            if isinstance(value := cells.value(key[0], key[1:]), Observation)]


def _metric_axis(metric: Metric) -> Axis:
    return Axis(metric.title, metric.unit, metric.scale)


def _figure_3(cells: Cells) -> Figure | None:
    nominal = cell_ids("ALL")
    panels = []
    for metric, prefix in ((THROUGHPUT, "throughput_at"), (LATENCY, "latency_at")):
        places = []
        for share in SHARES:
            count = cells.value(f"messages_at_{share:g}", nominal)
            if isinstance(count, Observation):
                places.append((count.estimate.mean, (f"{prefix}_{share:g}", *nominal)))
        if points := _measured_points(cells, places):
            panels.append(drawing.line_panel(metric.sentence, [Series("ALL", points)],
                                             Axis("messages"), _metric_axis(metric)))
    return _build_figure("3", "throughput and latency by the number of messages",
                         "The ALL trace's first so many messages, at nominal levels.", panels)


def _figure_4(cells: Cells, paper: PublishedValues) -> Figure | None:
    panels, places = [], []
    for trace in ("ALL", "ND"):
        series = []
        for queue in ("ON", "OFF"):
            row = [(rate, cell_ids(trace, rate=f"{rate:g}", queue=queue, timeout="40"))
                   for rate in RATES]
            places += [(f"{trace}, queueing {queue.lower()}, at {rate:g}", cell)
                       for rate, cell in row]
            points = _measured_points(cells, [(rate, (LATENCY.name, *cell)) for rate, cell in row])
            if points:
                series.append(Series(f"queueing {queue.lower()}", points))
                printed = paper.all.get((LATENCY.name, *cell_ids(trace, queue=queue)))
                if printed is not None:
                    series.append(Series(f"queueing {queue.lower()}",
                                         [(1.0, Quantity(printed))], "published"))
        if series:
            panels.append(drawing.line_panel(trace, series, Axis("rate, relative to the nominal"),
                                             Axis(LATENCY.title, "ms", 1e3, is_log=True)))
    return _build_figure("4", "latency by the rate of arrivals, with and without queueing",
                         "Latency of urgent messages at a timeout of 40 ms, trailers encrypted; "
                         "published: Tables 3 and 4, at nominal timeouts."
                         + tables.describe_overloaded(cells, places), panels)


def _by_timeout(cells: Cells, paper: PublishedValues, name: str, metric: Metric) -> Figure | None:
    series, places = [], []
    for trace in ("ALL", "TCP", "ND"):
        row = [(float(value), (metric.name, *cell_ids(trace, timeout=str(value))))
               for value in TIMEOUTS_MS]
        places += [(f"{trace} at {at:g} ms", key[1:]) for at, key in row]
        if points := _measured_points(cells, row):
            series.append(Series(trace, points))
            printed = paper.all.get((metric.name, *cell_ids(trace)))
            if printed is not None:
                at = TRACES[trace].timeout_s * 1e3
                series.append(Series(trace, [(at, Quantity(printed))], "published"))
    panels = [drawing.line_panel(metric.sentence, series, Axis("timeout", "ms", is_log=True),
                                 _metric_axis(metric))] if series else []
    return _build_figure(name, f"{metric.title} by the timeout",
                         f"{metric.sentence} over the timeout of messages that are not urgent; "
                         "published: Table 2, at nominal timeouts."
                         + (tables.describe_overloaded(cells, places) if metric is LATENCY
                            else ""), panels)


def _figure_7(cells: Cells, paper: PublishedValues) -> Figure | None:
    samples = {}
    for trace in TRACES:
        lists = metric_figures.find_samples(cells, LATENCIES, _nominal_ids(trace))
        if lists:
            values = np.concatenate(lists)
            samples[trace] = values[values <= _LONGEST_S]
    if not samples:
        return None
    peaks = ", ".join(str(peak) for peak in paper.figure_7_ms["peaks"])
    return _build_figure("7", "distribution of the latency of urgent messages",
                         f"Each trace at nominal levels, up to {_LONGEST_S * 1e3:g} ms. The paper "
                         "sees "
                         f"peaks near {peaks} ms.",
                         [drawing.histogram_panel("Shares", samples, _metric_axis(LATENCIES),
                                                  _BINS)])


def _nominal_ids(trace: str) -> Ids:
    return cell_ids(trace)
