"""A summary on a terminal: one table a scenario, folded until it fits the width.

The layouts, from the widest: one line a policy with names, without names, two lines a policy (the
interval and the packets below the value), and then two or three tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from analysis.columns import Column, Content, columns, handoff_columns, name_column
from analysis.digits import PLUS_MINUS
from analysis.handoff import roaming
from analysis.names import scenario_title
from analysis.one_clock import VIRTUAL
from analysis.summary import Cell, Summary

_MOST_COMPLAINTS = 5
_UNLIMITED = 10_000
_ID_WIDTH = 14
_Groups: TypeAlias = Sequence[tuple[str, tuple[str, ...]]]
_Splits: TypeAlias = Sequence[_Groups]
_TRAFFIC = ("Throughput and cryptographic overhead", ("traffic",))
#: What stands together where one table is too wide, and then where two are.
_SPLITS: _Splits = (
    (("Authentication", ("authentication", "phases")), _TRAFFIC),
    (("Authentication", ("authentication",)), ("Phases at home", ("phases",)), _TRAFFIC))
_HANDOFF_SPLITS: _Splits = (
    (("Phases", ("phases",)), ("Their sum and the measured total", ("authentication",))),)


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
    pieces = _head(summary, summary.warnings)
    for scenario, cells in summary.cells.items():
        pieces += [_title(scenario, summary.clock),
                   *_parts(columns(summary, cells), cells, width, _SPLITS)]
        remarks = list(_remarks(cells))
        pieces += [*remarks, Text()] if remarks else []
    return Group(*pieces, *_foot(summary.notes.under_table))


def handoff(summary: Summary, width: int) -> RenderableType:
    """The handoffs of the scenarios that have any: phases, their sum and the measured whole."""
    pieces = _head(summary, summary.notes.about_data)
    for scenario, cells in roaming(summary).items():
        pieces += [_title(scenario, summary.clock),
                   *_parts(handoff_columns(summary, cells), cells, width, _HANDOFF_SPLITS)]
    return Group(*pieces, *_foot(summary.notes.under_handoff))


def text(summary: Summary, width: int,
         view: Callable[[Summary, int], RenderableType] = terminal) -> str:
    """The same as plain text."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(view(summary, width))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _head(summary: Summary, warnings: Iterable[str]) -> list[RenderableType]:
    return [*(_line("! ", warning, "yellow") for warning in warnings),
            *(_complaints(summary) if summary.complaints else [])]


def title(scenario: str, clock: str) -> str:
    """What stands above a scenario's table: its name, and virtual time where that is its clock."""
    described = scenario_title(scenario)
    return (f"Scenario {scenario}{f': {described}' if described else ''}"
            f"{' (virtual time)' if clock == VIRTUAL else ''}")


def _title(scenario: str, clock: str) -> Text:
    shown = Text(title(scenario, clock))
    shown.stylize("bold", 0, len(f"Scenario {scenario}"))
    return shown


def _foot(notes: Iterable[str]) -> list[RenderableType]:
    return [_line("- ", note, "dim") for note in notes]


def _parts(whole: Sequence[Column], cells: Sequence[Cell], width: int,
           splits: _Splits) -> list[RenderableType]:
    pieces: list[RenderableType] = []
    for part in _layout(whole, cells, width, splits):
        if part.heading:
            pieces.append(Text(part.heading, style="italic"))
        pieces += [_table(part, cells), Text()]
    return pieces


def _layout(whole: Sequence[Column], cells: Sequence[Cell], width: int,
            splits: _Splits) -> Sequence[_Part]:
    """The first layout that fits; where none does, the last, which wraps."""
    layouts = [[_Part("", whole)], [_Part("", whole, stacked=True)], *(
        [replace(part, stacked=_width(part, cells) > width) for part in _split(whole, groups)]
        for groups in splits)]
    if any(cell.name for cell in cells):
        layouts.insert(0, [_Part("", [whole[0], name_column(), *whole[1:]])])
    return next((parts for parts in layouts
                 if all(_width(part, cells) <= width for part in parts)), layouts[-1])


def _split(whole: Sequence[Column], groups: _Groups) -> list[_Part]:
    """Tables of some groups of columns each, but for those that would hold nothing."""
    parts = [_Part(heading, [column for column in whole if column.group in ("cell", *wanted)])
             for heading, wanted in groups]
    return [part for part in parts if any(column.group != "cell" for column in part.columns)]


def _width(part: _Part, cells: Sequence[Cell]) -> int:
    # No terminal, because rich gives a dumb one 80 columns whatever is asked for.
    console = Console(width=_UNLIMITED, force_terminal=False)
    return Measurement.get(console, console.options, _table(part, cells)).maximum


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
