"""Figures as data for plotly, in the colours of the page's palette.

There are lines, dots, bars and distributions. Colours are named by their position in the palette
(`@0`, `@ink`). Markers and dashes differ too, so that a figure is readable in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.present.report import Panel
from analysis.statistics import Sample
from analysis.table import Quantity

#: Palette colours with a marker for each, in the order of their use.
STYLES = (("@0", "circle"), ("@4", "square"), ("@2", "diamond"), ("@1", "triangle-up"),
          ("@3", "triangle-down"), ("@5", "cross"), ("@6", "x"))
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_ORIGINS = {"published": "published", "modelled": "modelled"}
_MAX_POINTS = 400


@dataclass(frozen=True)
class Series:
    """Points of one curve as pairs of x and value.

    `origin` is measured, published or modelled.
    """

    name: str
    points: Sequence[tuple[float, Quantity]]
    origin: str = "measured"


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    `scale` is the factor from SI units to `unit`.
    """

    title: str
    unit: str = ""
    scale: float = 1.0
    is_log: bool = False

    @property
    def layout(self) -> dict[str, Any]:
        """Return the axis in plotly's format."""
        said = f"{self.title} in {self.unit}" if self.unit else self.title
        return {"title": {"text": said}, **({"type": "log"} if self.is_log else
                                             {"rangemode": "tozero"})}


def line_panel(title: str, series: Sequence[Series], x: Axis, y: Axis) -> Panel:
    """Return a panel of curves over a numeric factor with intervals.

    Published and modelled values have hollow markers. Modelled values are dashed lines, published
    ones have no line.
    """
    names = list(dict.fromkeys(curve.name for curve in series))
    data = [_curve_data(curve, names.index(curve.name), x, y) for curve in series if curve.points]
    return Panel(title, data, {"xaxis": x.layout, "yaxis": y.layout})


def mark_panel(panel: Panel, at: float, text: str) -> Panel:
    """Return a panel with a labelled vertical dotted line at an x value."""
    line_there = {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1,
                  "line": {"color": "@ink", "dash": "dot", "width": 1}}
    said = {"x": at, "y": 1, "yref": "paper", "text": text, "showarrow": False,
            "xanchor": "left", "yanchor": "top"}
    return replace(panel, layout={**panel.layout, "shapes": [line_there], "annotations": [said]})


def _curve_data(curve: Series, index: int, x: Axis, y: Axis) -> dict[str, Any]:
    colour, _ = STYLES[index % len(STYLES)]
    # When colours repeat, each gets a different marker, so that no two curves look the same.
    _, symbol = STYLES[(index + index // len(STYLES)) % len(STYLES)]
    points = sorted(curve.points, key=lambda point: point[0])
    origin = _ORIGINS.get(curve.origin, "")
    name = ", ".join(part for part in (curve.name, origin) if part) or "measured"
    quantities = [quantity for _, quantity in points]
    return {
        "type": "scatter", "mode": "markers" if origin == "published" else "lines+markers",
        "name": name, "x": [at * x.scale for at, _ in points],
        "y": [quantity.value * y.scale for quantity in quantities],
        "error_y": error_bars(quantities, y.scale, colour),
        "line": {"color": colour, "dash": "dash" if origin else "solid"},
        "marker": {"symbol": f"{symbol}-open" if origin else symbol, "color": colour, "size": 8},
        "hovertemplate": f"{name}: %{{y:.4g}} {y.unit} at %{{x:.4g}} {x.unit}<extra></extra>"}


def error_bars(quantities: Sequence[Quantity | None], scale: float, colour: str) -> dict[str, Any]:
    """Return the error bars of the intervals, with length 0 where there is none."""
    above, below = [], []
    for quantity in quantities:
        low, high = (None, None) if quantity is None else (quantity.low, quantity.high)
        known = quantity is not None and low is not None and high is not None
        above.append((high - quantity.value) * scale if known else 0)  # type: ignore[union-attr,operator]
        below.append((quantity.value - low) * scale if known else 0)  # type: ignore[union-attr,operator]
    return {"type": "data", "array": above, "arrayminus": below, "color": colour,
            "thickness": 1.4, "width": 3}


def ecdf_panel(title: str, samples: Mapping[str, Sample], x: Axis) -> Panel:
    """Return a panel of cumulative distributions, the share of values up to each value."""
    data = []
    for index, (name, sample) in enumerate(samples.items()):
        values = np.sort(sample)
        shares = np.arange(1, values.size + 1) / values.size
        at = np.unique(np.linspace(0, values.size - 1, min(values.size, _MAX_POINTS)).astype(int))
        colour, _ = STYLES[index % len(STYLES)]
        data.append({
            "type": "scatter", "mode": "lines", "name": name,
            "x": (values[at] * x.scale).tolist(), "y": shares[at].tolist(),
            "line": {"color": colour, "dash": DASHES[index % len(DASHES)], "shape": "hv"},
            "hovertemplate": f"{name}: %{{y:.1%}} up to %{{x:.4g}} {x.unit}<extra></extra>"})
    return Panel(title, data, {"xaxis": x.layout, "yaxis": {
        "title": {"text": "share of values"}, "range": [0, 1.02], "tickformat": ".0%"}})


def histogram_panel(title: str, samples: Mapping[str, Sample], x: Axis, bins: int = 40) -> Panel:
    """Return a panel of distributions as steps over common bins, in shares of each sample."""
    every = np.concatenate(list(samples.values()))
    edges = np.histogram_bin_edges(every, bins=min(bins, max(1, every.size)))
    middles = ((edges[:-1] + edges[1:]) / 2 * x.scale).tolist()
    data = []
    for index, (name, sample) in enumerate(samples.items()):
        shares = np.histogram(sample, edges)[0] / sample.size
        colour, _ = STYLES[index % len(STYLES)]
        data.append({
            "type": "scatter", "mode": "lines", "name": name, "x": middles, "y": shares.tolist(),
            "line": {"color": colour, "dash": DASHES[index % len(DASHES)], "shape": "hvh"},
            "hovertemplate": f"{name}: %{{y:.1%}} near %{{x:.4g}} {x.unit}<extra></extra>"})
    return Panel(title, data, {"xaxis": x.layout, "yaxis": {
        "title": {"text": "share of values"}, "rangemode": "tozero", "tickformat": ".0%"}})


def time_panel(title: str, series: Mapping[str, Sequence[tuple[float, float]]], y: Axis) -> Panel:
    """Return a panel of values over the seconds of a repetition, a line per series."""
    data = []
    for index, (name, points) in enumerate(series.items()):
        colour, _ = STYLES[index % len(STYLES)]
        data.append({
            "type": "scatter", "mode": "lines", "name": name,
            "x": [seconds for seconds, _ in points], "y": [value * y.scale for _, value in points],
            "line": {"color": colour, "dash": DASHES[index % len(DASHES)], "shape": "hv"},
            "hovertemplate": f"{name}: %{{y:.4g}} {y.unit} at %{{x:.3g}} s<extra></extra>"})
    return Panel(title, data, {"xaxis": {"title": {"text": "time in s"}, "rangemode": "tozero"},
                               "yaxis": y.layout})


def route_panel(title: str, stops: Sequence[tuple[str, str]]) -> Panel:
    """Return a panel of a route through stations, with a column per stop.

    Each stop has a label.
    """
    stations = list(dict.fromkeys(station for station, _ in stops))
    return Panel(title, [{
        "type": "scatter", "mode": "lines+markers+text", "showlegend": False,
        "x": list(range(1, len(stops) + 1)), "y": [station for station, _ in stops],
        "text": [said for _, said in stops], "textposition": "top center",
        "textfont": {"size": 10}, "cliponaxis": False,
        "line": {"color": "@0", "shape": "spline"}, "marker": {"color": "@0", "size": 9},
        "hovertemplate": "%{y}: %{text}<extra></extra>"}], {
        "xaxis": {"title": {"text": "visit"}, "dtick": 1, "range": [0.4, len(stops) + 0.6]},
        "yaxis": _row_axis(stations) | {"range": [-0.4, len(stations) - 0.3]}},
        rows=2 * len(stations))


@dataclass(frozen=True)
class Bars:
    """A part of stacked bars.

    `lengths` are by row, in SI units. `colour` and `pattern` distinguish the part from others.
    """

    name: str
    colour: str
    pattern: str
    lengths: Mapping[str, float]


def bar_panel(title: str, rows: Sequence[str], parts: Sequence[Bars],
              totals: Mapping[str, Quantity], x: Axis) -> Panel:
    """Return a panel with a stacked bar per row.

    The measured total has its interval. The first row is on top.
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
    """Return a panel with a row per part and a bar per span.

    Spans are in SI units. The first row is on top.
    """
    data = [{
        "type": "bar", "orientation": "h", "name": part, "showlegend": False,
        "y": [part] * len(bars), "base": [begun * x.scale for begun, _ in bars],
        "x": [(ended - begun) * x.scale for begun, ended in bars],
        "marker": {"color": STYLES[index % len(STYLES)][0], "line": {"width": 0}},
        "hovertemplate": f"{part}: %{{x:.4g}} {x.unit} from %{{base:.4g}} {x.unit}"
                         "<extra></extra>"}
        for index, (part, bars) in enumerate(spans.items())]
    return Panel(title, data,
                 {"barmode": "overlay", "xaxis": x.layout, "yaxis": _row_axis([*spans])},
                 rows=len(spans))


def _row_axis(names: Sequence[str]) -> dict[str, Any]:
    """Return an axis with a row per name, the first on top."""
    return {"type": "category", "categoryorder": "array", "categoryarray": list(names)[::-1]}


def _half_width(quantity: Quantity) -> float:
    if quantity.low is None or quantity.high is None:
        return 0.0
    return (quantity.high - quantity.low) / 2
