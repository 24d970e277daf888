"""A table as data: what every table is before it is text, HTML, LaTeX, Markdown, CSV or Parquet.

Numbers are in SI units throughout; a column says how they are shown. Presenters know this module
and nothing of what a table is about. Every text is made safe to show here, wherever it came from:
a terminal, a page, CSV and LaTeX get no controls and no bidirectional signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from analysis.text import printable


def _screen(part: Any, *names: str) -> None:
    """Make texts of a frozen part of a table safe to show, whatever file they came from."""
    for name in names:
        value = getattr(part, name)
        screened = _screened(value)
        if screened != value:
            object.__setattr__(part, name, screened)


def _screened(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    return tuple(map(_screened, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Quantity:
    """A number, the interval around it (95 %, None where there is none) and how many made it."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True)
class Entry:
    """A number, or a word; with what was published or modelled, marks, and the records behind it.

    `published` and `modelled` have the unit of `number`. `detail` stands in brackets beside it.
    `marks` are words that presenters know how to show: `recommended`, `best`, `spans-zero`,
    `significant`, `missing`, `differs`. `records` are names of records, to be linked where the
    presenter can.
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
        _screen(self, "text", "note", "detail")


@dataclass(frozen=True)
class Column:
    """A column: its key (with the SI unit, as in CSV), its title, and how numbers are shown.

    Shown is number x `scale` in `unit`, with `digits` after the point (None: by the interval).
    Neighbours with one `group` share a heading above their titles. On a terminal, `heading` has
    the lines of a narrower title, `part` names the columns that stay together where a table has to
    be split, and an `optional` column goes first. `only` says where a column is shown at all:
    on `screen` (and paper), or in `file`s for programs.
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
        _screen(self, "key", "title", "unit", "group", "part", "heading")


@dataclass(frozen=True)
class Table:
    """A table with its heading and notes; every row has an entry for each column.

    `warnings` belong in front of it. `remarks` are on a row: its index, and what is to be said.
    `source` is where published values stand. Of a table whose sections stand `apart`, each is a
    table of its own on screens, without columns that hold nothing there.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    #: Index of a first row, and the heading that stands above it.
    sections: tuple[tuple[int, str], ...] = ()
    #: The clock of the repetitions behind it; "" where it holds nothing measured.
    clock: str = ""
    warnings: tuple[str, ...] = ()
    remarks: tuple[tuple[int, str], ...] = ()
    source: str = ""
    apart: bool = False

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.id}: a row does not have {len(self.columns)} entries")
        _screen(self, "title", "caption", "notes", "warnings", "source", "sections", "remarks")

    def column(self, key: str) -> int:
        """The index of a column; raises StopIteration where there is none of that key."""
        return next(index for index, column in enumerate(self.columns) if column.key == key)

    def has(self, key: str) -> bool:
        """Whether there is a column of that key."""
        return any(column.key == key for column in self.columns)

    def shown_on(self, medium: Literal["screen", "file"]) -> Table:
        """The table without the columns that are for another medium."""
        return self.with_columns([index for index, column in enumerate(self.columns)
                                  if column.only in ("", medium)])

    def with_columns(self, indexes: list[int]) -> Table:
        """The table with some of its columns."""
        if len(indexes) == len(self.columns):
            return self
        return replace(self, columns=tuple(self.columns[index] for index in indexes),
                       rows=tuple(tuple(row[index] for index in indexes) for row in self.rows))

    def parts(self) -> Iterator[Table]:
        """Each section as a table of its own, without the columns that hold nothing there."""
        bounds = [*(first for first, _ in self.sections), len(self.rows)]
        for (first, title), last in zip(self.sections, bounds[1:], strict=True):
            part = replace(self, title=title, rows=self.rows[first:last], sections=(),
                           remarks=tuple((row - first, said) for row, said in self.remarks
                                         if first <= row < last))
            numbers = [index for index in range(len(self.columns)) if part.holds(index)]
            measured = any(row[index].number for row in part.rows for index in numbers)
            yield part.with_columns(numbers if measured else [
                index for index in range(len(self.columns))
                if any(row[index].text not in ("", "-") for row in part.rows)])

    def holds(self, index: int) -> bool:
        """Whether a column has anything but words for what is missing."""
        return any(row[index].number is not None or (
            row[index].text not in ("", "-") and "missing" not in row[index].marks)
            for row in self.rows)
