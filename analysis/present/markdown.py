"""Markdown output of tables, with a heading for each separate section."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.present.entries import MARKS, is_numeric, show
from analysis.table import Column, Entry, Table


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with warnings before it and notes below."""
    table = table.shown_on("screen")
    lines: list[str] = []
    for warning in table.warnings:
        lines += [f"> {_escape(warning)}", ""]
    parts = list(table.parts()) if table.apart and table.sections else [table]
    for part in parts:
        lines += [f"### {_escape(part.title)}", "", *_grid(part), ""]
        remarks = [f"- {_escape(said)}" for _, said in part.remarks]
        lines += [*remarks, ""] if remarks else []
    notes = [*([table.caption] if table.caption else []), *table.notes]
    lines += [f"- {_escape(note)}" for note in notes]
    return "\n".join(lines) + "\n"


def _grid(table: Table) -> Iterator[str]:
    numeric = [is_numeric(table, index) for index in range(len(table.columns))]
    yield _row([_title(column) for column in table.columns])
    yield _row(["--:" if right else ":--" for right in numeric])
    titles = dict(table.sections)
    for number, row in enumerate(table.rows):
        if number in titles:
            yield _row([f"*{_escape(titles[number])}*", *[""] * (len(row) - 1)])
        yield _row([_escape(_joined(entry, column))
                    for entry, column in zip(row, table.columns, strict=True)])


def _title(column: Column) -> str:
    group = f"{column.group}, " if column.group else ""
    unit = f" [{_escape(column.unit)}]" if column.unit else ""
    return f"{_escape(group + column.title)}{unit}"


def _joined(entry: Entry, column: Column) -> str:
    shown = show(entry, column)
    signs = "".join(MARKS[mark][0] for mark in shown.signs)
    parts = [shown.main, f"{shown.spread}{signs}" if shown.spread else "",
             f"({shown.detail})" if shown.detail else "", *shown.beside]
    joined = " ".join(part for part in parts if part)
    return joined if shown.spread else f"{joined}{signs}"


def _row(entries: list[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _escape(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return "".join(f"\\{c}" if c in "\\|`*_<>[]#" else c for c in text)
