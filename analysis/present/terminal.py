"""Terminal output of tables, as wide as the terminal and with every number whole.

A table that is too wide first gets narrower columns of words. Then it loses its optional columns.
Then uncertainties move below their values. At last the table is shown in parts that repeat its
first columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from analysis.present.columns import Layout, Sheet, choose_layouts
from analysis.present.entries import fold_text, heading_rows, list_notations, section_at
from analysis.table import Entry, Table

_STYLES = {"best": "bold green", "recommended": "bold", "differs": "yellow", "missing": "dim",
           "spans-zero": "dim", "significant": "bold"}
_WORDS = {"confirmed": "green", "refuted": "red", "undecided": "yellow", "yes": "green",
          "no": "red", "partly": "yellow", "failed": "red", "skipped": "yellow",
          "control": "yellow", "too few": "yellow"}


@dataclass(frozen=True)
class _Terminal:
    """A table to be printed with a rich Console."""

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


def to_console(table: Table) -> _Terminal:
    """Return a table with its heading and notes for a rich Console."""
    return _Terminal(table)


def to_plain_text(table: Table, width: int) -> str:
    """Return a table with its heading and notes as plain text."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(to_console(table))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _table_lines(table: Table, width: int) -> Iterator[Text]:
    yield Text(table.title, style="bold")
    if table.caption and not table.apart:
        yield Text(table.caption, style="dim")
    sheet = Sheet(table)
    for layout in choose_layouts(sheet, width):
        if layout.heading:
            yield Text(layout.heading, style="italic")
        elif not table.apart:
            yield Text()
        yield from _layout_lines(sheet, layout)
        if table.apart:
            yield Text()
    yield from (Text(said, style="red") for _, said in table.remarks)
    if table.remarks or not table.apart:
        yield Text()


def _list_notes(table: Table) -> list[str]:
    signs = ", ".join(f"{sign} {meaning}" for sign, kind, meaning in list_notations(table)
                      if kind != "published")
    caption = [table.caption] if table.apart and table.caption else []
    return [*caption, *([f"{signs[:1].upper()}{signs[1:]}."] if signs else []), *table.notes]


def _layout_lines(sheet: Sheet, layout: Layout) -> Iterator[Text]:
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
    """Return a bottom-aligned heading, one line higher where only other columns have units."""
    below = [] if unit or len(lines) >= height else [""]
    return [""] * (height - len(lines) - len(below)) + lines + below


def _group_line(sheet: Sheet, layout: Layout) -> str:
    columns = [sheet.table.columns[index] for index in layout.indexes]
    line, at = "", 0
    for title, count in heading_rows(columns):
        width = sum(layout.widths[at:at + count]) + layout.gap * (count - 1)
        line += title[:width].center(width) + " " * layout.gap
        at += count
    return line.rstrip()


def _row_lines(cells: Sequence[Sequence[str]], styles: Sequence[str], layout: Layout,
               right: Sequence[bool]) -> Iterator[Text]:
    """Yield the lines of a row, with lines below a value dimmed."""
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
