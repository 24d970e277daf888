"""Columns of the study in the run's table: components and phases, with their packets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from analysis.cells import Cells, Ids, Observation, Value
from analysis.numbers import NOT_COUNTED, value_entry
from analysis.run_table import Further
from analysis.standing import Missing
from analysis.table import Column, Entry, Quantity
from studies.qop2007.body import FOREIGN
from studies.qop2007.metrics import AUTHENTICATION, HANDOFF
from studies.qop2007.report.phase_names import (
    component_heading,
    component_label,
    component_names,
    component_phases,
    phase_heading,
    phase_names,
)

_PHASES = "Phases at home"


def run_columns(cells: Cells) -> list[Further]:
    """Return the columns after the handoff in the run's table, for screens and for files."""
    columns = [*_component_columns(cells), *_phases_at_home(cells)]
    return [*(Further(further.column, further.entry, HANDOFF.name) for further in columns),
            *_in_files(cells)]


def _in_files(cells: Cells) -> Iterator[Further]:
    yield Further(Column("authentication_sum", "sum", only="file"),
                  lambda ids: Entry("+".join(sorted(_summed_components(cells, ids),
                                                    key=_component_order(cells)))))
    for key in ("authentications", "authentication_time_sd_s"):
        yield _file_column(cells, key, filled=False)
    for name in component_names(cells.results.frame):
        yield _file_column(cells, f"component_{name}_s", filled=True)
    yield from file_columns(cells, "phase_", filled=False)
    yield Further(Column("handoff_sum_s", "sum", only="file"),
                  lambda ids: value_entry(cells.value("handoff_sum_s", ids)))
    yield from file_columns(cells, "handoff_", filled=True)


def file_columns(cells: Cells, prefix: str, *, filled: bool) -> Iterator[Further]:
    """Yield columns for programs: duration, fewest and most packets of each phase."""
    for name in phase_names(cells.results.frame, prefix):
        yield _file_column(cells, f"{prefix}{name}_duration_s", filled=filled)
        for ending, end in (("min", min), ("max", max)):
            yield _packets_column(cells, f"{prefix}{name}", ending, end)


def _file_column(cells: Cells, key: str, *, filled: bool) -> Further:
    def entry(ids: Ids) -> Entry:
        value = _mean_duration(cells, key, ids, filled=filled)
        # A column of its own shows the state of a cell.
        return Entry("") if isinstance(value, Missing) else value_entry(value)

    return Further(Column(key, key, only="file"), entry)


def _mean_duration(cells: Cells, key: str, ids: Ids, *, filled: bool) -> Value:
    """Return the mean duration of a phase or component that a repetition may lack.

    The mean is over the repetitions that have it, or with `filled` over all.
    """
    missing = cells.standing(ids).missing
    if filled or missing is not None:
        return cells.value(key, ids, filled=filled)
    return cells.mean_of_any(key, ids) or Missing.ABSENT


def _packets_column(cells: Cells, phase: str, ending: str,
                    end: Callable[[tuple[int, int]], int]) -> Further:
    def entry(ids: Ids) -> Entry:
        counts = _packet_range(cells, phase, ids)
        return Entry("") if counts is None else Entry(number=Quantity(end(counts)))

    return Further(Column(f"{phase}_packets_{ending}", "packets", only="file"), entry)


def _component_order(cells: Cells) -> Callable[[str], int]:
    order = component_names(cells.results.frame)
    return lambda name: order.index(name) if name in order else len(order)


def _summed_components(cells: Cells, ids: Ids) -> set[str]:
    """Return the components that the authentication time of a cell adds up."""
    words = set(cells.find_words("authentication_sum", ids))
    return {name for text in words for name in text.split("+") if name}


def _component_columns(cells: Cells) -> Iterator[Further]:
    """Yield a column for each component, so that a row adds up to T_A.

    Only cells that count the component have a value.
    """
    for name in _shown_components(cells, cells.results.cells):
        lines = tuple(filter(None, component_heading(name)))
        yield Further(Column(f"shown_{name}", component_label(name), "ms", 1e3, 1, heading=lines,
                             part=AUTHENTICATION.part, only="screen"),
                      _component_entry(cells, name))


def _component_entry(cells: Cells, name: str) -> Callable[[Ids], Entry]:
    def entry(ids: Ids) -> Entry:
        value = cells.value(f"component_{name}_s", ids, filled=True)
        if isinstance(value, Observation) and name not in _summed_components(cells, ids):
            return NOT_COUNTED
        return sum_entry([value], _packets_text(cells, ids, [f"phase_{phase}"
                                                             for phase in component_phases(name)]))

    return entry


def _shown_components(cells: Cells, members: Sequence[Ids]) -> list[str]:
    return [name for name in component_names(cells.results.frame)
            if any(name in _summed_components(cells, ids) and isinstance(
                cells.value(f"component_{name}_s", ids, filled=True), Observation)
                for ids in members)]


def _phases_at_home(cells: Cells) -> Iterator[Further]:
    """Yield the phases of the stay at home that no shown component shows already."""
    hidden = {ids: told for members in cells.sections.values()
              for told in (_told_by_components(cells, members),) for ids in members}
    names = [name for name in phase_names(cells.results.frame) if not name.startswith(FOREIGN)]
    yield from _grouped_columns(cells, "phase_", names, _PHASES, hidden, filled=False)


def _told_by_components(cells: Cells, members: Sequence[Ids]) -> set[str]:
    """Return the phases that a component of the same scenario shows already."""
    return {phase for component in _shown_components(cells, members)
            if all(len(_took_place(cells, component, ids)) < 2 for ids in members)
            for phase in component_phases(component)}


def _took_place(cells: Cells, component: str, ids: Ids) -> list[str]:
    return [phase for phase in component_phases(component)
            if isinstance(_mean_duration(cells, f"phase_{phase}_duration_s", ids, filled=False),
                          Observation)]


def phase_columns(cells: Cells, prefix: str, part: str, *, filled: bool) -> Iterator[Further]:
    """Yield a column for each name of a phase. Phases of one name share a column."""
    yield from _grouped_columns(cells, prefix, phase_names(cells.results.frame, prefix), part, {},
                                filled=filled)


def _grouped_columns(cells: Cells, prefix: str, names: Sequence[str], part: str,
                     hidden: dict[Ids, set[str]], *, filled: bool) -> Iterator[Further]:
    together: dict[tuple[str, str], list[str]] = {}
    for name in names:
        together.setdefault(phase_heading(name), []).append(name)
    for heading, members in together.items():
        lines = tuple(filter(None, heading))
        title = " ".join(lines).replace("- ", "")
        yield Further(Column(f"shown_{prefix}{members[0]}", title, "ms", 1e3, 1, heading=lines,
                             part=part, only="screen"),
                      _phase_entry(cells, prefix, members, hidden, filled=filled))


def _phase_entry(cells: Cells, prefix: str, members: Sequence[str], hidden: dict[Ids, set[str]], *,
                 filled: bool) -> Callable[[Ids], Entry]:
    def entry(ids: Ids) -> Entry:
        shown = [name for name in members if name not in hidden.get(ids, ())]
        if not shown:
            return NOT_COUNTED
        values = [_mean_duration(cells, f"{prefix}{name}_duration_s", ids, filled=filled)
                  for name in shown]
        return sum_entry(values, _packets_text(cells, ids, [f"{prefix}{name}" for name in shown]))

    return entry


def sum_entry(values: Sequence[Value], packets: str = "") -> Entry:
    """Return the sum of existing values with their packets, or a missing value's text.

    All entries of the table have tenths of a millisecond, so that phases can be compared.
    """
    there = [value for value in values if isinstance(value, Observation)]
    if not there:
        return value_entry(values[0])
    return Entry(number=Quantity(sum(value.estimate.mean for value in there)), detail=packets)


def _packet_range(cells: Cells, phase: str, ids: Ids) -> tuple[int, int] | None:
    """Return fewest and most packets of a phase in the good repetitions of a cell."""
    if cells.standing(ids).missing is not None:
        return None
    counts = cells.sample(f"{phase}_packets", ids)
    counts = counts[np.isfinite(counts)]
    # The value of a repetition is the mean over its authentications.
    return (math.floor(counts.min()), math.ceil(counts.max())) if counts.size else None


def _packets_text(cells: Cells, ids: Ids, names: Sequence[str]) -> str:
    """Return the packets of several phases: `17`, or `16-18` where repetitions differ."""
    counts = [count for name in names if (count := _packet_range(cells, name, ids)) is not None]
    if not counts:
        return ""
    fewest, most = sum(low for low, _ in counts), sum(high for _, high in counts)
    return str(fewest) if fewest == most else f"{fewest}-{most}"

