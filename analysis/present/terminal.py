"""Print tables on a terminal, adapted to its width, with every number whole.

A table that is too wide first gets narrower columns of words. Then it loses its optional columns.
Then uncertainties move below their values. At last the table is shown in parts that repeat its
first columns. `choose_layouts` makes these choices, and the rest of the module prints the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from analysis.present.entries import (
    MARKS,
    EntryText,
    fold_text,
    format_entry,
    heading_rows,
    is_numeric,
    list_notations,
    section_at,
)
from analysis.table import Entry, Table

# --- Layout: widths of columns in characters, and parts that fit the terminal ---

#: Smallest width to which a column of words is folded, unless all of its texts are shorter.
_NARROWEST = 14


@dataclass(frozen=True)
class ColumnLayout:
    """The columns of a table that are printed, with their widths.

    If `stacked` is set, uncertainties stand below their values.
    """

    indexes: tuple[int, ...]
    widths: tuple[int, ...]
    stacked: bool
    heading: str = ""
    gap: int = 2

    @property
    def width(self) -> int:
        """Return the number of characters in a line of the table."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)


class TextTable:
    """A table whose entries are converted to text once."""

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
        """Return the lines of a column's heading, with the unit in the last one."""
        column = self.table.columns[index]
        return [*(column.heading or (column.title,)), *([column.unit] if column.unit else [])]

    def cell_lines(self, row: int, index: int, *, stacked: bool) -> list[str]:
        """Return the lines of a table entry.

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
        """Return whether a column is left out of a narrow table, rather than folded.

        This applies to optional columns of a run's table.
        """
        return self.table.apart and self.table.columns[index].optional

    def natural_width(self, index: int, *, stacked: bool) -> int:
        """Return the width of a column without line breaks, in characters.

        `stacked` puts the uncertainty below the value.
        """
        if (index, stacked) not in self._widths:
            lines = [line for row in range(len(self.table.rows))
                     for line in self.cell_lines(row, index, stacked=stacked)]
            self._widths[index, stacked] = max(cell_len(line)
                                               for line in (*lines, *self.heading_lines(index)))
        return self._widths[index, stacked]

    def smallest_width(self, index: int) -> int:
        """Return the smallest possible width of a column of words, in characters."""
        texts = [*self.heading_lines(index), *(row[index].text for row in self.table.rows)]
        words = [word for text in texts for word in _split_words(text)]
        longest, whole = (max(map(cell_len, some), default=0) for some in (words, texts))
        if index == 0 and not self.table.apart:
            return whole
        return min(_NARROWEST if index == 0 else max(_NARROWEST, longest), whole)


def choose_layouts(sheet: TextTable, width: int) -> list[ColumnLayout]:
    """Return the first layout in which a table fits the terminal, or else a layout in parts.

    Each part repeats the first columns, and is as wide as its columns require.
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


def _key_columns(sheet: TextTable, indexes: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return the first columns of words, which identify a row of the table.

    Without such columns, or if they take more than two thirds of the width, it is the first column
    alone.
    """
    keys = tuple(takewhile(lambda index: not sheet.is_numeric(index), indexes))
    is_small = _fit_columns(sheet, keys, width, stacked=True).width <= 2 * width // 3
    return keys if len(keys) < len(indexes) and keys and is_small else indexes[:1]


def _layout_by_part(sheet: TextTable, indexes: Sequence[int], width: int) -> Iterator[ColumnLayout]:
    """Yield layouts that split a wide table, if possible between groups of columns.

    Each table has the name of its first group as heading.
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


def _layout_in_pieces(sheet: TextTable, keys: tuple[int, ...], other_columns: Sequence[int],
                      width: int,
                      heading: str) -> Iterator[ColumnLayout]:
    """Yield layouts of some columns each after the key columns, stacked where necessary."""
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


def _fit_columns(sheet: TextTable, indexes: tuple[int, ...], width: int, *, stacked: bool,
                 heading: str = "") -> ColumnLayout:
    """Return a layout in which columns of words are narrowed as necessary."""
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
    return ColumnLayout(indexes, tuple(widths), stacked, heading, gap)


def _text_after_value(entry: EntryText) -> str:
    """Return the text behind a value on its line: uncertainty, signs and detail."""
    spread = f" {entry.spread}" if entry.spread else ""
    return f"{spread}{_mark_signs(entry)}" + (f" ({entry.detail})" if entry.detail else "")


def _mark_signs(entry: EntryText) -> str:
    return "".join(MARKS[mark][0] for mark in entry.signs)


def _split_words(text: str) -> list[str]:
    """Return the words of a text, also split after hyphens, where a line may break."""
    return text.replace("-", "- ").split()


# --- Output in colour or as plain text ---

_STYLES = {"best": "bold green", "recommended": "bold", "differs": "yellow", "missing": "dim",
           "spans-zero": "dim", "significant": "bold"}
_WORDS = {"confirmed": "green", "refuted": "red", "undecided": "yellow", "yes": "green",
          "no": "red", "partly": "yellow", "failed": "red", "skipped": "yellow",
          "control": "yellow", "too few": "yellow"}


@dataclass(frozen=True)
class _TerminalTable:
    """A table to be printed with a Console of the library rich."""

    table: Table

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        table = self.table.shown_on("screen")
        yield from (Text(f"! {line}", style="yellow") for line in table.warnings)
        if table.apart and table.sections:
            for part in table.split_sections():
                yield from _table_lines(part, options.max_width)
        else:
            yield from _table_lines(table, options.max_width)
        yield from (Text(f"- {note}", style="dim") for note in _list_notes(table))
        yield Text()


def keep_printed(table: Table, width: int) -> Table:
    """Return a table with the columns only that a terminal of a given width shows."""
    table = table.shown_on("screen")
    layouts = choose_layouts(TextTable(table), width)
    shown = sorted({index for layout in layouts for index in layout.indexes})
    return replace(table, columns=tuple(table.columns[index] for index in shown),
                   rows=tuple(tuple(row[index] for index in shown) for row in table.rows))


def to_console(table: Table) -> _TerminalTable:
    """Return a table with its heading and notes, to be printed with a rich Console."""
    return _TerminalTable(table)


def to_plain_text(table: Table, width: int) -> str:
    """Return a table with its heading and notes as plain text of a given width."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(to_console(table))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _table_lines(table: Table, width: int) -> Iterator[Text]:
    yield Text(table.title, style="bold")
    if table.caption and not table.apart:
        yield Text(table.caption, style="dim")
    sheet = TextTable(table)
    for layout in choose_layouts(sheet, width):
        if layout.heading:
            yield Text(layout.heading, style="italic")
        elif not table.apart:
            yield Text()
        yield from _layout_lines(sheet, layout)
        if table.apart:
            yield Text()
    yield from (Text(text, style="red") for _, text in table.remarks)
    if table.remarks or not table.apart:
        yield Text()


def _list_notes(table: Table) -> list[str]:
    signs = ", ".join(f"{sign} {meaning}" for sign, kind, meaning in list_notations(table)
                      if kind != "published")
    caption = [table.caption] if table.apart and table.caption else []
    return [*caption, *([f"{signs[:1].upper()}{signs[1:]}."] if signs else []), *table.notes]


def _layout_lines(sheet: TextTable, layout: ColumnLayout) -> Iterator[Text]:
    table = sheet.table
    columns = [table.columns[index] for index in layout.indexes]
    if any(column.group for column in columns):
        yield Text(_group_line(sheet, layout), style="italic")
    right = [sheet.is_numeric(index) for index in layout.indexes]
    headings = [[part for line in sheet.heading_lines(index) for part in fold_text(line, width)]
                for index, width in zip(layout.indexes, layout.widths, strict=True)]
    height = max(map(len, headings))
    has_units = table.apart and any(column.unit for column in columns)
    headings = [_align_heading(lines, height, unit=bool(column.unit) or not has_units)
                for lines, column in zip(headings, columns, strict=True)]
    yield from _row_lines(headings, ["bold"] * len(columns), layout, right)
    yield Text("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * layout.width)
    for number, row in enumerate(table.rows):
        yield from (Text(title, style="italic") for title in section_at(table, number))
        cells, styles = [], []
        for index, width in zip(layout.indexes, layout.widths, strict=True):
            lines = sheet.cell_lines(number, index, stacked=layout.stacked)
            cells.append([part for line in lines for part in fold_text(line, width)])
            styles.append(_entry_style(row[index]))
        yield from _row_lines(cells, styles, layout, right)


def _align_heading(lines: list[str], height: int, *, unit: bool) -> list[str]:
    """Add blank lines to a column heading, so that all headings of a table have equal height.

    Units are in the last line of a heading. So a heading without a unit gets a blank last line, and
    the other blank lines come first.

    Args:
        lines: The heading of one column.
        height: Number of lines of the highest heading.
        unit: Whether the last line is a unit, or no column has a unit.
    """
    below = [] if unit or len(lines) >= height else [""]
    return [""] * (height - len(lines) - len(below)) + lines + below


def _group_line(sheet: TextTable, layout: ColumnLayout) -> str:
    columns = [sheet.table.columns[index] for index in layout.indexes]
    line, at = "", 0
    for title, count in heading_rows(columns):
        width = sum(layout.widths[at:at + count]) + layout.gap * (count - 1)
        line += title[:width].center(width) + " " * layout.gap
        at += count
    return line.rstrip()


def _row_lines(cells: Sequence[Sequence[str]], styles: Sequence[str], layout: ColumnLayout,
               right: Sequence[bool]) -> Iterator[Text]:
    """Yield the printed lines of a table row, with lines below a value dimmed."""
    for number in range(max(map(len, cells))):
        line = Text()
        for at, lines in enumerate(cells):
            part = lines[number] if number < len(lines) else ""
            blank = " " * (layout.widths[at] - cell_len(part))
            line.append(f"{blank}{part}" if right[at] else f"{part}{blank}",
                        style="dim" if number and right[at] and styles[at] != "bold" else
                        styles[at])
            line.append(" " * layout.gap if at < len(cells) - 1 else "")
        line.rstrip()
        yield line


def _entry_style(entry: Entry) -> str:
    return _WORDS.get(entry.text) or next(
        (_STYLES[mark] for mark in _STYLES if mark in entry.marks), "")
