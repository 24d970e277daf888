"""Choose the colours of curves and the ranges of axes for all figures of an HTML report.

`style_figures` takes the figures of a report and returns them in their final style. Each policy has
one colour in all reports (`policy_colours`). Each other compared value has one colour in all
figures of the report. Other curves keep their colour, too, unless another curve of the same figure
has it. Plots of one figure that show the same quantity get the same axis range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from analysis.present.figures import DASHES, STYLES
from analysis.present.page_levels import PageLevels, curve_key
from analysis.present.report import Figure, Panel

#: Room between the outermost values and the end of an axis, as a share of the axis.
_MARGIN = 0.05
_NEUTRAL = "@ink"
#: Numbers of the markers of a figure's curves, by position of the colour and name of the curve.
_Markers: TypeAlias = dict[int, dict[str, int]]


def style_figures(figures: Iterable[Figure], levels: PageLevels) -> list[Figure]:
    """Return the figures with the colours and the axes of the page."""
    palette = _Palette(levels)
    return [replace(figure, panels=tuple(share_axes(palette.colour_panels(figure.panels))))
            for figure in figures]


# --- Colours ---

@dataclass
class _Palette:
    """The colours of a page's curves. Curves of no compared level have the colours `others`."""

    levels: PageLevels
    others: dict[str, int] = field(default_factory=dict)

    def colour_panels(self, panels: Sequence[Panel]) -> Iterator[Panel]:
        """Yield the panels of a figure in the page's colours.

        Curves of one colour have different markers.
        """
        # Markers by colour: the number of each curve's marker, counted from the colour's own.
        markers: _Markers = {
            style % len(STYLES): {} for panel in panels for trace in panel.data
            if (style := self._level_style(_curve_of(trace))) is not None}
        for panel in panels:
            yield replace(panel, data=[self._colour_trace(trace, panel.title, markers)
                                       for trace in panel.data])

    def _level_style(self, name: str | None) -> int | None:
        return self.levels.colour_index(name) if name else None

    def _colour_trace(self, trace: Mapping[str, Any], title: str,
                      markers: _Markers) -> Mapping[str, Any]:
        """Return a trace in its colour, with a marker that no other curve of the colour has."""
        name = _curve_of(trace)
        if name is None:
            return trace
        if trace["meta"].get("reference"):
            return _paint_trace(trace, None)
        # The only curve of a panel is what the panel is about.
        style = self._level_style(name or title)
        if style is None and name:
            style = self._find_colour(name, markers)
        if style is None:
            return _paint_trace(trace, None)
        number, colour = divmod(style, len(STYLES))
        numbers = markers.setdefault(colour, {})
        if name not in numbers:
            numbers[name] = next(each for each in itertools.count(number)
                                 if each not in numbers.values())
        return _paint_trace(trace, colour, numbers[name])

    def _find_colour(self, name: str, markers: _Markers) -> int:
        """Return the colour of a curve, another one if a curve of the figure has it.

        Where the figure has all colours, it is the colour of the fewest curves.
        """
        known = self.others.get(name)
        if known is not None and name in markers.get(known, {name: 0}):
            return known
        colour = min(range(len(STYLES)), key=lambda each: (
            name not in markers.get(each, {name: 0}), len(markers.get(each, {}))))
        self.others.setdefault(name, colour)
        return colour


def _curve_of(trace: Mapping[str, Any]) -> str | None:
    """Return the name of a trace's curve without its origin, or None for other traces."""
    name = trace.get("meta", {}).get("curve")
    return None if name is None else curve_key(name)


def _paint_trace(trace: Mapping[str, Any], position: int | None, number: int = 0) -> dict[str, Any]:
    """Return a trace of a figure in a colour of the list of styles, with marker and dashes.

    Args:
        trace: The trace.
        position: Position of the colour in the list of styles; None for the neutral colour.
        number: Number of the marker, from 0 for that of the position itself. It chooses the
            dashes, too, so that curves of equal colour differ.
    """
    colour, symbol = _NEUTRAL, ""
    if position is not None:
        colour, symbol = STYLES[position][0], STYLES[(position + number) % len(STYLES)][1]
    painted = dict(trace)
    for part in ("line", "error_x", "error_y"):
        if "color" in trace.get(part, {}):
            painted[part] = {**trace[part], "color": colour}
    marker = trace.get("marker")
    if marker:
        painted["marker"] = {**marker, "color": colour}
        # Markers that mean something else, such as a scenario, stay.
        if symbol and not trace["meta"].get("symbol"):
            is_open = marker["symbol"].endswith("-open")
            painted["marker"]["symbol"] = f"{symbol}-open" if is_open else symbol
    elif position is not None and "line" in trace:
        painted["line"] = {**painted["line"], "dash": DASHES[(position + number) % len(DASHES)]}
    return painted


# --- Axes ---

def share_axes(panels: Iterable[Panel]) -> list[Panel]:
    """Return the panels of a figure with one range for each quantity that several show.

    The quantity of panels with a row per level is on the x axis, that of others on the y axis.
    """
    panels = list(panels)
    shared: dict[tuple[str, str, str], list[int]] = {}
    for at, panel in enumerate(panels):
        axis = "xaxis" if panel.rows else "yaxis"
        layout = panel.layout.get(axis, {})
        title = layout.get("title", {}).get("text", "")
        if title and "range" not in layout:
            kind = layout.get("type") or layout.get("rangemode", "")
            shared.setdefault((axis, title, kind), []).append(at)
    for (axis, _, kind), members in shared.items():
        if len(members) < 2:
            continue
        span = _find_span([panels[at] for at in members], axis[0], kind)
        if span is None:
            continue
        for at in members:
            layout = {**panels[at].layout[axis], "range": span}
            layout.pop("rangemode", None)
            panels[at] = replace(panels[at], layout={**panels[at].layout, axis: layout})
    return panels


def _find_span(panels: Sequence[Panel], axis: str, kind: str) -> list[float] | None:
    """Return the range of an axis over several panels in plotly's format, None without values.

    `kind` is "log" for a logarithmic axis. With "tozero" and "nonnegative" the range begins at 0.
    """
    is_log = kind == "log"
    values = [value for panel in panels for value in _axis_values(panel, axis)
              if math.isfinite(value) and (value > 0 or not is_log)]
    if not values:
        return None
    if is_log:
        low, high = math.log10(min(values)), math.log10(max(values))
    else:
        begin = [0.0] if kind in ("tozero", "nonnegative") else []
        low, high = min([*begin, *values]), max([*begin, *values])
    room = _MARGIN * ((high - low) or 1.0)
    return [low if low == 0 and not is_log else low - room, high + room]


def _axis_values(panel: Panel, axis: str) -> Iterator[float]:
    """Yield the values on an axis, the ends of their intervals, and the sums of stacked bars."""
    sums: dict[Any, float] = {}
    other = "y" if axis == "x" else "x"
    for trace in panel.data:
        values = [value for value in trace.get(axis, ()) if isinstance(value, int | float)]
        if trace.get("type") == "bar" and panel.layout.get("barmode") == "stack":
            for row, value in zip(trace[other], values, strict=True):
                sums[row] = sums.get(row, 0.0) + value
            continue
        base = trace.get("base") or [0.0] * len(values)
        values = [value + begun for value, begun in zip(values, base, strict=True)]
        error = trace.get(f"error_{axis}", {})
        above = error.get("array") or [0.0] * len(values)
        below = error.get("arrayminus") or above
        yield from values
        if len(values) == len(above) == len(below):
            yield from (value + up for value, up in zip(values, above, strict=True))
            yield from (value - down for value, down in zip(values, below, strict=True))
    yield from sums.values()
