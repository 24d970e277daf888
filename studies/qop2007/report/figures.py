"""Figures of the study as data for plotly, in the page's palette.

Marker shapes also differ, so that the figures can be read in grey.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.cells import Cells, Observation
from analysis.errors import NothingToReport
from analysis.metrics import Metric
from analysis.present.figures import Axis, Bars, bar_panel, error_bars
from analysis.present.report import Figure, Panel
from analysis.table import Entry, Quantity, Table
from studies.qop2007.metrics import AUTHENTICATION, OVERHEADS, STREAMS
from studies.qop2007.report.basis import Basis
from studies.qop2007.report.handoff import Bar, bar_labels, handoff_bars

#: Position in the page's palette, and marker, of each security group.
_GROUPS = {"none": ("@ink", "x"), "open": ("@6", "triangle-up"), "low": ("@5", "circle"),
           "middle": ("@0", "square"), "high": ("@1", "diamond"), "unknown": ("@3", "cross")}
_GROUP_NAMES = {"none": "no security", "open": "data not protected"}
#: Position in the palette, and marker, of scenarios by their order.
_PLACES = (("@0", "circle"), ("@4", "square"), ("@2", "diamond"), ("@1", "triangle-up"),
           ("@3", "triangle-down"))
_PATTERNS = ("", "/", "", "\\", "", "x", "", "-", "", ".")
_COLOURS = ("@5", "@0", "@4", "@2", "@1", "@3", "@6", "@ink")
#: Distance over which the scenarios of a policy are spread, in rows.
_SPREAD = 0.62
#: Powers of ten above which an axis has ticks at these only.
_FEW_DECADES = 1.5
#: Room beyond the first and last policy of Fig. 2, for markers and names, in percent.
_MARGIN = 6
_BLANK = "\N{NO-BREAK SPACE}"


def draw_times(table: Table, basis: Basis) -> Figure | None:
    """Draw Fig. 2, authentication time against sigma (None: empty table)."""
    groups = {policy.id: policy.group for policy in basis.policies}
    panels = [_time_panel(title, rows, table, groups) for title, rows in _by_section(table)]
    if not panels:
        return None
    return Figure(
        "fig-2", "Fig. 2: authentication time against \N{GREEK SMALL LETTER SIGMA}",
        "Means over the scenarios of a kind, with 95 % intervals. Hollow: as published, where the "
        "paper gives a number. The time has a logarithmic axis.",
        "Scatter plots of authentication time over the normalised protection of each policy, "
        "roaming and not; the table of Fig. 2 has all numbers.", tuple(panels))


def _by_section(table: Table) -> Iterator[tuple[str, Sequence[tuple[Entry, ...]]]]:
    starts = [*table.sections, (len(table.rows), "")]
    for (first, title), (last, _) in itertools.pairwise(starts):
        if any(row[table.column_index(AUTHENTICATION.name)].number for row
               in table.rows[first:last]):
            yield title, table.rows[first:last]


def _time_panel(title: str, rows: Sequence[tuple[Entry, ...]], table: Table,
                groups: Mapping[str, str]) -> Panel:
    time, sigma = table.column_index(AUTHENTICATION.name), table.column_index(
        "sigma_normalized_percent")
    by_group: dict[str, list[tuple[Entry, ...]]] = {}
    for row in rows:
        if row[sigma].number is not None:
            by_group.setdefault(groups.get(row[0].text, "unknown"), []).append(row)
    data = [_times_trace(group, part, time, sigma) for group, part in by_group.items()]
    data += [_names_trace(group, part, time, sigma) for group, part in by_group.items()]
    printed = [row for part in by_group.values() for row in part
               if row[time].published is not None and row[time].number is not None]
    if printed:
        data.append({
            "type": "scatter", "mode": "markers", "name": "published 2007",
            "x": [_value_of(row[sigma]) for row in printed],
            "y": [row[time].published for row in printed], "text": [row[0].text for row in printed],
            "marker": {"symbol": "circle-open", "color": "@muted", "size": 10},
            "hovertemplate": "%{text}, published: %{y:.3g} s<extra></extra>"})
    largest = max((_value_of(row[sigma]) or 0.0 for part in by_group.values() for row in part),
                  default=0.0)
    return Panel(title, data, {
        "xaxis": {"title": {"text": "normalised \N{GREEK SMALL LETTER SIGMA} in %"},
                  "range": [-_MARGIN, max(100.0, largest) + _MARGIN]},
        "yaxis": {"title": {"text": "authentication time in s"}, "type": "log",
                  **({"dtick": 1} if _count_decades(data) > _FEW_DECADES else {}),
                  "minor": {"ticks": "outside", "showgrid": False}}})


def _count_decades(data: Sequence[Mapping[str, Any]]) -> float:
    """Return the powers of ten that the points of a panel span."""
    values = [value for trace in data for value in trace["y"] if value and value > 0]
    return math.log10(max(values) / min(values)) if values else 0.0


def _times_trace(group: str, rows: Sequence[tuple[Entry, ...]], time: int,
                 sigma: int) -> dict[str, Any]:
    colour, symbol = _GROUPS[group]
    rows = [row for row in rows if row[time].number is not None]
    return {
        "type": "scatter", "mode": "markers", "legendgroup": group,
        "name": _GROUP_NAMES.get(group, f"{group} group"),
        "x": [_value_of(row[sigma]) for row in rows], "y": [_value_of(row[time]) for row in rows],
        "text": [row[0].text for row in rows],
        "customdata": [row[1].text for row in rows],
        "error_y": error_bars([row[time].number for row in rows], 1.0, colour),
        "marker": {"symbol": symbol, "color": colour, "size": 10},
        "hovertemplate": "%{text} %{customdata}<br>%{y:.4g} s at %{x:.1f} %<extra></extra>"}


def _names_trace(group: str, rows: Sequence[tuple[Entry, ...]], time: int,
                 sigma: int) -> dict[str, Any]:
    """Return the names of the policies, above their intervals."""
    rows = [row for row in rows if row[time].number is not None]
    tops = [max(number.value, number.high or 0.0) for row in rows if (number := row[time].number)]
    # Without an interval, an empty line raises a name above its marker.
    names = [row[0].text if (number := row[time].number) and number.high is not None
             else f"{row[0].text}<br>{_BLANK}" for row in rows]
    return {"type": "scatter", "mode": "text", "legendgroup": group, "showlegend": False,
            "x": [_value_of(row[sigma]) for row in rows], "y": tops, "hoverinfo": "skip",
            "text": names, "textposition": "top center"}


def _value_of(entry: Entry) -> float | None:
    return entry.number.value if entry.number else None


def draw_traffic(basis: Basis) -> tuple[Figure, ...]:
    """Draw throughput and overhead of every policy by scenario, with intervals."""
    figures = []
    for what, metrics in (("Throughput", STREAMS), ("Overhead", OVERHEADS)):
        panels = tuple(panel for stream, metric in metrics.items() if (
            panel := _traffic_panel(basis, metric, f"{stream.upper()} {what.lower()}")) is not None)
        if panels:
            figures.append(Figure(
                f"fig-{what.lower()}", f"{what} by scenario",
                "Dots are means, bars 95 % intervals; policies in order of protection, the "
                "strongest on top. Choose scenarios, and published values (hollow), in the legend.",
                f"Dot plots of {what.lower()} with intervals, a row a policy and a colour a "
                "scenario; tables 5 to 8 have all numbers.", panels))
    return tuple(figures)


def _traffic_panel(basis: Basis, metric: Metric, title: str) -> Panel | None:
    name, unit, scale = metric.name, metric.unit, metric.scale
    there = [scored.id for scored in basis.policies
             if any(basis.find_observation(name, scored.id, place.id) for place in basis.places)]
    if not there:
        return None
    data: list[dict[str, Any]] = []
    printed: list[dict[str, Any]] = []
    for index, place in enumerate(basis.places):
        cells = [(row, basis.find_observation(name, policy, place.id)) for row, policy
                 in enumerate(there)]
        shift = _SPREAD * (0.5 - index / max(1, len(basis.places) - 1)) if len(
            basis.places) > 1 else 0.0
        known = [(row + shift, there[row], cell) for row, cell in cells if cell]
        if known:
            data.append(_dots_trace(place.id, known, index, unit, scale))
        if basis.origin == "measured":
            printed += _printed_dots(basis, (name, place.id), there, shift, index, scale)
    return Panel(f"{title} in {unit}", [*data, *printed], {
        "yaxis": {"tickvals": list(range(len(there))), "ticktext": there, "showgrid": True,
                  "range": [-0.6, len(there) - 0.4], "zeroline": False},
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"}},
        rows=len(there))


def _dots_trace(place: str, known: Sequence[tuple[float, str, Observation]], index: int, unit: str,
                scale: float) -> dict[str, Any]:
    colour, symbol = _PLACES[index % len(_PLACES)]
    estimates = [cell.estimate for _, _, cell in known]
    return {
        "type": "scatter", "mode": "markers", "name": place,
        "x": [scored.mean * scale for scored in estimates], "y": [row for row, _, _ in known],
        "text": [policy for _, policy, _ in known],
        "marker": {"symbol": symbol, "color": colour, "size": 7},
        "error_x": {"type": "data", "color": colour, "thickness": 1.2, "width": 0,
                    "array": [(scored.half_width or 0) * scale for scored in estimates]},
        "hovertemplate": f"%{{text}} in {place}: %{{x:.4g}} {unit}<extra></extra>"}


def _printed_dots(basis: Basis, what: tuple[str, str], policy_ids: Sequence[str], shift: float,
                  index: int, scale: float) -> list[dict[str, Any]]:
    metric, place = what
    dots = [(row, policy, basis.published[metric, policy, place]) for row, policy in
            enumerate(policy_ids) if (metric, policy, place) in basis.published]
    if not dots:
        return []
    colour, symbol = _PLACES[index % len(_PLACES)]
    return [{
        "type": "scatter", "mode": "markers", "name": "published 2007",
        "legendgroup": "published", "showlegend": index == 0, "visible": "legendonly",
        "x": [value * scale for _, _, value in dots], "y": [row + shift for row, _, _ in dots],
        "text": [policy for _, policy, _ in dots],
        "marker": {"symbol": f"{symbol}-open", "color": colour, "size": 8},
        "hovertemplate": f"%{{text}} in {place}, published: %{{x:.4g}}<extra></extra>"}]


def draw_handoffs(cells: Cells) -> Figure | None:
    """Draw the phases of the handoffs, a bar per policy (None: no handoff)."""
    try:
        panels = handoff_bars(cells)
    except NothingToReport:
        return None
    names = bar_labels(panels, cells)
    return Figure(
        "fig-handoff", "Handoffs", "From leaving the home network to the first answered packet in "
        "the visited one: means of phases; the whisker is the 95 % interval of the whole.",
        "Stacked bars of the phases of a handoff, a row a policy; the run's own tables have all "
        "numbers.", tuple(_waterfall_panel(title, row, names) for title, row in panels.items()))


def _waterfall_panel(title: str, row: Sequence[Bar], names: Sequence[str]) -> Panel:
    moved = [bar for bar in row if bar.total is not None]
    parts = [Bars(name, _COLOURS[index % len(_COLOURS)], _PATTERNS[index % len(_PATTERNS)],
                  {bar.policy: segment.duration_s for bar in moved for segment in bar.segments
                   if segment.label == name}) for index, name in enumerate(names)]
    totals = {bar.policy: Quantity(bar.total.mean, bar.total.low, bar.total.high, bar.total.n)
              for bar in moved if bar.total is not None}
    return bar_panel(title, [bar.policy for bar in moved], parts, totals,
                     Axis("ms since leaving the home network", "ms", 1e3))
