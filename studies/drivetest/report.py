"""Draw a drive as users of Mininet-WiFi know it, and the signals along it.

Each cell (one policy in one scenario) has two plots of its first good repetition. The first plot
has the access points with their ranges, the station's path and its roams. The second plot has the
signals that the station received.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analysis.cells import Cells
from analysis.present.figures import style_at
from analysis.present.report import Figure, Panel, Report
from analysis.reporting import standard_report
from studies import policy_factors
from studies.drivetest import path
from studies.drivetest.measurements import DriveMeasurements
from topologies.medium_model import Medium
from topologies.model import ACCESS_POINT, Scenario, from_json

if TYPE_CHECKING:
    from analysis.results import Results
    from studies.study import Study

#: Names of the series in which a record's body comes to the report.
_X, _Y, _HEARD, _ROAM = "x", "y", "heard ", "roam "
_CIRCLE_POINTS = 72


def to_series(measured: DriveMeasurements) -> dict[str, list[tuple[float, float]]]:
    """Return the positions, signals and roams of a drive over time (s)."""
    return {_X: [(at_s, x) for at_s, x, _ in measured.positions],
            _Y: [(at_s, y) for at_s, _, y in measured.positions],
            **{_HEARD + name: list(points) for name, points in measured.heard_dbm.items()},
            **{f"{_ROAM}{number}: {roam.from_ap} to {roam.to_ap}":
               [(roam.begin_s, roam.left_dbm), (roam.end_s, roam.joined_dbm)]
               for number, roam in enumerate(measured.roams, 1)}}


def build_report(study: Study, results: Results, options: Mapping[str, Any]) -> Report:
    """Build the standard report with a figure for each drive."""
    cells = Cells(results, options.get("baseline", ""))
    return standard_report.make_standard_report(
        cells, study.run_table(cells),
        standard_report.ReportAdditions(figures=list(_build_figures(cells))))


def _build_figures(cells: Cells) -> Iterator[Figure]:
    results = cells.results
    medium = policy_factors.read_medium(str(results.settings.get("medium") or ""))
    for members in cells.sections.values():
        for ids in members:
            levels = dict(zip(results.names, ids, strict=True))
            entry = results.find_level("scenario", levels["scenario"])
            rows = cells.good_rows(ids)
            if entry is None or not rows:
                continue
            scenario: Scenario = from_json(Scenario, entry.content)
            series, name = results.series[rows[0]], cells.cell_name(ids)
            yield Figure(
                f"fig-drive-{name}".replace(" ", "-").lower(), f"The drive of {name}",
                f"{results.level_title('scenario', levels['scenario'])}: the first good "
                "repetition. Around each access point: where its signal is at the threshold "
                "(inner circle), and where nothing of it is received any more (outer circle). "
                "Stars: where the station roamed.",
                f"A map of the drive with {_count_roams(series)} roams, and the received signals "
                "over time. The table of the run has the numbers.",
                (_map_panel(scenario, medium, series), _signal_panel(scenario, series)))


def _count_roams(series: Mapping[str, Any]) -> int:
    return sum(name.startswith(_ROAM) for name in series)


def _map_panel(scenario: Scenario, medium: Medium | None,
               series: Mapping[str, Sequence[tuple[float, float]]]) -> Panel:
    """Return a map with access points, their ranges, the station's path and its roams."""
    nodes, data = scenario.network.nodes, list[dict[str, Any]]()
    roaming = nodes[scenario.mobile_node].roaming
    for index, name in enumerate(scenario.network.of_duty(ACCESS_POINT)):
        x, y = (nodes[name].position or (0.0, 0.0))[:2]
        colour, symbol = style_at(index)
        for dbm in _list_ranges(medium, roaming.threshold_dbm if roaming else None):
            radius = path.range_m(medium, nodes[name].channel or 0, dbm) if medium else 0.0
            turns = [2 * math.pi * turn / _CIRCLE_POINTS for turn in range(_CIRCLE_POINTS + 1)]
            data.append({
                "type": "scatter", "mode": "lines", "name": f"{name} at {dbm:g} dBm",
                "showlegend": False, "x": [x + radius * math.cos(turn) for turn in turns],
                "y": [y + radius * math.sin(turn) for turn in turns], "meta": {"curve": name},
                "line": {"color": colour, "width": 1},
                "hovertemplate": f"{name} at {dbm:g} dBm: {radius:.0f} m<extra></extra>"})
        data.append({
            "type": "scatter", "mode": "markers+text", "name": name, "x": [x], "y": [y],
            "text": [name], "textposition": "top center", "meta": {"curve": name},
            "marker": {"color": colour, "symbol": symbol, "size": 11},
            "hovertemplate": f"{name}: %{{x:g}} m, %{{y:g}} m<extra></extra>"})
    data.append({
        "type": "scatter", "mode": "lines", "name": scenario.mobile_node,
        "x": [x for _, x in series[_X]], "y": [y for _, y in series[_Y]],
        "line": {"color": "@ink", "width": 2},
        "hovertemplate": f"{scenario.mobile_node}: %{{x:.0f}} m, %{{y:.0f}} m<extra></extra>"})
    stops = [(name.removeprefix(_ROAM), points) for name, points in series.items()
             if name.startswith(_ROAM)]
    data.append({
        "type": "scatter", "mode": "markers", "name": "roam",
        "x": [_value_at(series[_X], points[0][0]) for _, points in stops],
        "y": [_value_at(series[_Y], points[0][0]) for _, points in stops],
        "text": [f"{name}, {points[0][1]:.0f} to {points[1][1]:.0f} dBm"
                 for name, points in stops],
        "marker": {"symbol": "star", "size": 15, "color": "@ink"},
        "hovertemplate": "roam %{text}<extra></extra>"})
    return Panel("the way, in m", data, {
        "xaxis": {"title": {"text": "x in m"}},
        "yaxis": {"title": {"text": "y in m"}, "scaleanchor": "x", "scaleratio": 1}})


def _list_ranges(medium: Medium | None, threshold_dbm: float | None) -> list[float]:
    """Return the signals (dBm) at which a range is drawn: the threshold, and the weakest."""
    if medium is None or medium.signal is None:
        return []
    return [dbm for dbm in (threshold_dbm, medium.signal.sense_dbm) if dbm is not None]


def _signal_panel(scenario: Scenario,
                  series: Mapping[str, Sequence[tuple[float, float]]]) -> Panel:
    """Return a plot of the received signal of each access point, with the roams marked."""
    data, shapes, labels = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for index, name in enumerate(scenario.network.of_duty(ACCESS_POINT)):
        points = series.get(_HEARD + name, ())
        colour, symbol = style_at(index)
        data.append({
            "type": "scatter", "mode": "markers", "name": name, "meta": {"curve": name},
            "x": [at_s for at_s, _ in points], "y": [dbm for _, dbm in points],
            "marker": {"color": colour, "symbol": symbol, "size": 5},
            "hovertemplate": f"{name}: %{{y:.0f}} dBm at %{{x:.1f}} s<extra></extra>"})
    for name, points in series.items():
        if name.startswith(_ROAM):
            at_s = points[0][0]
            shapes.append({"type": "line", "x0": at_s, "x1": at_s, "yref": "paper", "y0": 0,
                           "y1": 1, "line": {"color": "@ink", "dash": "dot", "width": 1}})
            labels.append({"x": at_s, "y": 1, "yref": "paper", "showarrow": False,
                           "text": name.partition(": ")[2], "xanchor": "left", "yanchor": "top"})
    roaming = scenario.network.nodes[scenario.mobile_node].roaming
    if roaming:
        shapes.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1,
                       "y0": roaming.threshold_dbm, "y1": roaming.threshold_dbm,
                       "line": {"color": "@ink", "dash": "dash", "width": 1}})
    return Panel("received signal, in dBm", data, {
        "xaxis": {"title": {"text": "time in s"}}, "yaxis": {"title": {"text": "signal in dBm"}},
        "shapes": shapes, "annotations": labels})


def _value_at(points: Sequence[tuple[float, float]], at_s: float) -> float:
    """Return the last value at or before a time."""
    return next((value for time_s, value in reversed(points) if time_s <= at_s), points[0][1])
