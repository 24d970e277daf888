"""Export of tables to CSV and Parquet in SI units without rounding.

Each known value of an entry (such as the ends of its interval) has its own column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from analysis.present.entries import is_numeric
from analysis.table import Column, Entry, Table

_UNITS = ("_percent", "_share", "_bytes", "_bps2", "_bps", "_s")
#: Characters that begin a formula in a spreadsheet, including their full-width forms.
_FORMULAS = ("=", "+", "-", "@", "\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}",
             "\N{FULLWIDTH HYPHEN-MINUS}", "\N{FULLWIDTH COMMERCIAL AT}")
#: Further columns for an entry: ending of the column's name, type, and function that reads it.
_BESIDE: tuple[tuple[str, type, Callable[[Entry], Any]], ...] = (
    ("low", float, lambda entry: entry.number.low if entry.number else None),
    ("high", float, lambda entry: entry.number.high if entry.number else None),
    ("n", int, lambda entry: entry.number.n or None if entry.number else None),
    ("published", float, lambda entry: entry.published),
    ("modelled", float, lambda entry: entry.modelled),
    ("word", str, lambda entry: entry.text or None),
    ("marks", str, lambda entry: ";".join(sorted(entry.marks - {"missing"})) or None))


def typed_rows(table: Table) -> tuple[dict[str, type], list[list[Any]]]:
    """Return the columns with their types, and the rows.

    Missing values are None.
    """
    table = table.shown_on("file")
    columns: dict[str, tuple[type, int, Callable[[Entry], Any]]] = {}
    if table.clock:
        columns["clock"] = (str, -1, lambda _: table.clock)
    if table.sections:
        columns["section"] = (str, -1, lambda entry: entry.text)
    for index, column in enumerate(table.columns):
        for name, kind, read in _export_fields(table, index, column):
            columns[name] = (kind, index, read)
    filled = []
    for number, row in enumerate(table.rows):
        above = Entry(_find_section(table, number))
        filled.append([read(above if index < 0 else row[index])
                       for _, index, read in columns.values()])
    return {name: kind for name, (kind, _, _) in columns.items()}, filled


def to_csv(table: Table) -> str:
    """Return the table as CSV with a header line."""
    columns, filled = typed_rows(table)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_escape_formula, columns))
    writer.writerows([_escape_formula(value) for value in row] for row in filled)
    return out.getvalue()


def write_parquet(table: Table, path: Path) -> None:
    """Write the table to a Parquet file.

    Title, caption and notes become its metadata.
    """
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
    from pyarrow import parquet  # type: ignore[import-untyped,unused-ignore]

    columns, filled = typed_rows(table)
    types = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()],
                       metadata={"id": table.id, "title": table.title, "caption": table.caption,
                                 "notes": "\n".join(table.notes)})
    arrays = [pa.array([row[index] for row in filled], type=types[kind])
              for index, kind in enumerate(columns.values())]
    parquet.write_table(pa.table(arrays, schema=schema), path)


def _export_fields(table: Table, index: int,
                   column: Column) -> Iterator[tuple[str, type, Callable[[Entry], Any]]]:
    """Yield the non-empty export columns for one column of a table."""
    # A column with a unit is numeric even if none of its cells has a number.
    if not (column.unit or is_numeric(table, index)):
        yield column.key, str, lambda entry: entry.text or None
        beside = [field for field in _BESIDE if field[0] == "marks"]
    else:
        yield column.key, float, lambda entry: entry.number.value if entry.number else None
        beside = list(_BESIDE)
    for ending, kind, read in beside:
        if any(read(row[index]) is not None for row in table.rows):
            yield _name_column(column.key, ending), kind, read


def _name_column(key: str, ending: str) -> str:
    """Return the name with the ending before the unit: `tcp_goodput_low_bps`.

    Other endings than the interval, published and modelled values have no unit, so they replace it.
    """
    unit = next((unit for unit in _UNITS if key.endswith(unit)), "")
    if unit and ending in ("low", "high", "published", "modelled"):
        return f"{key.removesuffix(unit)}_{ending}{unit}"
    return f"{key.removesuffix(unit) if unit else key}_{ending}"


def _find_section(table: Table, row: int) -> str:
    above = [title for first, title in table.sections if first <= row]
    return above[-1] if above else ""


def _escape_formula(value: Any) -> Any:
    """Return a value with an apostrophe before text that looks like a formula.

    A spreadsheet would compute such a formula. Blanks before the formula are ignored.
    """
    if isinstance(value, str) and len(value) > 1 and value.lstrip()[:1] in _FORMULAS:
        return f"'{value}"
    return value
