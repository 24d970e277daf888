"""Draw Figures 3 to 9 of the 1998 paper with the measured values of a run.

`build_figures` yields the figures that have measurements. They show measured values only, because
the text of the paper has no numbers for its figures. The paper is Schneck and Schwan (1998) on
signed video streams. `studies.authenticast1998` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from analysis.cells import Cells, Observation
from analysis.metrics import Metric
from analysis.present import figures
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure, Panel
from analysis.reporting.table_entries import to_quantity
from analysis.table import Quantity
from studies.authenticast1998.cells import FIG_4, FIG_5, PERCENTAGES
from studies.authenticast1998.measurements import (
    DELAY_P99,
    EXPOSURE,
    FATES,
    GAP,
    GOODPUT,
    LEVEL,
    LEVEL_NOW,
    RETENTION,
    SENT,
)
from studies.authenticast1998.report import comparisons
from studies.authenticast1998.report.comparisons import Ids

_UNACCEPTABLE: Ids = ("p100", "1", "idle")
_SHOWN: Ids = ("adaptive-1998", "1", "idle")
_PERCENT = Axis("retention", "%", 100.0)
_NUMBER = Axis("sequence number")


def build_figures(cells: Cells) -> Iterator[Figure]:
    """Yield the figures for which there are measurements."""
    yield from _unacceptable_figure(cells)
    yield from _percentage_figure(cells)
    yield from _clients_figure(cells, "fig-5", "delayed", "Figure 5: delayed authentication, "
                               "bundles of 3", (RETENTION, SENT))
    yield from _clients_figure(cells, "fig-6", "adaptive-1998", "Figure 6: the adaptive blend",
                               (RETENTION, LEVEL, EXPOSURE, DELAY_P99))
    yield from _stream_figure(cells)


def _unacceptable_figure(cells: Cells) -> Iterator[Figure]:
    points = _read_timeline(cells, FATES, _UNACCEPTABLE)
    if points:
        yield Figure("fig-3", "Figure 3: an unacceptable stream",
                     "One client that verifies every packet, first repetition: 100 for a packet "
                     "that was retained.", "Line over the packets' sequence numbers: 100 for one "
                     "that was retained, 0 for one that was lost.",
                     (_line_panel("Retention", points, _NUMBER, _PERCENT),))


def _percentage_figure(cells: Cells) -> Iterator[Figure]:
    levels = [level for level in PERCENTAGES
              if _observation_of(cells, RETENTION, (f"p{level}", FIG_4, "idle"))]
    if len(levels) < 2:
        return
    panels = [_curve_panel(metric, [(level / 100, observed) for level in levels
                                    if (observed := _observation_of(cells, metric,
                                                                    (f"p{level}", FIG_4, "idle")))],
                           Axis("packets verified", "%", 100.0))
              for metric in (RETENTION, GOODPUT, DELAY_P99)]
    yield Figure("fig-4", "Figure 4: retention by the percentage of packets verified, 5 clients",
                 "Means over the clients and repetitions, with goodput and delay.",
                 "Lines over the percentage of packets verified; the run's table has all numbers.",
                 tuple(panels))


def _clients_figure(cells: Cells, name: str, heuristic: str, title: str,
                    metrics: Sequence[Metric]) -> Iterator[Figure]:
    panels = []
    for metric in metrics:
        points = [(float(count), observed) for count in FIG_5
                  if (observed := _observation_of(cells, metric, (heuristic, count, "idle")))]
        if len(points) > 1:
            panels.append(_curve_panel(metric, points, Axis("clients")))
    if panels:
        yield Figure(name, f"{title}, by clients", "Means over the clients and repetitions.",
                     "Lines over the number of clients; the run's table has all numbers.",
                     tuple(panels))


def _stream_figure(cells: Cells) -> Iterator[Figure]:
    titles = {GAP: "Figure 7: gap between sender and receiver (DELTA)",
              LEVEL_NOW: "Figure 9: level"}
    panels = [_line_panel(title, points, Axis("sent at", "s"), Axis(metric.title, metric.unit,
                                                                    metric.scale))
              for metric, title in titles.items()
              if (points := _read_timeline(cells, metric.name, _SHOWN))]
    if points := _read_timeline(cells, FATES, _SHOWN):
        panels.insert(1, _line_panel("Figure 8: retention", points, _NUMBER, _PERCENT))
    if panels:
        yield Figure("fig-7-8-9", "Figures 7, 8 and 9: one stream under the adaptive blend",
                     "The first client of the first repetition, one client in all.",
                     "Lines of gap and level over the time at which packets were sent, and of "
                     "retention over their sequence numbers.", tuple(panels))


def _observation_of(cells: Cells, metric: Metric, ids: Ids) -> Observation | None:
    of_cell = comparisons.wired_cell(cells, ids)
    if of_cell not in cells.results.cells:
        return None
    value = cells.value(metric.name, of_cell)
    return value if isinstance(value, Observation) else None


def _read_timeline(cells: Cells, name: str, ids: Ids) -> Sequence[tuple[float, float]]:
    """Return a timeline of a cell's first `ok` repetition, as pairs of time (s) and value."""
    rows = cells.good_rows(comparisons.wired_cell(cells, ids))
    lists: Mapping[str, Iterable[tuple[float, float]]] = \
        cells.results.series[rows[0]] if rows else {}
    return [(float(at), float(value)) for at, value in lists.get(name, ())]


def _line_panel(title: str, points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> Panel:
    return figures.line_panel(title, [Series("", [(at, Quantity(value)) for at, value in points])],
                              x, y)


def _curve_panel(metric: Metric, points: Sequence[tuple[float, Observation]], x: Axis) -> Panel:
    return figures.line_panel(metric.sentence, [Series("", [
        (at, to_quantity(observed.estimate)) for at, observed in points])], x,
        Axis(metric.title, metric.unit, metric.scale))
