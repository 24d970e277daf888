"""Handoffs of a run: their table, and bars of successive phases for each policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import footnotes
from analysis.cells import Cells, Ids, Observation
from analysis.clock import stamp_table
from analysis.errors import NothingToReport
from analysis.numbers import value_entry
from analysis.run_table import Further, Remarks, cell_columns, section_title
from analysis.standing import Missing
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Table
from studies.qop2007.metrics import HANDOFF
from studies.qop2007.report.phase_names import phase_in_words, phase_names
from studies.qop2007.report.run_columns import file_columns, phase_columns, sum_entry

#: Largest difference (s) between a handoff and the sum of its phases that needs no warning.
GAP_S = 0.005
_WATERFALL = ("Handoff: from the order to leave the home network to the first answered packet in "
              "the visited one. A phase lasts from the end of the one before it to its own last "
              "packet or event, so they tile the handoff; what a program needs to begin counts "
              "to what it begins.")


@dataclass(frozen=True)
class Segment:
    """A part of a bar: label, begin and duration in seconds."""

    label: str
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class Bar:
    """A policy's mean handoff. Without segments, `state` gives the reason."""

    policy: str
    segments: tuple[Segment, ...]
    total: Estimate | None
    state: str


def roaming_sections(cells: Cells) -> dict[Ids, tuple[Ids, ...]]:
    """Return the scenarios with a handoff, and their cells.

    Raises NothingToReport if there are none.
    """
    sections = {section: members for section, members in cells.sections.items()
                if any(isinstance(cells.value(HANDOFF.name, ids), Observation)
                       for ids in members)}
    if not sections:
        raise NothingToReport(
            "there is no good repetition with a handoff; measure a scenario in which the mobile "
            "node moves, such as './qop run --scenarios R1,R2'")
    return sections


def handoff_table(cells: Cells) -> Table:
    """Build the table of the handoffs: phases, their sum and the measured total."""
    columns = [*cell_columns(cells), *phase_columns(cells, "handoff_", "Phases", filled=True),
               _sum_column(cells), _total_column(cells), *_file_columns(cells)]
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, members in roaming_sections(cells).items():
        sections.append((len(rows), section_title(cells, section)))
        rows += [tuple(column.entry(ids) for column in columns) for ids in members]
    results = cells.results
    made = Table("handoffs", "Handoffs", tuple(column.column for column in columns), tuple(rows),
                 notes=(footnotes.describe_intervals(cells), _WATERFALL, *_agreement_notes(cells),
                        footnotes.describe_circumstances(results)),
                 sections=tuple(sections), apart=True,
                 warnings=(*footnotes.describe_data(cells), *gap_warnings(cells),
                           *footnotes.list_complaints(cells)))
    return stamp_table(made, results.clock)


def handoff_remarks(cells: Cells) -> Remarks:
    """Return the warnings on handoffs whose phases do not add up to the total."""
    return Remarks(warnings=tuple(gap_warnings(cells)))


_SUM_PART = "Their sum and the measured total"


def _sum_column(cells: Cells) -> Further:
    return Further(Column("handoff_sum", "sum", "ms", 1e3, 1, part=_SUM_PART, only="screen"),
                   lambda ids: sum_entry([cells.value("handoff_sum_s", ids)]))


def _total_column(cells: Cells) -> Further:
    return Further(Column(HANDOFF.name, "total", HANDOFF.unit, HANDOFF.scale, part=_SUM_PART),
                   lambda ids: value_entry(cells.value(HANDOFF.name, ids)))


def _file_columns(cells: Cells) -> Iterator[Further]:
    yield Further(Column("handoff_sum_s", "sum", "ms", 1e3, only="file"),
                  lambda ids: value_entry(cells.value("handoff_sum_s", ids)))
    yield from file_columns(cells, "handoff_", filled=True)


def _sum_differences(cells: Cells, ids: Ids) -> dict[int, float]:
    """Return the sum of a cell's phases minus the measured total, by repetition."""
    whole, sums = cells.values_by_block(HANDOFF.name,
                                        ids), cells.values_by_block("handoff_sum_s", ids)
    return {block: sums[block] - whole[block] for block in whole.keys() & sums.keys()}


def gap_warnings(cells: Cells) -> Iterator[str]:
    """Yield a warning for each cell whose handoffs are not the sum of their phases."""
    for ids in cells.results.cells:
        off = {block: gap for block, gap in _sum_differences(cells, ids).items()
               if abs(gap) > GAP_S}
        if off:
            worst = max(off, key=lambda block: abs(off[block]))
            yield (f"{cells.cell_name(ids)}: the phases of {len(off)} handoff"
                   f"{'s' if len(off) > 1 else ''} do not add up to the measured total within "
                   f"{GAP_S * 1e3:g} ms; the worst, of repetition {worst}, by "
                   f"{off[worst] * 1e3:+.1f} ms.")


def _agreement_notes(cells: Cells) -> Iterator[str]:
    every = [abs(gap) for ids in cells.results.cells for gap
             in _sum_differences(cells, ids).values()]
    worst = max(every, default=np.inf)
    if worst <= GAP_S:
        yield ("Total is the time between the two ends, whatever the phases are; these add up to "
               f"it within {max(worst * 1e3, 0.1):.1f} ms in every repetition.")


def handoff_bars(cells: Cells) -> Mapping[str, tuple[Bar, ...]]:
    """Return the bars of each roaming scenario, by its heading. Raises NothingToReport."""
    return {cells.section_heading(section): tuple(_make_bar(cells, ids) for ids in members)
            for section, members in roaming_sections(cells).items()}


def bar_labels(panels: Mapping[str, Sequence[Bar]], cells: Cells) -> list[str]:
    """Return the labels of all bars, in the order of the phases."""
    there = {segment.label for row in panels.values() for bar in row for segment in bar.segments}
    ordered = dict.fromkeys(phase_in_words(name)
                            for name in phase_names(cells.results.frame, "handoff_"))
    return [label for label in ordered if label in there]


def _make_bar(cells: Cells, ids: Ids) -> Bar:
    total = cells.value(HANDOFF.name, ids)
    if isinstance(total, Missing):
        return Bar(ids[0], (), None, "no handoff" if total is Missing.ABSENT else total.value)
    together: dict[str, float] = {}
    for name in phase_names(cells.results.frame, "handoff_"):
        duration = cells.value(f"handoff_{name}_duration_s", ids, filled=True)
        if isinstance(duration, Observation):
            label = phase_in_words(name)
            together[label] = together.get(label, 0.0) + duration.estimate.mean
    segments, at = [], 0.0
    for label, seconds in together.items():
        segments.append(Segment(label, at, seconds))
        at += seconds
    return Bar(ids[0], tuple(segments), total.estimate, "ok")
