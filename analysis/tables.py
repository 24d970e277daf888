"""A summary as a terminal table, as Markdown, and as CSV."""

from __future__ import annotations

import csv as csv_format
import io
from collections.abc import Iterable, Iterator

from analysis.columns import Column, Content, columns, handoff_columns, name_column
from analysis.digits import PLUS_MINUS
from analysis.handoff import roaming
from analysis.statistics import Estimate
from analysis.summary import Cell, Missing, Phase, Summary, Value
from analysis.terminal import handoff, left_out, terminal, text, title

__all__ = ["csv", "handoff", "handoff_csv", "handoff_markdown", "markdown", "terminal", "text"]


def markdown(summary: Summary) -> str:
    """One Markdown table a scenario, with notes below."""
    lines = _markdown_head(summary, summary.warnings)
    for scenario, cells in summary.cells.items():
        lines += [*_markdown_table(title(scenario, summary.clock), columns(summary, cells),
                                   cells), ""]
        remarks = [f"- {_escape(cell.policy)}: {_escape(failure)}"
                   for cell in cells for failure in cell.failures]
        remarks += [f"- {_escape(cell.policy)}: not verified: {_escape(cell.verified_reason)}"
                    for cell in cells if cell.state == "ok" and not cell.verified]
        lines += [*remarks, ""] if remarks else []
    lines += [f"- {_escape(note)}" for note in summary.notes.under_table]
    return "\n".join(lines) + "\n"


def handoff_markdown(summary: Summary) -> str:
    """One Markdown table a roaming scenario: phases of the handoff, their sum and the total."""
    lines = _markdown_head(summary, summary.notes.about_data)
    for scenario, cells in roaming(summary).items():
        lines += [*_markdown_table(title(scenario, summary.clock),
                                  handoff_columns(summary, cells), cells), ""]
    lines += [f"- {_escape(note)}" for note in summary.notes.under_handoff]
    return "\n".join(lines) + "\n"


def csv(summary: Summary) -> str:
    """One row a cell: raw numbers in SI units, named in the header; empty where there is none.

    `state` says why: ok, not run, failed, skipped or too few.
    """
    return _csv(dict(_fields(cell, summary.clock))
                for cells in summary.cells.values() for cell in cells)


def handoff_csv(summary: Summary) -> str:
    """The same of the roaming scenarios' handoffs alone."""
    return _csv(dict([*_cell_fields(cell, summary.clock), *_handoff_fields(cell)])
                for cells in roaming(summary).values() for cell in cells)


def _csv(records: Iterable[dict[str, str | float | None]]) -> str:
    rows = list(records)
    file = io.StringIO()
    writer = csv_format.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _markdown_head(summary: Summary, warnings: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for warning in warnings:
        lines += [f"> {_escape(warning)}", ""]
    if summary.complaints:
        lines += [f"> {left_out(summary)}", ">",
                  *(f"> - {_escape(complaint)}" for complaint in summary.complaints), ""]
    return lines


def _markdown_table(heading: str, wanted: list[Column], cells: tuple[Cell, ...]) -> Iterator[str]:
    yield f"### {_escape(heading)}"
    yield ""
    if any(cell.name for cell in cells):
        wanted = [wanted[0], name_column(), *wanted[1:]]
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


def _fields(cell: Cell, clock: str) -> Iterator[tuple[str, str | float | None]]:
    yield from _cell_fields(cell, clock)
    for name, value in cell.values.items():
        if name != "handoff_s":
            yield from _numbers(name, value)
    yield "authentication_sum", "+".join(name for name in cell.components if name in cell.summed)
    for name, value in cell.components.items():
        yield from _numbers(f"component_{name}_s", value)
    for name, phase in cell.phases.items():
        yield from _phase_fields(f"phase_{name}", phase)
    yield from _handoff_fields(cell)


def _cell_fields(cell: Cell, clock: str) -> Iterator[tuple[str, str | float | None]]:
    yield from (("policy", cell.policy), ("name", cell.name), ("scenario", cell.scenario),
                ("clock", clock), ("state", cell.state), ("good", cell.good),
                ("planned", cell.total), ("verified", "yes" if cell.verified else "no"),
                ("verified_reason", cell.verified_reason))


def _handoff_fields(cell: Cell) -> Iterator[tuple[str, str | float | None]]:
    yield from _numbers("handoff_s", cell.values["handoff_s"])
    yield from _numbers("handoff_sum_s", cell.handoff_sum_s)
    for name, phase in cell.handoff.items():
        yield from _phase_fields(f"handoff_{name}", phase)


def _phase_fields(name: str, phase: Phase) -> Iterator[tuple[str, float | None]]:
    yield from _numbers(f"{name}_duration_s", phase.duration_s)
    fewest, most = phase.packets or (None, None)
    yield f"{name}_packets_min", fewest
    yield f"{name}_packets_max", most


def _numbers(name: str, value: Value) -> Iterator[tuple[str, float | None]]:
    """A metric's mean under its own name, and its interval and count beside it."""
    stem, _, unit = name.rpartition("_")
    found = Estimate(0, None, None, 0) if isinstance(value, Missing) else value
    yield name, None if isinstance(value, Missing) else found.mean
    yield f"{stem}_low_{unit}", found.low
    yield f"{stem}_high_{unit}", found.high
    yield f"{stem}_n", found.n
