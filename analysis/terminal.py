"""A summary on a terminal: one table a scenario, folded until it fits the width.

The layouts, from the widest: one line a policy with names, without names, two lines a policy (the
interval and the packets below the value), and then authentication and traffic as two tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from analysis.columns import Column, Content, columns, name_column
from analysis.digits import PLUS_MINUS
from analysis.summary import Cell, Summary
from analysis.titles import scenario_title

_MOST_COMPLAINTS = 5
_UNLIMITED = 10_000
_ID_WIDTH = 14


@dataclass(frozen=True)
class _Part:
    """A table of a scenario: some of its columns, on one line a policy or stacked on two."""

    heading: str
    columns: Sequence[Column]
    stacked: bool = False


def terminal(summary: Summary, width: int) -> RenderableType:
    """Everything there is to say, for a console of this width.

    Print it with a rich Console; colours and styles fall away where that is no terminal.
    """
    layout = _layout(summary, width)
    pieces: list[RenderableType] = [_line("! ", warning, "yellow") for warning in summary.warnings]
    if summary.complaints:
        pieces += _complaints(summary)
    for scenario, cells in summary.cells.items():
        title = Text.assemble((f"Scenario {scenario}", "bold"))
        if described := scenario_title(scenario):
            title.append(f": {described}")
        pieces.append(title)
        for part in layout:
            if part.heading:
                pieces.append(Text(part.heading, style="italic"))
            pieces += [_table(part, cells), Text()]
        remarks = list(_remarks(cells))
        pieces += [*remarks, Text()] if remarks else []
    pieces += [_line("- ", note, "dim") for note in summary.notes]
    return Group(*pieces)


def text(summary: Summary, width: int) -> str:
    """The same as plain text."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(terminal(summary, width))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _layout(summary: Summary, width: int) -> Sequence[_Part]:
    """The first layout that fits; where none does, the last, which wraps."""
    whole = columns(summary)
    named = [whole[0], name_column(), *whole[1:]]
    has_names = any(cell.name for cells in summary.cells.values() for cell in cells)
    for part in ([_Part("", named)] if has_names else []) + [
            _Part("", whole), _Part("", whole, stacked=True)]:
        if _width(part, summary) <= width:
            return [part]
    sides = (_Part("Authentication", _side(whole, "authentication")),
             _Part("Throughput and cryptographic overhead", _side(whole, "traffic")))
    return [replace(side, stacked=_width(side, summary) > width) for side in sides]


def _side(whole: Sequence[Column], side: str) -> list[Column]:
    return [column for column in whole if column.group in ("cell", side)]


def _width(part: _Part, summary: Summary) -> int:
    console = Console(width=_UNLIMITED)
    return max(Measurement.get(console, console.options, _table(part, cells)).maximum
               for cells in summary.cells.values())


def _table(part: _Part, cells: Sequence[Cell]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=False,
                  padding=(0, 0) if part.stacked else (0, 1, 0, 0), header_style="bold")
    filled = []
    for column in part.columns:
        heading = "\n".join((*column.heading, column.unit))
        side: Literal["left", "right"] = "left" if column.is_text else "right"
        table.add_column(Text(heading, justify=side), justify=side, overflow="fold",
                         no_wrap=not column.is_text, max_width=_widest(column))
        contents = [column.content(cell) for cell in cells]
        filled.append(_stack(column, contents) if part.stacked else _join(column, contents))
    for row in zip(*filled, strict=True):
        table.add_row(*row)
    return table


def _widest(column: Column) -> int | None:
    """An id may take all of a line; it is folded before it costs the numbers their place."""
    return _ID_WIDTH if column.heading[1] == "policy" else None


def _stack(column: Column, contents: Sequence[Content]) -> list[Text]:
    """Value above, interval or packets below."""
    texts = []
    for content in contents:
        shown = Text(content.main, style=content.style)
        if content.second:
            mark = PLUS_MINUS if column.second_is == "interval" else ""
            packets = f"({content.second})" if column.second_is == "packets" else content.second
            shown.append(f"\n{mark}{packets}", style="dim")
        texts.append(shown)
    return texts


def _join(column: Column, contents: Sequence[Content]) -> list[Text]:
    """Value and interval or packets on one line, aligned at the sign between them."""
    seconds = [_beside(column, content.second) for content in contents]
    after = max((len(second) for second in seconds), default=0)
    texts = []
    for content, second in zip(contents, seconds, strict=True):
        shown = Text(content.main, style=content.style)
        # A word in a number's place is no value to be aligned.
        if content.main[-1:].isdecimal() or second:
            shown.append(second.ljust(after), style="" if column.second_is == "interval" else "dim")
        texts.append(shown)
    return texts


def _beside(column: Column, second: str) -> str:
    if not second:
        return ""
    return f" {PLUS_MINUS} {second}" if column.second_is == "interval" else f" ({second})"


def _remarks(cells: Sequence[Cell]) -> list[Text]:
    """Why repetitions do not count, and why a policy with good ones is not verified."""
    lines = []
    for cell in cells:
        lines += [_line(f"{cell.policy} ", failure, "red") for failure in cell.failures]
        if cell.state == "ok" and not cell.verified:
            lines.append(_line(f"{cell.policy} ", f"not verified: {cell.verified_reason}", "red"))
    return lines


def left_out(summary: Summary) -> str:
    """How many files were left out."""
    count = len(summary.complaints)
    return f"{count} file{'s are' if count > 1 else ' is'} no usable record and left out:"


def _complaints(summary: Summary) -> list[Text]:
    shown, rest = summary.complaints[:_MOST_COMPLAINTS], summary.complaints[_MOST_COMPLAINTS:]
    lines = [_line("! ", left_out(summary), "yellow"),
             *(_line("  ", complaint, "") for complaint in shown)]
    return [*lines, *([Text(f"  and {len(rest)} more")] if rest else []), Text()]


def _line(mark: str, what: str, style: str) -> Text:
    return Text(f"{mark}{what}", style=style)
