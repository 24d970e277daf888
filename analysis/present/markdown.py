"""Markdown output of tables, with a heading for each separate section."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.present.entries import MARKS, format_entry, is_numeric
from analysis.table import Column, Entry, Table


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with warnings before it and notes below."""
    table = table.shown_on("screen")
    lines: list[str] = []
    for warning in table.warnings:
        lines += [f"> {_escape_markdown(warning)}", ""]
    parts = list(table.split_sections()) if table.apart and table.sections else [table]
    for part in parts:
        lines += [f"### {_escape_markdown(part.title)}", "", *_grid_lines(part), ""]
        remarks = [f"- {_escape_markdown(said)}" for _, said in part.remarks]
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
