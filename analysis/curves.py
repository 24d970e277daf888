"""Figures of metrics over numeric factors, with published and modelled values."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells, Observation
from analysis.metrics import Metric
from analysis.numbers import to_quantity
from analysis.present import figures
from analysis.present.report import Figure
from analysis.run_table import ReferenceValues
from analysis.table import Quantity
from measure.manifest import FactorRecord


def make_curves(cells: Cells, reference: ReferenceValues | None = None) -> Iterator[Figure]:
    """Yield a figure for each metric and numeric factor with at least two levels."""
    for factor in cells.results.factors:
        levels = cells.results.levels[factor.name]
        if factor.is_number and len(levels) > 1:
            for metric in cells.results.study.metrics:
                made = make_curve(cells, metric, factor, reference or ReferenceValues())
                if made is not None:
                    yield made


def make_curve(cells: Cells, metric: Metric, factor: FactorRecord,
               reference: ReferenceValues) -> Figure | None:
    """Return a figure of a metric over one factor, or None without a line.

    There is a line for each combination of the other factors' levels. Combinations with a single
    point are no lines: a study that varies one factor at a time has many of them.
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
    panel = figures.line_panel(metric.sentence, series, figures.Axis(factor.title, factor.unit),
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
            others = ", ".join(level for index, level in enumerate(ids) if index != at)
            lines.setdefault(others, []).append((number, value))
    return [figures.Series(name, points, origin) for name, points in lines.items()]
