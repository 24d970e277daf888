"""Build the tables of all measured values of a run, and of the phases of its handoffs.

`build_run_table` takes the measured values, and returns a table of authentication times with their
parts, other phases, and packets. `handoff_table` has the handoffs, and `handoff_bars` the bars that
`waterfall.py` draws. Notes explain which parts add up to the authentication time. The paper is
Agarwal and Wang (2007), on the cost of security policies in wireless LANs. `studies.qop2007.report`
lists the terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cell_status import MissingReason
from analysis.cells import Cells, Ids, Observation, Value
from analysis.circumstances import stamp_table
from analysis.measurements import NoResultsError
from analysis.reporting import run_table
from analysis.reporting import run_table as toolkit
from analysis.reporting.run_table import StudyColumn, StudyNotes, cell_columns, section_title
from analysis.reporting.table_entries import NOT_COUNTED_ENTRY, value_entry
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Quantity, Table, format_size
from studies.qop2007.measurements import AUTHENTICATION, FOREIGN, HANDOFF, STREAMS
from studies.qop2007.report.phase_names import (
    component_heading,
    component_label,
    component_names,
    component_phases,
    phase_heading,
    phase_in_words,
    phase_names,
)

_PHASES_GROUP = "Phases at home"


def build_run_columns(cells: Cells) -> list[StudyColumn]:
    """Return the columns of phases in the run's table, for the screen and for files."""
    columns = [*_component_columns(cells), *_phases_at_home(cells)]
    return [*(StudyColumn(further.column, further.entry, HANDOFF.name) for further in columns),
            *_in_files(cells)]


def _in_files(cells: Cells) -> Iterator[StudyColumn]:
    yield StudyColumn(Column("authentication_sum", "sum", only="file"),
                      lambda ids: Entry("+".join(sorted(_summed_components(cells, ids),
                                                        key=_component_order(cells)))))
    for key in ("authentications", "authentication_time_sd_s"):
        yield _file_column(cells, key, filled=False)
    for name in component_names(cells.results.frame):
        yield _file_column(cells, f"component_{name}_s", filled=True)
    yield from file_columns(cells, "phase_", filled=False)
    yield StudyColumn(Column("handoff_sum_s", "sum", only="file"),
                      lambda ids: value_entry(cells.value("handoff_sum_s", ids)))
    yield from file_columns(cells, "handoff_", filled=True)


def file_columns(cells: Cells, prefix: str, *, filled: bool) -> Iterator[StudyColumn]:
    """Yield the columns of a CSV file: duration, fewest and most packets of each phase.

    Args:
        cells: the records of the run, grouped by policy and scenario.
        prefix: `component_`, `phase_` or `handoff_`, the first part of a column name.
        filled: count a phase as 0 where it did not take place.
    """
    for name in phase_names(cells.results.frame, prefix):
        yield _file_column(cells, f"{prefix}{name}_duration_s", filled=filled)
        for ending, end in (("min", min), ("max", max)):
            yield _packets_column(cells, f"{prefix}{name}", ending, end)


def _file_column(cells: Cells, key: str, *, filled: bool) -> StudyColumn:
    def entry(ids: Ids) -> Entry:
        value = _mean_duration(cells, key, ids, filled=filled)
        # A column of its own shows the state of a cell.
        return Entry("") if isinstance(value, MissingReason) else value_entry(value)

    return StudyColumn(Column(key, key, only="file"), entry)


def _mean_duration(cells: Cells, key: str, ids: Ids, *, filled: bool) -> Value:
    """Return the mean duration of a phase over the repetitions that have it.

    With `filled`, repetitions without the phase count as 0.
    """
    missing = cells.status(ids).missing
    if filled or missing is not None:
        return cells.value(key, ids, filled=filled)
    return cells.mean_of_any(key, ids) or MissingReason.ABSENT


def _packets_column(cells: Cells, phase: str, ending: str,
                    end: Callable[[tuple[int, int]], int]) -> StudyColumn:
    def entry(ids: Ids) -> Entry:
        counts = _packet_range(cells, phase, ids)
        return Entry("") if counts is None else Entry(number=Quantity(end(counts)))

    return StudyColumn(Column(f"{phase}_packets_{ending}", "packets", only="file"), entry)


def _component_order(cells: Cells) -> Callable[[str], int]:
    order = component_names(cells.results.frame)
    return lambda name: order.index(name) if name in order else len(order)


def _summed_components(cells: Cells, ids: Ids) -> set[str]:
    """Return the parts that add up to the authentication time of a policy in a scenario."""
    words = set(cells.find_words("authentication_sum", ids))
    return {name for text in words for name in text.split("+") if name}


def _component_columns(cells: Cells) -> Iterator[StudyColumn]:
    """Yield a table column for each part of the authentication time, so that a row adds up to it.

    A part has no value for policies whose authentication time does not count it.
    """
    for name in _shown_components(cells, cells.results.cells):
        lines = tuple(filter(None, component_heading(name)))
        yield StudyColumn(Column(f"shown_{name}", component_label(name), "ms", 1e3, 1,
                                 heading=lines,
                                 part=AUTHENTICATION.part, only="screen"),
                          _component_entry(cells, name))


def _component_entry(cells: Cells, name: str) -> Callable[[Ids], Entry]:
    def entry(ids: Ids) -> Entry:
        value = cells.value(f"component_{name}_s", ids, filled=True)
        if isinstance(value, Observation) and name not in _summed_components(cells, ids):
            return NOT_COUNTED_ENTRY
        return sum_entry([value], _packets_text(cells, ids, [f"phase_{phase}"
                                                             for phase in component_phases(name)]))

    return entry


def _shown_components(cells: Cells, members: Sequence[Ids]) -> list[str]:
    return [name for name in component_names(cells.results.frame)
            if any(name in _summed_components(cells, ids) and isinstance(
                cells.value(f"component_{name}_s", ids, filled=True), Observation)
                for ids in members)]


def _phases_at_home(cells: Cells) -> Iterator[StudyColumn]:
    """Yield the columns of phases at home that no column of the authentication time includes."""
    hidden = {ids: component_times for members in cells.sections.values()
              for component_times in (_told_by_components(cells, members),) for ids in members}
    names = [name for name in phase_names(cells.results.frame) if not name.startswith(FOREIGN)]
    yield from _grouped_columns(cells, "phase_", names, _PHASES_GROUP, hidden, filled=False)


def _told_by_components(cells: Cells, members: Sequence[Ids]) -> set[str]:
    """Return the phases that a column of the authentication time already includes."""
    return {phase for component in _shown_components(cells, members)
            if all(len(_took_place(cells, component, ids)) < 2 for ids in members)
            for phase in component_phases(component)}


def _took_place(cells: Cells, component: str, ids: Ids) -> list[str]:
    return [phase for phase in component_phases(component)
            if isinstance(_mean_duration(cells, f"phase_{phase}_duration_s", ids, filled=False),
                          Observation)]


def phase_columns(cells: Cells, prefix: str, part: str, *, filled: bool) -> Iterator[StudyColumn]:
    """Yield a table column for each phase, with phases of one heading in a common column.

    Args:
        cells: the records of the run, grouped by policy and scenario.
        prefix: `phase_` or `handoff_`, the first part of a column name.
        part: heading above the columns.
        filled: count a phase as 0 where it did not take place.
    """
    yield from _grouped_columns(cells, prefix, phase_names(cells.results.frame, prefix), part, {},
                                filled=filled)


def _grouped_columns(cells: Cells, prefix: str, names: Sequence[str], part: str,
                     hidden: dict[Ids, set[str]], *, filled: bool) -> Iterator[StudyColumn]:
    together: dict[tuple[str, str], list[str]] = {}
    for name in names:
        together.setdefault(phase_heading(name), []).append(name)
    for heading, members in together.items():
        lines = tuple(filter(None, heading))
        title = " ".join(lines).replace("- ", "")
        yield StudyColumn(Column(f"shown_{prefix}{members[0]}", title, "ms", 1e3, 1, heading=lines,
                                 part=part, only="screen"),
                          _phase_entry(cells, prefix, members, hidden, filled=filled))


def _phase_entry(cells: Cells, prefix: str, members: Sequence[str], hidden: dict[Ids, set[str]], *,
                 filled: bool) -> Callable[[Ids], Entry]:
    def entry(ids: Ids) -> Entry:
        shown = [name for name in members if name not in hidden.get(ids, ())]
        if not shown:
            return NOT_COUNTED_ENTRY
        values = [_mean_duration(cells, f"{prefix}{name}_duration_s", ids, filled=filled)
                  for name in shown]
        return sum_entry(values, _packets_text(cells, ids, [f"{prefix}{name}" for name in shown]))

    return entry


def sum_entry(values: Sequence[Value], packets: str = "") -> Entry:
    """Return a table entry with the sum of durations and the packets, or why there is none.

    All entries show tenths of a millisecond, so that phases can be compared.
    """
    there = [value for value in values if isinstance(value, Observation)]
    if not there:
        return value_entry(values[0])
    return Entry(number=Quantity(sum(value.estimate.mean for value in there)), detail=packets)


def _packet_range(cells: Cells, phase: str, ids: Ids) -> tuple[int, int] | None:
    """Return the fewest and most packets of a phase, over all `ok` repetitions."""
    if cells.status(ids).missing is not None:
        return None
    counts = cells.sample(f"{phase}_packets", ids)
    counts = counts[np.isfinite(counts)]
    # The value of a repetition is the mean over its authentications.
    return (math.floor(counts.min()), math.ceil(counts.max())) if counts.size else None


def _packets_text(cells: Cells, ids: Ids, names: Sequence[str]) -> str:
    """Return the number of packets of several phases as text, such as `17` or `16-18`."""
    counts = [count for name in names if (count := _packet_range(cells, name, ids)) is not None]
    if not counts:
        return ""
    fewest, most = sum(low for low, _ in counts), sum(high for _, high in counts)
    return str(fewest) if fewest == most else f"{fewest}-{most}"


# --- Handoffs: their table, and bars of successive phases for each policy ---

#: Largest difference (s) between a handoff and the sum of its phases that needs no warning.
GAP_S = 0.005
_WATERFALL = ("Handoff: from the order to move to the first answered packet at the next access "
              "point. A phase lasts from the end of the previous phase to its own last "
              "packet or event, so the phases add up to the handoff. The start-up time of a "
              "program counts for the phase that it begins.")


@dataclass(frozen=True)
class HandoffSegment:
    """A segment of a handoff's bar: one phase, with label, start and duration in seconds."""

    label: str
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class HandoffBar:
    """The mean handoff of a policy as a bar of phases. If it is empty, `state` says why."""

    policy: str
    segments: tuple[HandoffSegment, ...]
    total: Estimate | None
    state: str


def roaming_sections(cells: Cells) -> dict[Ids, tuple[Ids, ...]]:
    """Return the scenarios with a handoff, and for each the policies that were measured.

    Raises:
        NothingToReport: no scenario has a handoff.
    """
    sections = {section: members for section, members in cells.sections.items()
                if any(isinstance(cells.value(HANDOFF.name, ids), Observation)
                       for ids in members)}
    if not sections:
        raise NoResultsError(
            "there is no good repetition with a handoff; measure a scenario in which the mobile "
            "node moves, such as './qop run --scenarios R1,R2'")
    return sections


def handoff_table(cells: Cells) -> Table:
    """Build the table of handoffs: the duration of each phase, their sum and the measured total."""
    columns = [*cell_columns(cells), *phase_columns(cells, "handoff_", "Phases", filled=True),
               _sum_column(cells), _total_column(cells), *_file_columns(cells)]
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, members in roaming_sections(cells).items():
        sections.append((len(rows), section_title(cells, section)))
        rows += [tuple(column.entry(ids) for column in columns) for ids in members]
    results = cells.results
    table = Table("handoffs", "Handoffs", tuple(column.column for column in columns), tuple(rows),
                  notes=(run_table.describe_intervals(cells), _WATERFALL, *_agreement_notes(cells),
                         run_table.describe_circumstances(results)),
                  sections=tuple(sections), apart=True,
                  warnings=(*run_table.describe_data(cells), *gap_warnings(cells),
                            *run_table.list_complaints(cells)))
    return stamp_table(table, results.clock)


_SUM_PART = "Their sum and the measured total"


def _sum_column(cells: Cells) -> StudyColumn:
    return StudyColumn(Column("handoff_sum", "sum", "ms", 1e3, 1, part=_SUM_PART, only="screen"),
                       lambda ids: sum_entry([cells.value("handoff_sum_s", ids)]))


def _total_column(cells: Cells) -> StudyColumn:
    return StudyColumn(Column(HANDOFF.name, "total", HANDOFF.unit, HANDOFF.scale, part=_SUM_PART),
                       lambda ids: value_entry(cells.value(HANDOFF.name, ids)))


def _file_columns(cells: Cells) -> Iterator[StudyColumn]:
    yield StudyColumn(Column("handoff_sum_s", "sum", "ms", 1e3, only="file"),
                      lambda ids: value_entry(cells.value("handoff_sum_s", ids)))
    yield from file_columns(cells, "handoff_", filled=True)


def _sum_differences(cells: Cells, ids: Ids) -> dict[int, float]:
    """Return the sum of the phases minus the measured total, by number of the repetition."""
    whole, sums = cells.values_by_block(HANDOFF.name,
                                        ids), cells.values_by_block("handoff_sum_s", ids)
    return {block: sums[block] - whole[block] for block in whole.keys() & sums.keys()}


def gap_warnings(cells: Cells) -> Iterator[str]:
    """Yield a warning for each policy and scenario whose phases do not add up to the handoff."""
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


def handoff_bars(cells: Cells) -> Mapping[str, tuple[HandoffBar, ...]]:
    """Return the bars of handoffs for each roaming scenario, by its heading.

    Raises:
        NothingToReport: no scenario has a handoff.
    """
    return {cells.section_heading(section): tuple(_make_bar(cells, ids) for ids in members)
            for section, members in roaming_sections(cells).items()}


def bar_labels(panels: Mapping[str, Sequence[HandoffBar]], cells: Cells) -> list[str]:
    """Return the labels of all segments of the bars, in the order of the phases."""
    there = {segment.label for row in panels.values() for bar in row for segment in bar.segments}
    ordered = dict.fromkeys(phase_in_words(name)
                            for name in phase_names(cells.results.frame, "handoff_"))
    return [label for label in ordered if label in there]


def _make_bar(cells: Cells, ids: Ids) -> HandoffBar:
    total = cells.value(HANDOFF.name, ids)
    if isinstance(total, MissingReason):
        return HandoffBar(ids[0], (), None, "no handoff" if total is MissingReason.ABSENT
                          else total.value)
    together: dict[str, float] = {}
    for name in phase_names(cells.results.frame, "handoff_"):
        duration = cells.value(f"handoff_{name}_duration_s", ids, filled=True)
        if isinstance(duration, Observation):
            label = phase_in_words(name)
            together[label] = together.get(label, 0.0) + duration.estimate.mean
    segments, at = [], 0.0
    for label, seconds in together.items():
        segments.append(HandoffSegment(label, at, seconds))
        at += seconds
    return HandoffBar(ids[0], tuple(segments), total.estimate, "ok")


# --- The run's table, with notes on sums and on the meaning of numbers ---

_COMPONENTS = {
    "mip_registration": "MIP is Mobile IP registration, from the first solicitation or request to "
                        "the accepted reply (discovery and regist. are its parts)",
    "eap": "EAP is 802.1X or, without it, the 4-way handshake",
    "wireguard": "WG is WireGuard's handshake",
    "quic": "QUIC is its handshake, and the node's token",
    "mptcp": "MPTCP is its handshake, and the node's address",
    "ike": "IKE is both of its phases"}
_PHASES_NOTE = ("Scan, 802.11 (authentication and association) and the time to the first answered "
                "packet are not part of T_A. All are of the stay at home.")
_HANDOFF_NOTE = (
    "Handoff is the time from the order to move to the first answered packet at the next access "
    "point; --handoff shows its phases.")


def build_run_table(cells: Cells) -> Table:
    """Build the table of all measured values of a run, with parts of the authentication time."""
    return toolkit.make_run_table(cells, build_run_columns(cells), StudyNotes(
        (*_authentication_notes(cells), _throughput_note(cells)),
        (*_mixed_sums(cells), *gap_warnings(cells)), _overhead_note(cells)))


def _overhead_note(cells: Cells) -> str:
    name = cells.baseline.name
    return (f"Overhead C_C is the goodput under {name} minus that under the policy in the same "
            "block (repetition), averaged. Where its interval holds 0 (°), no overhead is proven."
            if name else "")


def _authentication_notes(cells: Cells) -> Iterator[str]:
    """Yield notes that explain which phases count as authentication time, and which do not."""
    measured = {name.rpartition("_")[0] for name in component_names(cells.results.good)
             if cells.results.good[f"component_{name}_s"].notna().any()}
    definitions = [text for name, text in _COMPONENTS.items() if name in measured]
    if definitions:
        yield (f"{'; '.join(definitions)}; each from its first to its last packet (packets in "
               "parentheses: fewest and most of the repetitions' means, rounded outwards).")
    yield from _sum_notes(cells)
    yield _PHASES_NOTE
    yield from _repetition_notes(cells)
    if HANDOFF.name in cells.results.good and cells.results.good[HANDOFF.name].notna().any():
        yield _HANDOFF_NOTE


def _repetition_notes(cells: Cells) -> Iterator[str]:
    """Yield the note on means over several authentications of a repetition, if there are any."""
    good = cells.results.good
    counts = sorted({int(count) for count in good["authentications"].dropna()}
                    if "authentications" in good else ())
    if counts and counts[-1] > 1:
        times = " or ".join(map(str, counts))
        yield (f"A repetition authenticates {times} times from nothing: T_A, its components and "
               "the phases at home are means over these; n and intervals are of repetitions.")


def _sum_notes(cells: Cells) -> Iterator[str]:
    """Yield lines that say which phases add up to the authentication time, by policies."""
    order = component_names(cells.results.frame)
    places: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for section, members in cells.sections.items():
        sums: dict[str, list[str]] = {}
        for ids in members:
            for text in dict.fromkeys(filter(None, cells.find_words("authentication_sum", ids))):
                sums.setdefault(_in_words(text, order), []).append(ids[0])
        key = tuple((text, ", ".join(policies)) for text, policies in sums.items())
        places.setdefault(key, []).append(", ".join(section))
    for key, scenarios in places.items():
        if key:
            listed = "; ".join(f"{text} ({policies})" for text, policies in key)
            yield f"T_A in {', '.join(scenarios)} (Table 4 of the 2007 paper): {listed}."


def _in_words(sum_: str, order: Sequence[str]) -> str:
    """Return the parts of an authentication time as text, in the order of the table's columns.

    Parts without a column come last.
    """
    names = sum_.split("+")
    ordered = [name for name in order if name in names]
    return " + ".join(component_label(name) for name in
                      [*ordered, *(name for name in names if name not in order)])


def _throughput_note(cells: Cells) -> str:
    good = cells.results.good
    columns = {name: f"{name}_bytes" for name in STREAMS}
    sizes = [f"{name.upper()} {format_size(good[column].median())}" for name, column
             in columns.items()
             if column in good and good[column].notna().any()]
    return (f"Throughput is goodput at the receiver. The median stream delivered "
            f"{' and '.join(sizes)}. UDP is offered faster than the path carries; what no "
            "queue holds is lost.") \
        if sizes else "No throughput was measured."


def _mixed_sums(cells: Cells) -> Iterator[str]:
    """Yield a warning if records of one policy and scenario add up different phases."""
    mixed: list[Ids] = [ids for ids in cells.results.cells
                        if len(set(cells.find_words("authentication_sum", ids))) > 1]
    for ids in mixed:
        yield (f"{cells.cell_name(ids)}: authentication times of different sums are averaged; "
               "measure the cell again.")
