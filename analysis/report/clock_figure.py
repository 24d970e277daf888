"""Authentication times by clock as bars: airtime and protocol first, and then the processor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from analysis.one_clock import CAVEAT
from analysis.report.model import Figure, Panel
from analysis.report.shown import section_at
from analysis.table import Entry, Table

_ID = "clocks-authentication_time_s"
#: Name, place in the page's palette and pattern of the two parts of a bar.
_VIRTUAL, _PROCESSOR = ("airtime and protocol", "@0", ""), ("processor", "@1", "/")


def figure(tables: Sequence[Table]) -> Figure | None:
    """The figure, from the tables of analysis.clocks; None where they have no such times."""
    found = next((table for table in tables if table.id == _ID and table.rows), None)
    if found is None:
        return None
    return Figure(
        "fig-clocks", "What authentication times are made of",
        "Means of virtual time, and what real time has beyond; the whisker is the 95 % interval in "
        f"real time. {CAVEAT}",
        "Stacked bars, a row a policy and a plot a scenario; the table below has all numbers.",
        tuple(_panel(title, found, rows) for title, rows in _by_section(found)))


def _by_section(table: Table) -> Iterator[tuple[str, list[tuple[Entry, ...]]]]:
    title = ""
    rows: list[tuple[Entry, ...]] = []
    for number, row in enumerate(table.rows):
        for heading in section_at(table, number):
            if rows:
                yield title, rows
            title, rows = heading, []
        rows.append(row)
    if rows:
        yield title, rows


def _panel(title: str, table: Table, rows: Sequence[tuple[Entry, ...]]) -> Panel:
    keys = [column.key.removeprefix("authentication_time_") for column in table.columns]
    drawn = list(rows)[::-1]
    real, virtual, processor = ([row[keys.index(name)].number for row in drawn]
                                for name in ("real_s", "virtual_s", "processor_s"))
    policies = [row[0].text for row in drawn]
    data = [_bar(*style, policies, [max(0.0, one.value) * 1e3 if one else None for one in numbers])
            for style, numbers in ((_VIRTUAL, virtual), (_PROCESSOR, processor))]
    data.append({
        "type": "scatter", "mode": "markers", "name": "real time", "showlegend": False,
        "y": policies, "x": [one.value * 1e3 if one else None for one in real],
        "marker": {"symbol": "line-ns-open", "color": "@ink", "size": 9},
        "error_x": {"type": "data", "color": "@ink", "thickness": 1.4, "width": 4,
                    "array": [(one.high - one.value) * 1e3 if one and one.high is not None else 0
                              for one in real]},
        "hovertemplate": "%{y}: %{x:.1f} ms in real time<extra></extra>"})
    return Panel(title, data, {
        "barmode": "stack", "xaxis": {"title": {"text": "ms"}, "rangemode": "nonnegative"},
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": policies}},
        rows=len(drawn))


def _bar(name: str, colour: str, pattern: str, policies: Sequence[str],
         lengths: Sequence[float | None]) -> dict[str, Any]:
    return {
        "type": "bar", "orientation": "h", "name": name, "y": policies, "x": lengths,
        "marker": {"color": colour, "line": {"color": "@paper", "width": 1},
                   "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "@paper",
                               "solidity": 0.25}},
        "hovertemplate": f"%{{y}}, {name}: %{{x:.1f}} ms<extra></extra>"}
