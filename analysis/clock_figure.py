"""Figure of two clocks: stacked bars of airtime and protocol, and of the processor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from analysis.clock import CAVEAT
from analysis.present.figures import Axis, Bars, bar_panel
from analysis.present.report import Figure, Panel
from analysis.table import Entry, Table

#: Name, colour in the page's palette and pattern of the two parts of a bar.
_VIRTUAL, _PROCESSOR = ("airtime and protocol", "@0", ""), ("processor", "@1", "/")


def make_clock_figure(tables: Sequence[Table]) -> Figure | None:
    """Return the figure of the first time metric in the tables of analysis.clock_comparison.

    The result is None if there is no such table.
    """
    table = next((table for table in tables if table.rows
                  and _real_column(table).endswith("_real_s")
                  and not table.has_column("component")), None)
    if table is None:
        return None
    what = table.title.removesuffix(" by clock").lower()
    return Figure(
        "fig-clocks", f"What the {what} is made of",
        "Means of virtual time, and what real time has beyond; the whisker is the 95 % interval in "
        f"real time. {CAVEAT}",
        "Stacked bars, a row a cell and a plot for each heading; the table below has all numbers.",
        tuple(_make_panel(title or table.title, table, rows) for title, rows in _by_section(table)))


def _real_column(table: Table) -> str:
    """Return the key of the column of real time, or ""."""
    return next((column.key for column in table.columns if "_real_" in column.key), "")


def _by_section(table: Table) -> Iterator[tuple[str, Sequence[tuple[Entry, ...]]]]:
    starts = [*(table.sections or ((0, ""),)), (len(table.rows), "")]
    for (first, title), (last, _) in itertools.pairwise(starts):
        yield title, table.rows[first:last]


def _make_panel(title: str, table: Table, rows: Sequence[tuple[Entry, ...]]) -> Panel:
    first = table.column_index(_real_column(table))
    names = [", ".join(entry.text for entry in row[:first]) for row in rows]
    real, virtual, processor = ({name: row[at].number for name, row in
                                 zip(names, rows, strict=True)} for at in range(first, first + 3))
    parts = [Bars(*style, {name: max(0.0, number.value) for name, number in numbers.items()
                           if number})
             for style, numbers in ((_VIRTUAL, virtual), (_PROCESSOR, processor))]
    column = table.columns[first]
    return bar_panel(title, names, parts,
                     {name: number for name, number in real.items() if number},
                     Axis(column.unit, column.unit, column.scale))
