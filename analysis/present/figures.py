"""Make the plots of a report, such as curves and bars, as data for plotly.

Each function, such as `line_panel`, takes measured values and returns one plot (`Panel`), which the
JavaScript library plotly draws in the HTML report. Colours are named by their position in the
page's palette (`@0`, `@ink`). Markers and dashes differ too, so that a figure is readable in grey.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.present.report import Panel
from analysis.statistics import Sample
from analysis.table import Quantity

#: Palette colours with a marker for each, in the order of their use.
STYLES = (("@0", "circle"), ("@4", "square"), ("@2", "diamond"), ("@1", "triangle-up"),
          ("@3", "triangle-down"), ("@5", "cross"), ("@6", "x"), ("@7", "star"), ("@8", "pentagon"),
          ("@9", "hexagon"), ("@10", "hourglass"), ("@11", "bowtie"),
          ("@12", "triangle-left"), ("@13", "triangle-right"), ("@14", "diamond-tall"),
          ("@15", "octagon"))
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
#: Fewest values of which a cumulative distribution says something.
MIN_DISTRIBUTION = 3
_ORIGINS = {"published": "published", "modelled": "modelled"}
_MAX_POINTS = 400


def style_at(index: int) -> tuple[str, str]:
    """Return a colour and a marker for a position.

    When colours repeat, each gets a different marker, so that no two curves look the same.
    """
    return (STYLES[index % len(STYLES)][0],
            STYLES[(index + index // len(STYLES)) % len(STYLES)][1])


@dataclass(frozen=True)
class Series:
    """The points of one curve in a figure, as pairs of x and value.

    `origin` is measured, published or modelled. A reference, such as the mean of all curves, is
    drawn in the colour of text.
    """

    name: str
    points: Sequence[tuple[float, Quantity]]
    origin: str = "measured"
    is_reference: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis of a plot.

    `scale` is the factor from SI units to `unit`. An axis that is not `from_zero` shows only the
    range of its values.
    """

    title: str
    unit: str = ""
    scale: float = 1.0
    is_log: bool = False
    from_zero: bool = True

    @property
    def layout(self) -> dict[str, Any]:
        """Return the axis in the format of plotly."""
        title = f"{self.title} in {self.unit}" if self.unit else self.title
        return {"title": {"text": title}, **({"type": "log"} if self.is_log else
                                             {"rangemode": "tozero"} if self.from_zero else {})}


def line_panel(title: str, series: Sequence[Series], x: Axis, y: Axis) -> Panel:
    """Return a plot with curves of means over a numeric factor, with confidence intervals.

    Published and modelled values have hollow markers. Modelled values are dashed lines, published
    ones have no line.
    """
    names = list(dict.fromkeys(curve.name for curve in series))
    data = [_curve_data(curve, names.index(curve.name), x, y) for curve in series if curve.points]
    return Panel(title, data, {"xaxis": x.layout, "yaxis": y.layout})


def mark_panel(panel: Panel, at: float, text: str) -> Panel:
    """Return a copy of a plot with a labelled vertical dotted line at an x value."""
    line_there = {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1,
                  "line": {"color": "@ink", "dash": "dot", "width": 1}}
    label = {"x": at, "y": 1, "yref": "paper", "text": text, "showarrow": False,
             "xanchor": "left", "yanchor": "top"}
    return replace(panel, layout={**panel.layout, "shapes": [line_there], "annotations": [label]})


def _curve_data(curve: Series, index: int, x: Axis, y: Axis) -> dict[str, Any]:
    colour, symbol = style_at(index)
    points = sorted(curve.points, key=lambda point: point[0])
    origin = _ORIGINS.get(curve.origin, "")
    name = ", ".join(part for part in (curve.name, origin) if part) or "measured"
    quantities = [quantity for _, quantity in points]
    return {
        "type": "scatter", "mode": "markers" if origin == "published" else "lines+markers",
        "name": name, "meta": {"curve": curve.name, "reference": curve.is_reference},
        "x": [at * x.scale for at, _ in points],
        "y": [quantity.value * y.scale for quantity in quantities],
        "error_y": error_bars(quantities, y.scale, colour),
        "line": {"color": colour, "dash": "dash" if origin else "solid"},
        "marker": {"symbol": f"{symbol}-open" if origin else symbol, "color": colour, "size": 8},
        "hovertemplate": f"{name}: %{{y:.4g}} {y.unit} at %{{x:.4g}} {x.unit}<extra></extra>"}


def error_bars(quantities: Sequence[Quantity | None], scale: float, colour: str) -> dict[str, Any]:
    """Return plotly's error bars for confidence intervals, of length 0 where there is none."""
    above, below = [], []
    for quantity in quantities:
        low, high = (None, None) if quantity is None else (quantity.low, quantity.high)
        known = quantity is not None and low is not None and high is not None
        above.append((high - quantity.value) * scale if known else 0)  # type: ignore[union-attr,operator]
        below.append((quantity.value - low) * scale if known else 0)  # type: ignore[union-attr,operator]
    return {"type": "data", "array": above, "arrayminus": below, "color": colour,
            "thickness": 1.4, "width": 3}


def ecdf_panel(title: str, samples: Mapping[str, Sample], x: Axis) -> Panel:
    """Return a plot of cumulative distributions: the fraction of values up to each value."""
    data = []
    for index, (name, sample) in enumerate(samples.items()):
        values = np.sort(sample)
        shares = np.arange(1, values.size + 1) / values.size
        at = np.unique(np.linspace(0, values.size - 1, min(values.size, _MAX_POINTS)).astype(int))
        # The curve begins at 0, below the least value.
        data.append(_step_trace(name, index, [values[0], *values[at]], [0.0, *shares[at]], x, "hv")
                    | {"hovertemplate":
                       f"{name}: %{{y:.1%}} up to %{{x:.4g}} {x.unit}<extra></extra>"})
    return Panel(title, data, {"xaxis": x.layout, "yaxis": {
        "title": {"text": "share of values"}, "range": [0, 1.02], "tickformat": ".0%"}})


def _step_trace(name: str, index: int, at: Sequence[float], heights: Sequence[float], x: Axis,
                shape: str) -> dict[str, Any]:
    """Return a line of steps without markers, so that dashes tell lines of one colour apart."""
    colour, _ = style_at(index)
    return {"type": "scatter", "mode": "lines", "name": name, "meta": {"curve": name},
            "x": [float(value * x.scale) for value in at], "y": [float(value) for value in heights],
            "line": {"color": colour, "dash": DASHES[index % len(DASHES)], "shape": shape}}


def histogram_panel(title: str, samples: Mapping[str, Sample], x: Axis, bins: int = 40) -> Panel:
    """Return a plot of distributions as steps, with the fraction of values in each bin."""
    every = np.concatenate(list(samples.values()))
    edges = np.histogram_bin_edges(every, bins=min(bins, max(1, every.size)))
    middles = (edges[:-1] + edges[1:]) / 2
    data = []
    for index, (name, sample) in enumerate(samples.items()):
        shares = np.histogram(sample, edges)[0] / sample.size
        data.append(_step_trace(name, index, middles.tolist(), shares.tolist(), x, "hvh")
                    | {"hovertemplate":
                       f"{name}: %{{y:.1%}} near %{{x:.4g}} {x.unit}<extra></extra>"})
    return Panel(title, data, {"xaxis": x.layout, "yaxis": {
        "title": {"text": "share of values"}, "rangemode": "tozero", "tickformat": ".0%"}})


def time_panel(title: str, series: Mapping[str, Sequence[tuple[float, float]]], y: Axis) -> Panel:
    """Return a plot of values over the time of a repetition, with a line per series."""
    seconds = Axis("time", "s")
    data = []
    for index, (name, points) in enumerate(series.items()):
        data.append(_step_trace(name, index, [at for at, _ in points],
                                [value * y.scale for _, value in points], seconds, "hv")
                    | {"hovertemplate":
                       f"{name}: %{{y:.4g}} {y.unit} at %{{x:.3g}} s<extra></extra>"})
    return Panel(title, data, {"xaxis": seconds.layout, "yaxis": y.layout})


def route_panel(title: str, stops: Sequence[tuple[str, str]]) -> Panel:
    """Return a plot of a route through several stops, with a labelled column for each."""
    stations = list(dict.fromkeys(station for station, _ in stops))
    return Panel(title, [{
        "type": "scatter", "mode": "lines+markers+text", "showlegend": False,
        "x": list(range(1, len(stops) + 1)), "y": [station for station, _ in stops],
        "text": [label for _, label in stops], "textposition": list(_free_sides(stops)),
        "textfont": {"size": 10}, "cliponaxis": False,
        "line": {"color": "@0", "shape": "spline"}, "marker": {"color": "@0", "size": 9},
        "hovertemplate": "%{y}: %{text}<extra></extra>"}], {
        "xaxis": {"title": {"text": "visit"}, "dtick": 1, "range": [0.4, len(stops) + 0.6]},
        "yaxis": _row_axis(stations) | {"range": [-0.8, len(stations) - 0.3]}},
        rows=2 * len(stations))


def _free_sides(stops: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the side of each stop on which the route leaves room for its label."""
    heights = [-list(dict.fromkeys(station for station, _ in stops)).index(station)
               for station, _ in stops]
    for at, height in enumerate(heights):
        before = heights[at - 1] if at else None
        after = heights[at + 1] if at + 1 < len(heights) else None
        is_below = [each > height for each in (before, after) if each is not None]
        if all(is_below):
            yield "bottom center"
        elif any(is_below) and len(is_below) > 1:
            yield "top right" if is_below[0] else "top left"
        else:
            yield "top center"


@dataclass(frozen=True)
class BarSeries:
    """A part of each stacked bar in a plot.

    `lengths` are by row, in SI units. `colour` and `pattern` distinguish the part from others.
    """

    name: str
    colour: str
    pattern: str
    lengths: Mapping[str, float]


def bar_panel(title: str, rows: Sequence[str], parts: Sequence[BarSeries],
              totals: Mapping[str, Quantity], x: Axis) -> Panel:
    """Return a plot with a stacked bar per row.

    The first row is on top.

    The measured total has its confidence interval.
    """
    drawn = list(rows)[::-1]
    data: list[dict[str, Any]] = [{
        "type": "bar", "orientation": "h", "name": part.name,
        "y": [row for row in drawn if row in part.lengths],
        "x": [part.lengths[row] * x.scale for row in drawn if row in part.lengths],
        "marker": {"color": part.colour, "line": {"color": "@paper", "width": 1},
                   "pattern": {"shape": part.pattern, "fillmode": "overlay", "fgcolor": "@paper",
                               "solidity": 0.25}},
        "hovertemplate": f"%{{y}}, {part.name}: %{{x:.1f}} {x.unit}<extra></extra>"}
        for part in parts]
    known = [row for row in drawn if row in totals]
    data.append({
        "type": "scatter", "mode": "markers", "name": "whole", "showlegend": False,
        "y": known, "x": [totals[row].value * x.scale for row in known],
        "marker": {"symbol": "line-ns-open", "color": "@ink", "size": 9},
        "error_x": {"type": "data", "color": "@ink", "thickness": 1.4, "width": 4,
                    "array": [_half_width(totals[row]) * x.scale for row in known]},
        "hovertemplate": f"%{{y}}: %{{x:.1f}} {x.unit} in all<extra></extra>"})
    return Panel(title, data, {
        "barmode": "stack",
        "xaxis": {"title": {"text": x.title}, "rangemode": "nonnegative"},
        "yaxis": _row_axis(rows)},
        rows=len(drawn))


def waterfall_panel(title: str, spans: Mapping[str, Sequence[tuple[float, float]]],
                    x: Axis) -> Panel:
    """Return a plot with a row per part and a bar for each time in which it was active.

    Times are in SI units. The first row is on top.
    """
    data = [{
        "type": "bar", "orientation": "h", "name": part, "showlegend": False,
        "y": [part] * len(bars), "base": [begun * x.scale for begun, _ in bars],
        "x": [(ended - begun) * x.scale for begun, ended in bars],
        "marker": {"color": style_at(index)[0], "line": {"width": 0}},
        "hovertemplate": f"{part}: %{{x:.4g}} {x.unit} from %{{base:.4g}} {x.unit}"
                         "<extra></extra>"}
        for index, (part, bars) in enumerate(spans.items())]
    return Panel(title, data,
                 {"barmode": "overlay", "xaxis": x.layout, "yaxis": _row_axis([*spans])},
                 rows=len(spans))


def _row_axis(names: Sequence[str]) -> dict[str, Any]:
    """Return a plot axis with one named row per entry, the first on top."""
    return {"type": "category", "categoryorder": "array", "categoryarray": list(names)[::-1]}


def _half_width(quantity: Quantity) -> float:
    if quantity.low is None or quantity.high is None:
        return 0.0
    return (quantity.high - quantity.low) / 2
