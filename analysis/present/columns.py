"""Widths of a table's columns in characters, and the layout that fits a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich.cells import cell_len

from analysis.present.entries import MARKS, Shown, format_entry, is_numeric
from analysis.table import Table

#: Smallest width to which a column of words is folded, unless all of its texts are shorter.
_NARROWEST = 14


@dataclass(frozen=True)
class Layout:
    """A choice of columns with their widths.

    If `stacked` is set, uncertainties stand below their values.
    """

    indexes: tuple[int, ...]
    widths: tuple[int, ...]
    stacked: bool
    heading: str = ""
    gap: int = 2

    @property
    def width(self) -> int:
        """Return the number of characters in a line."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)


class Sheet:
    """A table with all entries converted to text once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._shown = [[format_entry(entry, column) for entry, column in
                        zip(row, table.columns, strict=True)] for row in table.rows]
        self._numeric = [is_numeric(table, index) for index in range(len(table.columns))]
        self._widths: dict[tuple[int, bool], int] = {}

    def is_numeric(self, index: int) -> bool:
        """Return whether a column has numbers, which are right-aligned."""
        return self._numeric[index]

    def heading_lines(self, index: int) -> list[str]:
        """Return the lines of a column's heading, the unit last."""
        column = self.table.columns[index]
        return [*(column.heading or (column.title,)), *([column.unit] if column.unit else [])]

    def cell_lines(self, row: int, index: int, *, stacked: bool) -> list[str]:
        """Return the lines of an entry.

        The uncertainty is on the value's line, or below it if `stacked` is set.
        """
        shown = self._shown[row][index]
        if stacked and shown.spread:
            spread = shown.spread.replace(" ", "") if self.table.apart else shown.spread
            lines = [f"{shown.main}{_mark_signs(shown)}", spread]
        elif stacked and shown.detail:
            lines = [shown.main, f"({shown.detail})"]
        else:
            lines = [shown.main + _text_after_value(shown)]
        return [*lines, *shown.reference_lines]

    def is_droppable(self, index: int) -> bool:
        """Return whether a column is left out rather than folded.

        This applies to optional columns of a run's table.
        """
        return self.table.apart and self.table.columns[index].optional

    def natural_width(self, index: int, *, stacked: bool) -> int:
        """Return the width of a column that is not folded."""
        if (index, stacked) not in self._widths:
            lines = [line for row in range(len(self.table.rows))
                     for line in self.cell_lines(row, index, stacked=stacked)]
            self._widths[index, stacked] = max(cell_len(line)
                                               for line in (*lines, *self.heading_lines(index)))
        return self._widths[index, stacked]

    def smallest_width(self, index: int) -> int:
        """Return the smallest width of a column of words."""
        texts = [*self.heading_lines(index), *(row[index].text for row in self.table.rows)]
        words = [word for text in texts for word in _split_words(text)]
        longest, whole = (max(map(cell_len, some), default=0) for some in (words, texts))
        if index == 0 and not self.table.apart:
            return whole
        return min(_NARROWEST if index == 0 else max(_NARROWEST, longest), whole)


def choose_layouts(sheet: Sheet, width: int) -> list[Layout]:
    """Return the first layout that fits, or else parts that repeat the first columns.

    A part is as wide as its columns require.
    """
    columns = sheet.table.columns
    everything = tuple(range(len(columns)))
    needed = tuple(index for index in everything if not columns[index].optional)
    for indexes, stacked in ((everything, False), (needed, False), (needed, True)):
        layout = _fit_columns(sheet, indexes, width, stacked=stacked)
        if layout.width <= width:
            return [layout]
    if any(columns[index].part for index in needed):
        return list(_layout_by_part(sheet, needed, width))
    keys = _key_columns(sheet, needed, width)
    return list(_layout_in_pieces(sheet, keys, needed[len(keys):], width, ""))


def _key_columns(sheet: Sheet, indexes: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return the leading columns of words, which identify a row.

    Without such columns, or if they take more than half of the width, it is the first column alone.
    """
    keys = tuple(takewhile(lambda index: not sheet.is_numeric(index), indexes))
    is_small = _fit_columns(sheet, keys, width, stacked=True).width <= width // 2
    return keys if len(keys) < len(indexes) and keys and is_small else indexes[:1]


def _layout_by_part(sheet: Sheet, indexes: Sequence[int], width: int) -> Iterator[Layout]:
    """Yield as few tables as fit, with whole parts where possible.

    Each table has the name of its first part as heading.
    """
    columns = sheet.table.columns
    keys = tuple(index for index in indexes if not columns[index].part)
    parts: dict[str, list[int]] = {}
    for index in indexes:
        if columns[index].part:
            parts.setdefault(columns[index].part, []).append(index)
    names = list(parts)
    while names:
        count = len(names)
        while count > 1 and _fit_columns(sheet, (*keys, *_columns_of_parts(parts, names[:count])),
                                         width,
                                         stacked=True).width > width:
            count -= 1
        yield from _layout_in_pieces(sheet, keys, _columns_of_parts(parts, names[:count]), width,
                                     names[0])
        names = names[count:]


def _columns_of_parts(parts: dict[str, list[int]], names: Sequence[str]) -> tuple[int, ...]:
    return tuple(index for name in names for index in parts[name])


def _layout_in_pieces(sheet: Sheet, keys: tuple[int, ...], other_columns: Sequence[int], width: int,
                      heading: str) -> Iterator[Layout]:
    """Yield tables of some columns each after the key columns, stacked where necessary."""
    whole = _fit_columns(sheet, (*keys, *other_columns), width, stacked=False, heading=heading)
    if whole.width <= width:
        yield whole
        return
    left = list(other_columns)
    while left:
        count = len(left)
        while count > 1 and _fit_columns(sheet, (*keys, *left[:count]), width,
                                         stacked=True).width > width:
            count -= 1
        yield _fit_columns(sheet, (*keys, *left[:count]), width, stacked=True, heading=heading)
        left = left[count:]
    if not other_columns:
        yield _fit_columns(sheet, keys, width, stacked=True, heading=heading)


def _fit_columns(sheet: Sheet, indexes: tuple[int, ...], width: int, *, stacked: bool,
                 heading: str = "") -> Layout:
    """Return the columns at their natural widths, with columns of words narrowed as necessary."""
    widths = [sheet.natural_width(index, stacked=stacked) for index in indexes]
    # Stacked values are easy to tell apart, so a smaller gap between columns is sufficient.
    gap = 1 if stacked and sheet.table.apart else 2
    excess = sum(widths) + gap * (len(widths) - 1) - width
    spare = {at: widths[at] - sheet.smallest_width(index) for at, index in enumerate(indexes)
             if not sheet.is_numeric(index) and not sheet.is_droppable(index)} if excess > 0 else {}
    while excess > 0 and spare:
        at = max(spare, key=lambda at: (spare[at], at))
        if spare[at] <= 0:
            break
        widths[at] -= 1
        spare[at] -= 1
        excess -= 1
    return Layout(indexes, tuple(widths), stacked, heading, gap)


def _text_after_value(entry: Shown) -> str:
    """Return the text after a value on its line: uncertainty, signs and detail."""
    spread = f" {entry.spread}" if entry.spread else ""
    return f"{spread}{_mark_signs(entry)}" + (f" ({entry.detail})" if entry.detail else "")


def _mark_signs(entry: Shown) -> str:
    return "".join(MARKS[mark][0] for mark in entry.signs)


def _split_words(text: str) -> list[str]:
    """Return the words of a text, split after hyphens.

    A line may break after each of these parts.
    """
    return text.replace("-", "- ").split()
