"""Define tables of reports as data, before their conversion to text, HTML or files.

A `Table` has columns, rows of entries and notes. An `Entry` is a number with its confidence
interval, or a word. Numbers are in SI units, and the `Column` says how they are shown. Control
characters and bidirectional signs are removed from all texts here, so that every output format can
show them safely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from measure.records.document import to_printable

# --- Text for tables and notes: sort keys, counts and sizes ---

__all__ = ["count_noun", "format_size", "join_words", "natural_cell_key", "natural_key",
           "to_printable"]


def natural_key(name: str) -> tuple[Any, ...]:
    """Return a sort key for names with numbers, which puts A2 before A10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part)
                 for part in re.split(r"([0-9]+)", name) if part)


def natural_cell_key(ids: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a sort key in natural order (A2 before A10) for a combination of level ids."""
    return tuple(natural_key(name) for name in ids)


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence, with a conjunction before the last one.

    >>> join_words(["calls", "mail", "files"], "or")
    'calls, mail or files'
    >>> join_words(["calls", "mail, web and files"])
    'calls, and mail, web and files'
    """
    if len(words) < 2:
        return "".join(words)
    comma = "," if any(", " in word for word in words) else ""
    return f"{', '.join(words[:-1])}{comma} {last} {words[-1]}"


def count_noun(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> count_noun(2, "repetition")
    '2 repetitions'
    """
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def format_size(count: float) -> str:
    """Return a number of bytes as text with a decimal unit.

    The units are B, kB, MB and GB.
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * factor:  # three digits would show this as 1 of the unit
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


# --- Tables ---

def _screen_texts(part: Any, *names: str) -> None:
    """Remove control characters from the texts of a frozen part of a table."""
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
    """A number in a table with its 95 % interval (None without one) and the number of values."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True)
class Entry:
    """An entry of a table: a number or a word, with additional values.

    `published` and `modelled` have the unit of `number`. `detail` is shown in brackets after the
    number. `marks` are words that output formats know how to show: `recommended`, `best`,
    `spans-zero`, `significant`, `missing`, `differs`. `records` are names of records, which become
    links where the output format can show links.
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
    """A column of a table: its title, unit and how its numbers are shown.

    `key` has the SI unit, as in CSV. Shown is number x `scale` in `unit`, with `digits` after the
    point (None: by the interval). Neighbouring columns of the same `group` have a common heading
    above their titles. On a terminal, `heading` has the lines of a narrower title, and `part` names
    the columns that stay together where a table is split. An `optional` column is left out first.
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
    """A table with its title, columns, rows and notes.

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
        """Return the index of the column with a key.

        Raises:
            StopIteration: There is no column of that key.
        """
        return next(index for index, column in enumerate(self.columns) if column.key == key)

    def has_column(self, key: str) -> bool:
        """Return whether the table has a column with this key."""
        return any(column.key == key for column in self.columns)

    def shown_on(self, medium: Literal["screen", "file"]) -> Table:
        """Return the table with only the columns for a screen, or for files."""
        return self.with_columns([index for index, column in enumerate(self.columns)
                                  if column.only in ("", medium)])

    def with_columns(self, indexes: list[int]) -> Table:
        """Return the table with only some of its columns."""
        if len(indexes) == len(self.columns):
            return self
        return replace(self, columns=tuple(self.columns[index] for index in indexes),
                       rows=tuple(tuple(row[index] for index in indexes) for row in self.rows))

    def split_sections(self) -> Iterator[Table]:
        """Yield each section as a table of its own, without the columns that are empty there."""
        bounds = [*(first for first, _ in self.sections), len(self.rows)]
        for (first, title), last in zip(self.sections, bounds[1:], strict=True):
            part = replace(self, title=title, rows=self.rows[first:last], sections=(),
                           remarks=tuple((row - first, text) for row, text in self.remarks
                                         if first <= row < last))
            numbers = [index for index in range(len(self.columns)) if part.has_values(index)]
            measured = any(row[index].number for row in part.rows for index in numbers)
            yield part.with_columns(numbers if measured else [
                index for index in range(len(self.columns))
                if any(row[index].text not in ("", "-") for row in part.rows)])

    def has_values(self, index: int) -> bool:
        """Return whether a column has any number or word except words for missing values."""
        return any(row[index].number is not None or (
            row[index].text not in ("", "-") and "missing" not in row[index].marks)
            for row in self.rows)
