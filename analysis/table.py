"""A table as data: what every table of the study is before it is text, HTML, LaTeX or CSV.

Numbers are in SI units throughout; a column says how they are shown. Presenters (terminal, HTML,
LaTeX, CSV, Parquet) know this module and nothing of what a table is about.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A number, the interval around it (95 %, None where there is none) and how many made it."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True)
class Entry:
    """One cell: a number, or a word; with what was published, marks, and the records behind it.

    `published` has the unit of `number`. `marks` are words that presenters know how to show:
    `recommended`, `best`, `spans-zero`, `significant`, `missing`, `differs`. `records` are names of
    records (`P8-N2-001`), to be linked where the presenter can.
    """

    text: str = ""
    number: Quantity | None = None
    published: float | None = None
    marks: frozenset[str] = frozenset()
    records: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its key (with the SI unit, as in CSV), its title, and how numbers are shown.

    Shown is number x `scale` in `unit`, with `digits` after the point (None: by the interval).
    Neighbours with one `group` share a heading above their titles.
    """

    key: str
    title: str
    unit: str = ""
    scale: float = 1.0
    digits: int | None = None
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its heading and notes; every row has an entry for each column."""

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

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.id}: a row does not have {len(self.columns)} entries")
