"""Draw the report's figures: authentication times, throughput and handoffs by security policy.

Each function takes measured or printed values, and returns data for plotly. Groups differ by colour
and by marker, for print in grey. The paper is Agarwal and Wang (2007), on the cost of security
policies in wireless LANs. `studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.cells import Cells
from analysis.measurements import NoResultsError
from analysis.metrics import Metric
from analysis.present.figures import Axis, BarSeries, bar_panel, error_bars
from analysis.present.label_placement import LINE_BREAK, NamedPoint, join_near, place_labels
from analysis.present.report import Figure, Panel
from analysis.table import Entry, Quantity, Table
from studies.qop2007.measurements import AUTHENTICATION, OVERHEADS, STREAMS
from studies.qop2007.report.basis import ReportBasis
from studies.qop2007.report.phase_names import phase_in_words
from studies.qop2007.report.run_table import HandoffBar, bar_labels, handoff_bars

#: Marker of each security group; the colour is the policy's.
_GROUPS = {"none": "x", "open": "triangle-up", "low": "circle", "middle": "square",
           "high": "diamond", "unknown": "cross"}
_GROUP_NAMES = {"none": "no security", "open": "data not protected"}
#: Markers of scenarios by their order; the colour is the policy's.
_PLACES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x")
_PATTERNS = ("", "/", "", "\\", "", "x", "", "-", "", ".")
_COLOURS = ("@5", "@0", "@4", "@2", "@1", "@3", "@6", "@ink")
#: Phases of a handoff in the order of colours and patterns, which are the same in all reports.
_PHASES = tuple(map(phase_in_words, (
    "scan", "authentication", "dot1x", "four_way_handshake", "agent_discovery", "registration",
    "ike", "first_packet", "dhcp", "slaac", "wireguard", "quic", "mptcp")))
#: Distance over which the scenarios of a policy are spread, in rows.
_SPREAD = 0.62
#: Powers of ten above which an axis has ticks at these only.
_FEW_DECADES = 1.5
#: Room beyond the first and last policy of Fig. 2, for markers and names, in percent.
_MARGIN = 6
#: Room above and below the times of Fig. 2, for names, as a share of the axis.
_ROOM = 0.12


def draw_times(table: Table, basis: ReportBasis) -> Figure | None:
    """Draw Fig. 2: authentication time against sigma (protection). None if the table is empty."""
    groups = {policy.id: policy.group for policy in basis.policies}
    sections = list(_by_section(table))
    span = _time_span([row for _, rows in sections for row in rows], table)
    scale = f"\N{GREEK SMALL LETTER SIGMA} in %, by the weights of {basis.weights.title}"
    panels = [_time_panel(title, rows, table, groups, span, scale) for title, rows in sections]
    if not panels:
        return None
    return Figure(
        "fig-2", "Fig. 2: authentication time against \N{GREEK SMALL LETTER SIGMA}",
        "Means with 95 % intervals, of each scenario or of the paper's of one kind. A colour is a "
        "policy, a marker a group. Hollow: as published, where the paper gives a number. The time "
        "has a logarithmic axis.",
        "Scatter plots of authentication time over the normalised protection of each policy, "
        "roaming and not; the table of Fig. 2 has all numbers.", tuple(panels))


def _by_section(table: Table) -> Iterator[tuple[str, Sequence[tuple[Entry, ...]]]]:
    """Yield heading and rows of each section of a table."""
    starts = [*table.sections, (len(table.rows), "")]
    for (first, title), (last, _) in itertools.pairwise(starts):
        if any(row[table.column_index(AUTHENTICATION.name)].number for row
               in table.rows[first:last]):
            yield title, table.rows[first:last]


def _time_span(rows: Sequence[tuple[Entry, ...]], table: Table) -> tuple[float, float]:
    """Return the lower and upper end of the time axis of all panels, in powers of ten."""
    time = table.column_index(AUTHENTICATION.name)
    values = [value for entry in (row[time] for row in rows) for value in (
        _value_of(entry), entry.published, entry.number and entry.number.high)
              if value and value > 0]
    if not values:
        return -3.0, 0.0
    low, high = math.log10(min(values)), math.log10(max(values))
    room = _ROOM * max(high - low, 0.5)
    return low - room, high + room


def _time_panel(title: str, rows: Sequence[tuple[Entry, ...]], table: Table,
                groups: Mapping[str, str], span: tuple[float, float], scale: str) -> Panel:
    time, sigma = table.column_index(AUTHENTICATION.name), table.column_index(
        "sigma_normalized_percent")
    known = [row for row in rows if row[sigma].number is not None and row[time].number is not None]
    data = [_times_trace(groups.get(row[0].text, "unknown"), row, time, sigma) for row in known]
    used = [group for group in _GROUPS if any(
        groups.get(row[0].text, "unknown") == group for row in known)]
    data += [_legend_trace(_GROUP_NAMES.get(group, f"{group} group"), _GROUPS[group])
             for group in used]
    printed = [row for row in known if row[time].published is not None]
    if printed:
        data.append({
            "type": "scatter", "mode": "markers", "name": "published 2007",
            "x": [_value_of(row[sigma]) for row in printed],
            "y": [row[time].published for row in printed], "text": [row[0].text for row in printed],
            "marker": {"symbol": "circle-open", "color": "@muted", "size": 10},
            "hovertemplate": "%{text}, published: %{y:.3g} s<extra></extra>"})
    largest = max((_value_of(row[sigma]) or 0.0 for row in known), default=0.0)
    reach = (-_MARGIN, max(100.0, largest) + _MARGIN)
    return Panel(title, data, {
        "xaxis": {"title": {"text": scale}, "range": list(reach)},
        "yaxis": {"title": {"text": "authentication time in s"}, "type": "log",
                  "range": list(span),
                  **({"dtick": 1} if span[1] - span[0] > _FEW_DECADES else {}),
                  "minor": {"ticks": "outside", "showgrid": False}},
        "annotations": list(_name_points(known, printed, (time, sigma), reach, span))})


def _times_trace(group: str, row: tuple[Entry, ...], time: int, sigma: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "showlegend": False, "name": row[0].text,
        "meta": {"curve": row[0].text, "symbol": True},
        "x": [_value_of(row[sigma])], "y": [_value_of(row[time])], "text": [row[0].text],
        "customdata": [row[1].text], "error_y": error_bars([row[time].number], 1.0, "@ink"),
        "marker": {"symbol": _GROUPS[group], "color": "@ink", "size": 10},
        "hovertemplate": "%{text} %{customdata}<br>%{y:.4g} s at %{x:.1f} %<extra></extra>"}


def _legend_trace(name: str, symbol: str) -> dict[str, Any]:
    """Return a trace without points, which only adds a marker's meaning to the legend."""
    return {"type": "scatter", "mode": "markers", "name": name, "x": [None], "y": [None],
            "hoverinfo": "skip", "marker": {"symbol": symbol, "color": "@ink", "size": 9}}


def _name_points(rows: Sequence[tuple[Entry, ...]], printed: Sequence[tuple[Entry, ...]],
                 columns: tuple[int, int], reach: tuple[float, float],
                 span: tuple[float, float]) -> Iterator[dict[str, Any]]:
    """Yield the annotations of a panel that name its policies, placed around their markers.

    Args:
        rows: table rows of the policies, each with a time and a sigma.
        printed: rows among them that also have a published time.
        columns: indices of the columns with authentication time and sigma.
        reach: lower and upper end of the x axis (sigma in percent).
        span: lower and upper end of the y axis (time, in powers of ten).
    """
    time, sigma = columns

    def to_x_share(row: tuple[Entry, ...]) -> float:
        return ((_value_of(row[sigma]) or 0.0) - reach[0]) / (reach[1] - reach[0])

    def to_y_share(value: float | None) -> float:
        return (math.log10(value) - span[0]) / (span[1] - span[0]) if value and value > 0 else 0.0

    points = {}
    for row in rows:
        number = row[time].number
        if number is not None and number.value > 0:
            points[row[0].text] = NamedPoint(row[0].text, to_x_share(row), to_y_share(number.value),
                                            to_y_share(number.low or number.value),
                                            to_y_share(number.high or number.value))
    places = {row[0].text: row for row in rows}
    markers = [(to_x_share(row), to_y_share(row[time].published)) for row in printed]
    for label in place_labels(join_near([*points.values()]), markers):
        row = places[label.name.partition(LINE_BREAK)[0]]
        value = _value_of(row[time])
        yield {"name": label.name, "text": label.name, "x": _value_of(row[sigma]),
               "y": math.log10(value or 1.0), "showarrow": True, "arrowhead": 0,
               "arrowcolor": "@muted", "arrowwidth": 1 if label.has_line else 0.1,
               "standoff": 7, "ax": label.dx, "ay": label.dy}


def _value_of(entry: Entry) -> float | None:
    return entry.number.value if entry.number else None


def draw_traffic(basis: ReportBasis) -> tuple[Figure, ...]:
    """Draw throughput and cryptographic overhead of every policy by scenario, with intervals."""
    figures = []
    for what, metrics in (("Throughput", STREAMS), ("Overhead", OVERHEADS)):
        panels = tuple(panel for stream, metric in metrics.items() if (
            panel := _traffic_panel(basis, metric, f"{stream.upper()} {what.lower()}")) is not None)
        if panels:
            figures.append(Figure(
                f"fig-{what.lower()}", f"{what} by scenario",
                "Markers are means, bars 95 % intervals; policies in order of protection, the "
                "strongest on top. Published values (hollow) can be switched on in the key.",
                f"Dot plots of {what.lower()} with intervals, a row and a colour a policy, and a "
                "marker a scenario; tables 5 to 8 have all numbers.", panels))
    return tuple(figures)


def _traffic_panel(basis: ReportBasis, metric: Metric, title: str) -> Panel | None:
    name, unit = metric.name, metric.unit
    there = [scored.id for scored in basis.policies
             if any(basis.find_observation(name, scored.id, place.id) for place in basis.places)]
    if not there:
        return None
    rows = {policy: row for row, policy in enumerate(there)}
    data = [_policy_trace(basis, metric, policy, row) for policy, row in rows.items()]
    shown = [place for place in basis.places
             if any(basis.find_observation(name, policy, place.id) for policy in there)]
    data += [_legend_trace(f"{place.id}: {place.title}" if place.title else place.id,
                           _place_symbol(basis, place.id)) for place in shown]
    if basis.origin == "measured":
        data += _printed_dots(basis, metric, rows)
    return Panel(f"{title} in {unit}", data, {
        "yaxis": {"tickvals": list(range(len(there))), "ticktext": there, "showgrid": True,
                  "range": [-0.6, len(there) - 0.4], "zeroline": False},
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"}},
        rows=len(there))


def _place_symbol(basis: ReportBasis, place: str) -> str:
    return _PLACES[[each.id for each in basis.places].index(place) % len(_PLACES)]


def _place_shift(basis: ReportBasis, place: str) -> float:
    """Return the place of a scenario in the row of a policy."""
    places = [each.id for each in basis.places]
    return _SPREAD * (0.5 - places.index(place) / (len(places) - 1)) if len(places) > 1 else 0.0


def _policy_trace(basis: ReportBasis, metric: Metric, policy: str, row: int) -> dict[str, Any]:
    """Return the values of a policy in all scenarios, with their intervals."""
    known = [(place.id, cell.estimate) for place in basis.places
             if (cell := basis.find_observation(metric.name, policy, place.id))]
    return {
        "type": "scatter", "mode": "markers", "name": policy, "showlegend": False,
        "meta": {"curve": policy, "symbol": True},
        "x": [estimate.mean * metric.scale for _, estimate in known],
        "y": [row + _place_shift(basis, place) for place, _ in known],
        "text": [policy] * len(known), "customdata": [place for place, _ in known],
        "marker": {"symbol": [_place_symbol(basis, place) for place, _ in known], "color": "@ink",
                   "size": 7},
        "error_x": {"type": "data", "color": "@ink", "thickness": 1.2, "width": 0,
                    "array": [(estimate.half_width or 0) * metric.scale for _, estimate in known]},
        "hovertemplate": f"%{{text}} in %{{customdata}}: %{{x:.4g}} {metric.unit}<extra></extra>"}


def _printed_dots(basis: ReportBasis, metric: Metric,
                  rows: Mapping[str, int]) -> list[dict[str, Any]]:
    dots = [(place.id, policy, basis.published[metric.name, policy, place.id])
            for place in basis.places for policy in rows
            if (metric.name, policy, place.id) in basis.published]
    if not dots:
        return []
    return [{
        "type": "scatter", "mode": "markers", "name": "published 2007", "visible": "legendonly",
        "x": [value * metric.scale for *_, value in dots],
        "y": [rows[policy] + _place_shift(basis, place) for place, policy, _ in dots],
        "text": [policy for _, policy, _ in dots], "customdata": [place for place, *_ in dots],
        "marker": {"symbol": [f"{_place_symbol(basis, place)}-open" for place, *_ in dots],
                   "color": "@muted", "size": 8},
        "hovertemplate": "%{text} in %{customdata}, published: %{x:.4g}<extra></extra>"}]


def draw_handoffs(cells: Cells) -> Figure | None:
    """Draw the phases of the handoffs as a bar per policy. None if no node moved."""
    try:
        panels = handoff_bars(cells)
    except NoResultsError:
        return None
    names = bar_labels(panels, cells)
    return Figure(
        "fig-handoff", "Handoffs", "From the order to move to the first answered packet at the "
        "next access point: means of phases; the whisker is the 95 % interval of the whole.",
        "Stacked bars of the phases of a handoff, a row a policy; the run's own tables have all "
        "numbers.", tuple(_waterfall_panel(title, row, names) for title, row in panels.items()))


def _waterfall_panel(title: str, row: Sequence[HandoffBar], names: Sequence[str]) -> Panel:
    moved = [bar for bar in row if bar.total is not None]
    styles = style_phases(names)
    parts = [BarSeries(name, *styles[name],
                       {bar.policy: segment.duration_s for bar in moved for segment in bar.segments
                        if segment.label == name}) for name in names]
    totals = {bar.policy: Quantity(bar.total.mean, bar.total.low, bar.total.high, bar.total.n)
              for bar in moved if bar.total is not None}
    return bar_panel(title, [bar.policy for bar in moved], parts, totals,
                     Axis("ms since the order to move", "ms", 1e3))


def style_phases(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return colour and pattern of each phase: those known here first, then others in order."""
    return {name: (_COLOURS[index % len(_COLOURS)],
                   _PATTERNS[(index + index // len(_COLOURS)) % len(_PATTERNS)])
            for index, name in enumerate(dict.fromkeys((*_PHASES, *names)))}
