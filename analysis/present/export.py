"""Convert a table of a report to CSV, Parquet or Markdown.

CSV and Parquet have SI units without rounding. Each part of an entry (its value and the ends of its
confidence interval) has its own column there. Markdown has rounded numbers as on a screen, with a
heading for each section.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from analysis.present.entries import MARKS, format_entry, is_numeric
from analysis.table import Column, Entry, Table

# --- CSV and Parquet ---

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
    """Return a table's columns with their types, and its rows, for CSV and Parquet.

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
    """Write a table to a Parquet file. Its title, caption and notes become metadata."""
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
    """Yield the columns of CSV and Parquet that contain data, for one column of a table.

    Yields:
        Name and type of the column, and the function that reads its value from an entry.
    """
    # A column with a unit is numeric even if none of its cells has a number.
    if not (column.unit or is_numeric(table, index)):
        yield column.key, str, lambda entry: entry.text or None
        fields = [field for field in _BESIDE if field[0] == "marks"]
    else:
        yield column.key, float, lambda entry: entry.number.value if entry.number else None
        fields = list(_BESIDE)
    for ending, kind, read in fields:
        if any(read(row[index]) is not None for row in table.rows):
            yield _name_column(column.key, ending), kind, read


def _name_column(key: str, ending: str) -> str:
    """Return the name of an export column, such as `tcp_goodput_low_bps`.

    The ending stands before the unit. Endings of intervals, published and modelled values have the
    column's unit. Other endings have none, so they replace the unit.
    """
    unit = next((unit for unit in _UNITS if key.endswith(unit)), "")
    if unit and ending in ("low", "high", "published", "modelled"):
        return f"{key.removesuffix(unit)}_{ending}{unit}"
    return f"{key.removesuffix(unit) if unit else key}_{ending}"


def _find_section(table: Table, row: int) -> str:
    above = [title for first, title in table.sections if first <= row]
    return above[-1] if above else ""


def _escape_formula(value: Any) -> Any:
    """Return a value with an apostrophe before text that a spreadsheet would take for a formula.

    Blanks before the formula are ignored.
    """
    if isinstance(value, str) and len(value) > 1 and value.lstrip()[:1] in _FORMULAS:
        return f"'{value}"
    return value


# --- Markdown ---

def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with warnings before it and notes below."""
    table = table.shown_on("screen")
    lines: list[str] = []
    for warning in table.warnings:
        lines += [f"> {_escape_markdown(warning)}", ""]
    parts = list(table.split_sections()) if table.apart and table.sections else [table]
    for part in parts:
        lines += [f"### {_escape_markdown(part.title)}", "", *_grid_lines(part), ""]
        remarks = [f"- {_escape_markdown(text)}" for _, text in part.remarks]
        lines += [*remarks, ""] if remarks else []
    notes = [*([table.caption] if table.caption else []), *table.notes]
    lines += [f"- {_escape_markdown(note)}" for note in notes]
    return "\n".join(lines) + "\n"


def _grid_lines(table: Table) -> Iterator[str]:
    numeric = [is_numeric(table, index) for index in range(len(table.columns))]
    yield _row_line([_column_title(column) for column in table.columns])
    yield _row_line(["--:" if right else ":--" for right in numeric])
    titles = dict(table.sections)
    for number, row in enumerate(table.rows):
        if number in titles:
            yield _row_line([f"*{_escape_markdown(titles[number])}*", *[""] * (len(row) - 1)])
        yield _row_line([_escape_markdown(_entry_text(entry, column))
                         for entry, column in zip(row, table.columns, strict=True)])


def _column_title(column: Column) -> str:
    group = f"{column.group}, " if column.group else ""
    unit = f" [{_escape_markdown(column.unit)}]" if column.unit else ""
    return f"{_escape_markdown(group + column.title)}{unit}"


def _entry_text(entry: Entry, column: Column) -> str:
    shown = format_entry(entry, column)
    signs = "".join(MARKS[mark][0] for mark in shown.signs)
    parts = [shown.main, f"{shown.spread}{signs}" if shown.spread else "",
             f"({shown.detail})" if shown.detail else "", *shown.reference_lines]
    joined = " ".join(part for part in parts if part)
    return joined if shown.spread else f"{joined}{signs}"


def _row_line(entries: list[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _escape_markdown(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return "".join(f"\\{c}" if c in "\\|`*_<>[]#" else c for c in text)
