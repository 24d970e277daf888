"""Marks of overloaded cells at their latencies, which grow with the trace's length."""

from __future__ import annotations

from collections.abc import Iterable

from analysis import run_table
from analysis.cells import Cells, Ids, Observation
from analysis.numbers import NOTHING
from analysis.run_table import Further
from analysis.table import Column, Entry, Table
from studies.adp1987.body import LATENCY

WORD = "overloaded"


def is_overloaded(cells: Cells, cell: Ids) -> bool:
    """Return whether any repetition of a cell was overloaded."""
    value = cells.value("overloaded", cell)
    return isinstance(value, Observation) and value.estimate.mean > 0


def describe_overloaded(cells: Cells, places: Iterable[tuple[str, Ids]]) -> str:
    """Return a sentence that names a figure's overloaded points, "" without any."""
    names = [name for name, cell in places if is_overloaded(cells, cell)]
    listed = "; ".join(names)
    return f" Overloaded, so that latency grows with the trace's length: {listed}." if names else ""


def build_run_table(cells: Cells) -> Table:
    """Return the run's table, with overloaded cells marked after their latencies."""
    column = Further(Column("load", "load"), lambda cell: (
        Entry(WORD) if is_overloaded(cells, cell) else NOTHING), LATENCY.name)
    is_any = any(is_overloaded(cells, cell) for cell in cells.results.cells)
    return run_table.make_run_table(cells, [column] * is_any)
