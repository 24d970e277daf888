"""The handoffs of a run as bars: one a policy, of phases that follow each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.errors import NothingToReport
from analysis.names import phase_in_words
from analysis.statistics import Estimate
from analysis.summary import Cell, Summary


@dataclass(frozen=True)
class Segment:
    """A part of a bar: what it is called, where it begins and how long it lasts, in seconds."""

    label: str
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class Bar:
    """A policy's mean handoff; without segments, `state` says why there is none."""

    policy: str
    segments: tuple[Segment, ...]
    total: Estimate | None
    state: str


def roaming(summary: Summary) -> dict[str, tuple[Cell, ...]]:
    """The scenarios with any handoff, and their cells; raises NothingToReport without any."""
    found = {scenario: cells for scenario, cells in summary.cells.items()
             if any(_has_handoff(cell) for cell in cells)}
    if not found:
        raise NothingToReport(
            "there is no good repetition with a handoff; measure a scenario in which the mobile "
            "node moves, such as './qop run --scenarios R1,R2'")
    return found


def bars(summary: Summary) -> Mapping[str, tuple[Bar, ...]]:
    """The bars of each roaming scenario, in the order of the summary; raises NothingToReport."""
    return {scenario: tuple(_bar(summary, cell) for cell in cells)
            for scenario, cells in roaming(summary).items()}


def labels(panels: Mapping[str, Sequence[Bar]], summary: Summary) -> list[str]:
    """What occurs in any bar, in the order in which the phases follow."""
    there = {segment.label for row in panels.values() for bar in row for segment in bar.segments}
    ordered = dict.fromkeys(phase_in_words(name) for name in summary.handoff)
    return [label for label in ordered if label in there]


def _has_handoff(cell: Cell) -> bool:
    return isinstance(cell.values["handoff_s"], Estimate)


def _bar(summary: Summary, cell: Cell) -> Bar:
    total = cell.values["handoff_s"]
    if not isinstance(total, Estimate):
        return Bar(cell.policy, (), None, cell.state if cell.state != "ok" else "no handoff")
    together: dict[str, float] = {}
    for name in summary.handoff:
        duration = cell.handoff[name].duration_s
        if isinstance(duration, Estimate):
            label = phase_in_words(name)
            together[label] = together.get(label, 0.0) + duration.mean
    segments, at = [], 0.0
    for label, seconds in together.items():
        segments.append(Segment(label, at, seconds))
        at += seconds
    return Bar(cell.policy, tuple(segments), total, cell.state)
