"""Columns of a table in characters: how wide they are, and which layout fits a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich.cells import cell_len

from analysis.present.entries import MARKS, Shown, is_numeric, show
from analysis.table import Table

#: Columns of words are not folded below this, unless no word of theirs is as long.
_NARROWEST = 14


@dataclass(frozen=True)
class Layout:
    """Which columns are shown, how wide, and whether uncertainties stand below their values."""

    indexes: tuple[int, ...]
    widths: tuple[int, ...]
    stacked: bool
    heading: str = ""
    gap: int = 2

    @property
    def width(self) -> int:
        """Characters of a line."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)


class Sheet:
    """A table with every entry as it reads, worked out once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._shown = [[show(entry, column) for entry, column in
                        zip(row, table.columns, strict=True)] for row in table.rows]
        self._numeric = [is_numeric(table, index) for index in range(len(table.columns))]
        self._widths: dict[tuple[int, bool], int] = {}

    def is_numeric(self, index: int) -> bool:
        """Whether a column holds numbers, which stand to the right."""
        return self._numeric[index]

    def heading(self, index: int) -> list[str]:
        """The lines of a column's heading, its unit last."""
        column = self.table.columns[index]
        return [*(column.heading or (column.title,)), *([column.unit] if column.unit else [])]

    def cell(self, row: int, index: int, *, stacked: bool) -> list[str]:
        """The lines of an entry: value and uncertainty on one, or below each other."""
        shown = self._shown[row][index]
        if stacked and shown.spread:
            spread = shown.spread.replace(" ", "") if self.table.apart else shown.spread
            lines = [f"{shown.main}{_signs(shown)}", spread]
        elif stacked and shown.detail:
            lines = [shown.main, f"({shown.detail})"]
        else:
            lines = [shown.main + _second(shown)]
        return [*lines, *shown.beside]

    def keeps(self, index: int) -> bool:
        """Whether a column is rather left out than folded: an optional one of a run's table."""
        return self.table.apart and self.table.columns[index].optional

    def natural(self, index: int, *, stacked: bool) -> int:
        """How wide a column is when nothing of it is folded."""
        if (index, stacked) not in self._widths:
            lines = [line for row in range(len(self.table.rows))
                     for line in self.cell(row, index, stacked=stacked)]
            self._widths[index, stacked] = max(cell_len(line)
                                               for line in (*lines, *self.heading(index)))
        return self._widths[index, stacked]

    def narrowest(self, index: int) -> int:
        """How narrow a column of words may be: its longest word, or a few letters."""
        texts = [*self.heading(index), *(row[index].text for row in self.table.rows)]
        words = [word for text in texts for word in _words(text)]
        longest, whole = (max(map(cell_len, some), default=0) for some in (words, texts))
        if index == 0 and not self.table.apart:
            return whole
        return min(_NARROWEST if index == 0 else max(_NARROWEST, longest), whole)


def layouts(sheet: Sheet, width: int) -> list[Layout]:
    """The first layout that fits; where none does, parts, each as wide as it must be."""
    columns = sheet.table.columns
    everything = tuple(range(len(columns)))
    needed = tuple(index for index in everything if not columns[index].optional)
    for indexes, stacked in ((everything, False), (needed, False), (needed, True)):
        layout = _fitted(sheet, indexes, width, stacked=stacked)
        if layout.width <= width:
            return [layout]
    if any(columns[index].part for index in needed):
        return list(_by_part(sheet, needed, width))
    keys = _keys(sheet, needed, width)
    return list(_in_pieces(sheet, keys, needed[len(keys):], width, ""))


def _keys(sheet: Sheet, indexes: tuple[int, ...], width: int) -> tuple[int, ...]:
    """The columns of words that stand first and say what a row is, if they leave room for more."""
    keys = tuple(takewhile(lambda index: not sheet.is_numeric(index), indexes))
    is_small = _fitted(sheet, keys, width, stacked=True).width <= width // 2
    return keys if len(keys) < len(indexes) and keys and is_small else indexes[:1]


def _by_part(sheet: Sheet, indexes: Sequence[int], width: int) -> Iterator[Layout]:
    """As few tables as fit, of whole parts where it is possible, under the first part's name."""
    columns = sheet.table.columns
    keys = tuple(index for index in indexes if not columns[index].part)
    parts: dict[str, list[int]] = {}
    for index in indexes:
        if columns[index].part:
            parts.setdefault(columns[index].part, []).append(index)
    names = list(parts)
    while names:
        count = len(names)
        while count > 1 and _fitted(sheet, (*keys, *_of(parts, names[:count])), width,
                                    stacked=True).width > width:
            count -= 1
        yield from _in_pieces(sheet, keys, _of(parts, names[:count]), width, names[0])
        names = names[count:]


def _of(parts: dict[str, list[int]], names: Sequence[str]) -> tuple[int, ...]:
    return tuple(index for name in names for index in parts[name])


def _in_pieces(sheet: Sheet, keys: tuple[int, ...], rest: Sequence[int], width: int,
               heading: str) -> Iterator[Layout]:
    """Tables of some columns each behind the key columns, stacked where that is needed."""
    whole = _fitted(sheet, (*keys, *rest), width, stacked=False, heading=heading)
    if whole.width <= width:
        yield whole
        return
    left = list(rest)
    while left:
        count = len(left)
        while count > 1 and _fitted(sheet, (*keys, *left[:count]), width,
                                    stacked=True).width > width:
            count -= 1
        yield _fitted(sheet, (*keys, *left[:count]), width, stacked=True, heading=heading)
        left = left[count:]
    if not rest:
        yield _fitted(sheet, keys, width, stacked=True, heading=heading)


def _fitted(sheet: Sheet, indexes: tuple[int, ...], width: int, *, stacked: bool,
            heading: str = "") -> Layout:
    """The columns at their natural width, those of words narrowed as far as it takes."""
    widths = [sheet.natural(index, stacked=stacked) for index in indexes]
    # What stands below each other needs less room beside each other.
    gap = 1 if stacked and sheet.table.apart else 2
    excess = sum(widths) + gap * (len(widths) - 1) - width
    spare = {at: widths[at] - sheet.narrowest(index) for at, index in enumerate(indexes)
             if not sheet.is_numeric(index) and not sheet.keeps(index)} if excess > 0 else {}
    while excess > 0 and spare:
        at = max(spare, key=lambda at: (spare[at], at))
        if spare[at] <= 0:
            break
        widths[at] -= 1
        spare[at] -= 1
        excess -= 1
    return Layout(indexes, tuple(widths), stacked, heading, gap)


def _second(shown: Shown) -> str:
    """What stands behind a value on its line: the uncertainty and signs, and details."""
    spread = f" {shown.spread}" if shown.spread else ""
    return f"{spread}{_signs(shown)}" + (f" ({shown.detail})" if shown.detail else "")


def _signs(shown: Shown) -> str:
    return "".join(MARKS[mark][0] for mark in shown.signs)


def _words(text: str) -> list[str]:
    """Pieces that a line may end behind: words, and parts of those with hyphens."""
    return text.replace("-", "- ").split()
