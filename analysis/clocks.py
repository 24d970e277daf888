"""Real and virtual time side by side: airtime and protocol, and what the processor adds to them.

Virtual time passes where something waits, for the air or for a timer, and nowhere else. So it is
what airtime and protocol cost, and real minus virtual time is the processor's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import statistics
from analysis.compare import CORRECTIONS, SHOWN, SIGNIFICANT, probability, quantity, unlike
from analysis.errors import NothingToReport
from analysis.frame import METRICS, Frame, Results, components, natural
from analysis.names import component_label, scenario_heading
from analysis.one_clock import REAL, VIRTUAL, stamped
from analysis.statistics import Comparison, Sample
from analysis.table import Column, Entry, Quantity, Table
from measure.record import record_name

#: What the clock column of a file says.
BOTH = f"{REAL}, {VIRTUAL}"
_TIMES = ("authentication_time_s", "handoff_s")
_COMPONENTS = "components"


@dataclass(frozen=True)
class _Case:
    """A metric of a cell, or a `part` of its authentication time, under both clocks."""

    metric: str
    policy: str
    scenario: str
    real: Sample
    virtual: Sample
    #: Real minus virtual.
    comparison: Comparison
    records: tuple[str, ...]
    part: str = ""
    counted: bool = True

    @property
    def share(self) -> float | None:
        """The processor's part of what real time shows; None where that is nothing."""
        mean = float(self.real.mean())
        return self.comparison.difference.mean / mean if mean else None


def compare(a: Results, b: Results, *, names: tuple[str, str] = ("A", "B"),
            correction: str = "holm") -> list[Table]:
    """An overview, and a table for each metric, with real minus virtual for every cell of both.

    One of the runs must be of the real clock, the other of the virtual one, in any order. Means
    are compared by Welch's t test; the p-values of all tables are corrected together, as
    `correction` (of analysis.compare.CORRECTIONS) says. Raises NothingToReport where there is
    nothing to compare.
    """
    if {a.clock, b.clock} != {REAL, VIRTUAL}:
        raise NothingToReport(f"{names[0]} is of the {a.clock or 'unrecorded'} clock, {names[1]} "
                              f"of the {b.clock or 'unrecorded'} one; compare runs of one clock, "
                              "or one of the real and one of the virtual clock")
    if a.clock == VIRTUAL:
        a, b, names = b, a, (names[1], names[0])
    cases = list(_cases(a, b))
    if not cases:
        raise NothingToReport(f"{names[0]} and {names[1]} have no cell (policy and scenario) with "
                              "good repetitions in common; compare runs that measured the same")
    adjusted = _adjusted(cases, correction)
    notes = (*_notes(cases, adjusted, correction), *unlike(a, b, names))
    by_metric = {metric: [case for case in cases if case.metric == metric]
                 for metric in (_TIMES[0], _COMPONENTS, *METRICS[1:])}
    found = [_overview(cases, adjusted, correction, notes), *(
        _table(metric, mine, adjusted, names, notes) for metric, mine in by_metric.items() if mine)]
    return [stamped(table, BOTH) for table in found]


def _cases(real: Results, virtual: Results) -> Iterator[_Case]:
    """Everything that both runs have, in the order of the tables and their rows."""
    cells = [{(str(key[1]), str(key[0])): part for key, part in
              results.good.groupby(["policy", "scenario"], sort=False)}
             for results in (real, virtual)]
    common = sorted(cells[0].keys() & cells[1].keys(), key=lambda cell: tuple(map(natural, cell)))
    parts = components(real.frame)
    for scenario, policy in common:
        first, second = (found[scenario, policy] for found in cells)
        records = tuple(record_name(policy, scenario, int(number))
                        for number in first["repetition"])
        summed = {name for text in first["authentication_sum"] for name in text.split("+")}
        wanted = [(metric, "", metric) for metric in METRICS]
        wanted += [(_COMPONENTS, name, f"component_{name}_s") for name in parts]
        for metric, part, column in wanted:
            samples = _sample(first, column, part), _sample(second, column, part)
            if all(sample.size for sample in samples):
                yield _Case(metric, policy, scenario, *samples, statistics.welch(*samples), records,
                            part, not part or part in summed)


def _sample(cell: Frame, column: str, part: str) -> Sample:
    """What a cell has of a column; a part that one repetition lacks took no time there."""
    if column not in cell:
        return np.empty(0)
    values: Sample = cell[column].to_numpy(dtype=np.float64)
    there = np.isfinite(values)
    return np.where(there, values, 0.0) if part and there.any() else values[there]


def _adjusted(cases: Sequence[_Case], correction: str) -> Mapping[int, float]:
    """Corrected p-values by case; those of parts repeat what the whole says, and count as well."""
    tested = [case for case in cases if case.comparison.p_value is not None]
    correct, _ = CORRECTIONS[correction]
    return dict(zip(map(id, tested), correct(case.comparison.p_value or 0.0
                                             for case in tested).tolist(), strict=True))


def _notes(cases: Sequence[_Case], adjusted: Mapping[int, float],
           correction: str) -> Iterator[str]:
    marked = sum(p < SIGNIFICANT for p in adjusted.values())
    if adjusted:
        yield (f"{marked} of {len(adjusted)} comparisons (all metrics and cells) are significant "
               f"after correction: {CORRECTIONS[correction][1]}.")
    if few := len(cases) - len(adjusted):
        yield (f"{few} of {len(cases)} comparisons have a single repetition under one clock, so "
               "that no interval tells chance from a difference; ask both runs for --repetitions 3 "
               "or more.")
    yield ("Processor: real minus virtual time, so all that computing takes in the real run, and "
           "waiting for the processor where others used it. Of goodput, a negative difference is "
           "what the processor takes off the rate; a positive one is none of its doing.")
    yield ("Means and differences with 95 % intervals, not corrected; p-values are Welch's t "
           "test's, because the runs share no blocks.")


_OVERVIEW = (
    Column("what", "what"), Column("cells", "cells", digits=0),
    Column("processor_median_share", "median", "%", 100.0, 1, "processor's part"),
    Column("processor_least_share", "least", "%", 100.0, 1, "processor's part"),
    Column("processor_most_share", "most", "%", 100.0, 1, "processor's part"),
    Column("p_adjusted", "p of the mean, corrected", digits=3),
    Column("significant", "significant cells", digits=0))
_OF_THE_MEAN = ("P of the mean: for no difference in the mean over all cells, which shows what "
                "single cells of few repetitions cannot; corrected for the rows of this table.")


def _overview(cases: Sequence[_Case], adjusted: Mapping[int, float], correction: str,
              notes: tuple[str, ...]) -> Table:
    """How much of each metric is the processor's, over all cells."""
    grouped = _grouped(cases)
    means = _of_means(grouped.values(), correction)
    rows = tuple(_overview_row(title, mine, adjusted, p_value)
                 for (title, mine), p_value in zip(grouped.items(), means, strict=True))
    return Table("clocks", "What the processor adds to airtime and protocol", _OVERVIEW, rows,
                 caption="Real minus virtual, as a share of real, over the cells of both runs.",
                 notes=(_OF_THE_MEAN, *notes))


def _overview_row(title: str, cases: Sequence[_Case], adjusted: Mapping[int, float],
                  p_of_mean: float | None) -> tuple[Entry, ...]:
    shares = [case.share for case in cases if case.share is not None]
    spread = [Entry(number=Quantity(float(value))) for value in
              (np.median(shares), min(shares), max(shares))] if shares else [Entry("-")] * 3
    tested = [adjusted[id(case)] for case in cases if id(case) in adjusted]
    marked = sum(p < SIGNIFICANT for p in tested)
    mean = probability(p_of_mean, "too few repetitions")
    return (Entry(title), Entry(number=Quantity(len(cases))), *spread,
            replace(mean, marks=_significant(p_of_mean)),
            Entry(number=Quantity(marked), marks=_significant(min(tested))) if tested
            else Entry("-", note="none was tested"))


def _significant(p_value: float | None) -> frozenset[str]:
    return frozenset(["significant"] if p_value is not None and p_value < SIGNIFICANT else [])


def _of_means(groups: Iterable[Sequence[_Case]], correction: str) -> list[float | None]:
    """Corrected p-values of the mean differences over those cells of each group that tell."""
    found = []
    for group in groups:
        pairs = [(case.real, case.virtual) for case in group
                 if case.comparison.p_value is not None]
        found.append(statistics.welch_over(pairs)[1] if pairs else None)
    correct, _ = CORRECTIONS[correction]
    corrected = iter(correct(p for p in found if p is not None).tolist())
    return [None if p is None else float(next(corrected)) for p in found]


def _grouped(cases: Sequence[_Case]) -> Mapping[str, list[_Case]]:
    """The cases by what they are of, in the order of the tables."""
    titles = [SHOWN[_TIMES[0]][0], *dict.fromkeys(
        f"of it {component_label(case.part)}" for case in cases if case.part and case.counted),
        *(SHOWN[metric][0] for metric in METRICS[1:])]
    found: dict[str, list[_Case]] = {title: [] for title in titles}
    for case in cases:
        if case.counted:
            found[f"of it {component_label(case.part)}" if case.part
                  else SHOWN[case.metric][0]].append(case)
    return {title: mine for title, mine in found.items() if mine}


def _table(metric: str, cases: Sequence[_Case], adjusted: Mapping[int, float],
           names: tuple[str, str], notes: tuple[str, ...]) -> Table:
    title, unit, scale = SHOWN.get(metric, ("Parts of the authentication time", "ms", 1e3))
    stem, _, si = metric.rpartition("_") if metric != _COMPONENTS else ("component", "", "s")
    is_time = si == "s"
    part = (Column("component", "part"), Column("counted", "counts")) \
        if metric == _COMPONENTS else ()
    columns = (Column("policy", "policy"), *part,
               Column(f"{stem}_real_{si}", "real", unit, scale),
               Column(f"{stem}_virtual_{si}", "airtime and protocol" if is_time else "virtual",
                      unit, scale),
               Column(f"{stem}_processor_{si}", "processor", unit, scale),
               Column("processor_share", "of real", "%", 100.0, digits=1),
               Column("p_adjusted", "p, corrected", digits=3))
    sections = tuple((number, scenario_heading(case.scenario)) for number, case in enumerate(cases)
                     if not number or cases[number - 1].scenario != case.scenario)
    what = "airtime and protocol" if is_time else "the rate that airtime and protocol leave"
    counts = " Counts: whether the authentication time adds it up." * bool(part)
    return Table(f"clocks-{metric}", f"{title} by clock", columns,
                 tuple(_row(case, adjusted.get(id(case))) for case in cases),
                 caption=f"Real time ({names[0]}), virtual time ({names[1]}: {what}), and real "
                 f"minus virtual, which is the processor's.{counts}",
                 notes=notes, sections=sections)


def _row(case: _Case, p_adjusted: float | None) -> tuple[Entry, ...]:
    difference = case.comparison.difference
    marks = _significant(p_adjusted) or frozenset(
        ["spans-zero"] if difference.n > 1 and difference.spans_zero else [])
    part = (Entry(component_label(case.part)), Entry("yes" if case.counted else "no")) \
        if case.part else ()
    return (Entry(case.policy), *part,
            Entry(number=quantity(statistics.mean(case.real)), records=case.records),
            Entry(number=quantity(statistics.mean(case.virtual))),
            Entry(number=quantity(difference), marks=marks),
            Entry("-", note="nothing in real time") if case.share is None
            else Entry(number=Quantity(case.share), marks=marks),
            probability(p_adjusted, "too few repetitions"))
