"""A summary as a terminal table, as Markdown, and as CSV."""

from __future__ import annotations

import csv as csv_format
import io
from collections.abc import Iterator

from analysis.columns import Column, Content, columns, name_column
from analysis.digits import PLUS_MINUS
from analysis.statistics import Estimate
from analysis.summary import Cell, Missing, Summary, Value
from analysis.terminal import left_out, terminal, text
from analysis.titles import scenario_title

__all__ = ["csv", "markdown", "terminal", "text"]


def markdown(summary: Summary) -> str:
    """One Markdown table a scenario, with notes below."""
    lines: list[str] = []
    for warning in summary.warnings:
        lines += [f"> {_escape(warning)}", ""]
    if summary.complaints:
        lines += [f"> {left_out(summary)}", ">",
                  *(f"> - {_escape(complaint)}" for complaint in summary.complaints), ""]
    wanted = columns(summary)
    if any(cell.name for cells in summary.cells.values() for cell in cells):
        wanted.insert(1, name_column())
    for scenario, cells in summary.cells.items():
        title = scenario_title(scenario)
        lines += [f"### Scenario {_escape(scenario)}{f': {_escape(title)}' if title else ''}", "",
                  *_markdown_table(wanted, cells), ""]
        remarks = [f"- {_escape(cell.policy)}: {_escape(failure)}"
                   for cell in cells for failure in cell.failures]
        remarks += [f"- {_escape(cell.policy)}: not verified: {_escape(cell.verified_reason)}"
                    for cell in cells if cell.state == "ok" and not cell.verified]
        lines += [*remarks, ""] if remarks else []
    lines += [f"- {_escape(note)}" for note in summary.notes]
    return "\n".join(lines) + "\n"


def csv(summary: Summary) -> str:
    """One row a cell: raw numbers in SI units, named in the header; empty where there is none.

    `state` says why: ok, not run, failed, skipped or too few.
    """
    rows = [dict(_fields(cell)) for cells in summary.cells.values() for cell in cells]
    file = io.StringIO()
    writer = csv_format.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _markdown_table(wanted: list[Column], cells: tuple[Cell, ...]) -> Iterator[str]:
    yield _row([column.title for column in wanted])
    yield _row([":--" if column.is_text else "--:" for column in wanted])
    for cell in cells:
        yield _row([_escape(_joined(column, column.content(cell))) for column in wanted])


def _joined(column: Column, content: Content) -> str:
    if not content.second:
        return content.main
    if column.second_is == "interval":
        return f"{content.main} {PLUS_MINUS} {content.second}"
    return f"{content.main} ({content.second})"


def _row(entries: list[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _escape(text_: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\|`*_<>[]#" else c for c in text_)


def _fields(cell: Cell) -> Iterator[tuple[str, str | float | None]]:
    yield from (("policy", cell.policy), ("name", cell.name), ("scenario", cell.scenario),
                ("state", cell.state), ("good", cell.good), ("planned", cell.total),
                ("verified", "yes" if cell.verified else "no"),
                ("verified_reason", cell.verified_reason))
    for name, value in cell.values.items():
        yield from _numbers(name, value)
    for name, phase in cell.phases.items():
        yield from _numbers(f"phase_{name}_duration_s", phase.duration_s)
        fewest, most = phase.packets or (None, None)
        yield f"phase_{name}_packets_min", fewest
        yield f"phase_{name}_packets_max", most


def _numbers(name: str, value: Value) -> Iterator[tuple[str, float | None]]:
    """A metric's mean under its own name, and its interval and count beside it."""
    stem, _, unit = name.rpartition("_")
    found = Estimate(0, None, None, 0) if isinstance(value, Missing) else value
    yield name, None if isinstance(value, Missing) else found.mean
    yield f"{stem}_low_{unit}", found.low
    yield f"{stem}_high_{unit}", found.high
    yield f"{stem}_n", found.n
