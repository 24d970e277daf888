"""Tables as data, before their conversion to an output format.

The formats are text, HTML, LaTeX, Markdown, CSV and Parquet. Numbers are in SI units, and a column
says how they are shown. Presenters know only this module, not the subject of a table. All texts are
made safe to show here. So terminals, pages, CSV and LaTeX get no control characters and no
bidirectional signs, whatever file a text comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from analysis.text import to_printable


def _screen_texts(part: Any, *names: str) -> None:
    """Make texts of a frozen part of a table safe to show."""
    for name in names:
        value = getattr(part, name)
        screened = _screen_value(value)
        if screened != value:
            object.__setattr__(part, name, screened)


def _screen_value(value: Any) -> Any:
    if isinstance(value, str):
        return to_printable(value)
    return tuple(map(_screen_value, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Quantity:
    """A number with its 95 % interval (None without one) and the number of values."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True)
class Entry:
    """A number or a word of a table with additional values.

    `published` and `modelled` have the unit of `number`. `detail` is shown in brackets after the
    number. `marks` are words that presenters know how to show: `recommended`, `best`, `spans-zero`,
    `significant`, `missing`, `differs`. `records` are names of records, which become links where
    the presenter can show links.
    """

    text: str = ""
    number: Quantity | None = None
    published: float | None = None
    marks: frozenset[str] = frozenset()
    records: tuple[str, ...] = ()
    note: str = ""
    modelled: float | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        _screen_texts(self, "text", "note", "detail")


@dataclass(frozen=True)
class Column:
    """A column with its title and display.

    `key` has the SI unit, as in CSV. Shown is number x `scale` in `unit`, with `digits` after the
    point (None: by the interval). Neighbouring columns of the same `group` share a heading above
    their titles. On a terminal, `heading` has the lines of a narrower title, and `part` names the
    columns that stay together where a table is split. An `optional` column is left out first.
    `only` limits a column to one medium: to `screen` (and paper), or to `file`s for programs.
    """

    key: str
    title: str
    unit: str = ""
    scale: float = 1.0
    digits: int | None = None
    group: str = ""
    heading: tuple[str, ...] = ()
    part: str = ""
    optional: bool = False
    only: Literal["", "screen", "file"] = ""

    def __post_init__(self) -> None:
        _screen_texts(self, "key", "title", "unit", "group", "part", "heading")


@dataclass(frozen=True)
class Table:
    """A table with its heading and notes.

    Every row has an entry for each column. `warnings` are shown before the table. `remarks` are on
    a row: its index, and the text. `source` is the source of published values. If `apart` is set,
    each section is a separate table on screens, without columns that are empty there.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    #: Index of a section's first row, and the heading above that row.
    sections: tuple[tuple[int, str], ...] = ()
    #: Clock of the repetitions behind the table; "" for a table without measured values.
    clock: str = ""
    warnings: tuple[str, ...] = ()
    remarks: tuple[tuple[int, str], ...] = ()
    source: str = ""
    apart: bool = False

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.id}: a row does not have {len(self.columns)} entries")
        _screen_texts(self, "title", "caption", "notes", "warnings", "source", "sections",
                      "remarks")

    def column_index(self, key: str) -> int:
        """Return the index of a column.

        Raises:
            StopIteration: There is no column of that key.
        """
        return next(index for index, column in enumerate(self.columns) if column.key == key)

    def has_column(self, key: str) -> bool:
        """Return whether there is a column of that key."""
        return any(column.key == key for column in self.columns)

    def shown_on(self, medium: Literal["screen", "file"]) -> Table:
        """Return the table without the columns for the other medium."""
        return self.with_columns([index for index, column in enumerate(self.columns)
                                  if column.only in ("", medium)])

    def with_columns(self, indexes: list[int]) -> Table:
        """Return the table with only some of its columns."""
        if len(indexes) == len(self.columns):
            return self
        return replace(self, columns=tuple(self.columns[index] for index in indexes),
                       rows=tuple(tuple(row[index] for index in indexes) for row in self.rows))

    def split_sections(self) -> Iterator[Table]:
        """Yield each section as a separate table, without the columns that are empty there."""
        bounds = [*(first for first, _ in self.sections), len(self.rows)]
        for (first, title), last in zip(self.sections, bounds[1:], strict=True):
            part = replace(self, title=title, rows=self.rows[first:last], sections=(),
                           remarks=tuple((row - first, said) for row, said in self.remarks
                                         if first <= row < last))
            numbers = [index for index in range(len(self.columns)) if part.has_values(index)]
            measured = any(row[index].number for row in part.rows for index in numbers)
            yield part.with_columns(numbers if measured else [
                index for index in range(len(self.columns))
                if any(row[index].text not in ("", "-") for row in part.rows)])

    def has_values(self, index: int) -> bool:
        """Return whether a column has any number or word other than for missing values."""
        return any(row[index].number is not None or (
            row[index].text not in ("", "-") and "missing" not in row[index].marks)
            for row in self.rows)
