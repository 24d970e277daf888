"""Tables on a terminal: as wide as it is, with every number whole.

A table that is too wide gets narrower columns of words; then it loses the policies' names, then
uncertainties move below their values, and at last it is shown in parts that repeat its first
column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from analysis.report.shown import (
    MARKS,
    fold,
    heading_rows,
    is_numeric,
    marks_of,
    section_at,
    show,
)
from analysis.table import Column, Entry, Table

_STYLES = {"best": "bold green", "recommended": "bold", "differs": "yellow", "missing": "dim",
           "spans-zero": "dim", "significant": "bold"}
_WORDS = {"confirmed": "green", "refuted": "red", "undecided": "yellow", "yes": "green",
          "no": "red"}
_GAP = "  "
#: Columns of words are not folded below this, unless no word of theirs is as long.
_LEAST = 14


@dataclass(frozen=True)
class _Layout:
    """Which columns are shown, how wide, and whether uncertainties stand below their values."""

    indexes: tuple[int, ...]
    widths: tuple[int, ...]
    stacked: bool

    @property
    def width(self) -> int:
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)


@dataclass(frozen=True)
class _Terminal:
    """A table to be printed with a rich Console."""

    table: Table

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.table.title, style="bold")
        if self.table.caption:
            yield Text(self.table.caption, style="dim")
        for layout in _layouts(self.table, options.max_width):
            yield Text()
            yield from _lines(self.table, layout)
        yield Text()
        yield from (Text(f"- {note}", style="dim") for note in _notes(self.table))
        yield Text()


def terminal(table: Table) -> _Terminal:
    """A table with its heading and notes, for a rich Console."""
    return _Terminal(table)


def text(table: Table, width: int) -> str:
    """The same as plain text."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(terminal(table))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _notes(table: Table) -> list[str]:
    legend = ", ".join(f"{MARKS[mark][0]} {MARKS[mark][1]}" for mark in marks_of(table))
    return [*([f"{legend[:1].upper()}{legend[1:]}."] if legend else []), *table.notes]


def _layouts(table: Table, width: int) -> list[_Layout]:
    """The first layout that fits; where none does, parts, each as wide as it must be."""
    everything = tuple(range(len(table.columns)))
    unnamed = tuple(index for index in everything if table.columns[index].key != "name")
    for indexes, stacked in ((everything, False), (unnamed, False), (unnamed, True)):
        layout = _fitted(table, indexes, width, stacked=stacked)
        if layout.width <= width:
            return [layout]
    parts: list[_Layout] = []
    first, rest = unnamed[0], list(unnamed[1:])
    while rest:
        count = len(rest)
        while count > 1 and _fitted(table, (first, *rest[:count]), width,
                                    stacked=True).width > width:
            count -= 1
        parts.append(_fitted(table, (first, *rest[:count]), width, stacked=True))
        rest = rest[count:]
    return parts or [_fitted(table, unnamed, width, stacked=True)]


def _fitted(table: Table, indexes: tuple[int, ...], width: int, *, stacked: bool) -> _Layout:
    """The columns at their natural width, those of words narrowed as far as it takes."""
    widths = [_natural(table, index, stacked=stacked) for index in indexes]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        room = [(widths[at] - _least(table, index), at) for at, index in enumerate(indexes)
                if not is_numeric(table, index)]
        most, at = max(room, default=(0, 0))
        if most <= 0:
            break
        widths[at] -= 1
        excess -= 1
    return _Layout(indexes, tuple(widths), stacked)


def _natural(table: Table, index: int, *, stacked: bool) -> int:
    column = table.columns[index]
    lines = [line for row in table.rows for line in _cell(row[index], column, stacked=stacked)]
    return max(cell_len(line) for line in (*lines, column.title, column.unit))


def _least(table: Table, index: int) -> int:
    """How narrow a column of words may be: its longest word, but not less than a few letters."""
    column = table.columns[index]
    texts = [column.title, *(row[index].text for row in table.rows)]
    if index == 0:
        return max(map(cell_len, texts))
    words = [word for text in texts for word in _words(text)]
    return min(max(_LEAST, max(map(cell_len, words), default=0)), max(map(cell_len, texts)))


def _words(text: str) -> list[str]:
    """Pieces that a line may end behind: words, and parts of those with hyphens."""
    return text.replace("-", "- ").split()


def _cell(entry: Entry, column: Column, *, stacked: bool) -> list[str]:
    shown = show(entry, column)
    signs = "".join(MARKS[mark][0] for mark in shown.signs)
    if stacked and shown.spread:
        lines = [f"{shown.main}{signs}", shown.spread]
    else:
        lines = [f"{shown.main}{' ' if shown.spread else ''}{shown.spread}{signs}"]
    return [*lines, *([f"({shown.published})"] if shown.published else [])]


def _lines(table: Table, layout: _Layout) -> Iterator[Text]:
    columns = [table.columns[index] for index in layout.indexes]
    if any(column.group for column in columns):
        yield Text(_groups(columns, layout), style="italic")
    right = [is_numeric(table, index) for index in layout.indexes]
    headings = [[*fold(column.title, width), *([column.unit] if column.unit else [])]
                for column, width in zip(columns, layout.widths, strict=True)]
    height = max(map(len, headings))
    headings = [[""] * (height - len(lines)) + lines for lines in headings]
    yield from _rows(headings, ["bold"] * len(columns), layout, right)
    yield Text("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * layout.width)
    for number, row in enumerate(table.rows):
        yield from (Text(title, style="italic") for title in section_at(table, number))
        cells, styles = [], []
        for index, width in zip(layout.indexes, layout.widths, strict=True):
            lines = _cell(row[index], table.columns[index], stacked=layout.stacked)
            cells.append([part for line in lines for part in fold(line, width)])
            styles.append(_style(row[index]))
        yield from _rows(cells, styles, layout, right)


def _groups(columns: Sequence[Column], layout: _Layout) -> str:
    line, at = "", 0
    for title, count in heading_rows(columns):
        width = sum(layout.widths[at:at + count]) + len(_GAP) * (count - 1)
        line += title[:width].center(width) + _GAP
        at += count
    return line.rstrip()


def _rows(cells: Sequence[Sequence[str]], styles: Sequence[str], layout: _Layout,
          right: Sequence[bool]) -> Iterator[Text]:
    """The lines of a row; what stands below a value is dim."""
    for number in range(max(map(len, cells))):
        line = Text()
        for at, lines in enumerate(cells):
            part = lines[number] if number < len(lines) else ""
            blank = " " * (layout.widths[at] - cell_len(part))
            line.append(f"{blank}{part}" if right[at] else f"{part}{blank}",
                        style="dim" if number and right[at] and styles[at] != "bold" else
                        styles[at])
            line.append(_GAP if at < len(cells) - 1 else "")
        line.rstrip()
        yield line


def _style(entry: Entry) -> str:
    return next((_STYLES[mark] for mark in _STYLES if mark in entry.marks),
                _WORDS.get(entry.text, ""))
