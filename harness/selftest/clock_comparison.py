"""Comparison of cells under the conditions of the clock bench: a table and bounds."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.statistics import compare_welch
from harness.engine.recording import display_values
from harness.selftest import small
from measure.record import Record
from studies import records as stored

#: The conditions: real time; the processor clock alone, while other guests run, and while busy
#: loops run; and virtual time, where only the medium's random backoffs vary.
REAL, ALONE, GUESTS, HOGS, AIR = "real", "alone", "guests", "hogs", "air"
#: Slowdown by host load, as a factor of the least calibration time; times are divided by it.
COMPANY = "company"
#: Work of the harness in seconds of a node's processor time, between the stamps in _SPANS, for the
#: study's first times: in real time nodes wait for it.
HARNESS = "of the harness"
_SPANS = (("start", "first_packet"), ("handoff", "foreign_first_packet"))
_CONSTANTS = re.compile(r"a system call (\d+) ns, a page fault (\d+) ns")
#: Bounds as shares: of times and of goodput against real time; of the effect of host load in the
#: median and at most; of the variation within a cell.
TIMES, GOODPUT, MEDIAN, WORST, VARIATION = 0.05, 0.005, 0.03, 0.07, 0.05

#: Values of each repetition in SI units, by cell and metric.
Values = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class ClockCell:
    """Results of one cell under each condition.

    `means` are by condition and metric, and `measured` are the values that they are means of.
    """

    name: str
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict, repr=False)

    @property
    def time(self) -> str:
        """Return the metric that the clock is judged by: the first one in seconds."""
        return next((name for name in self.means.get(ALONE, {}) if name.endswith("_s")), "")

    def unexplained_share(self, metric: str) -> float | None:
        """Return the share by which real time is outside of its explained range.

        The clock counts nodes' work as if caches were theirs alone, and does not count the
        harness. So real time lies between that value and an upper limit. The limit is the same
        value slowed by this machine's usual host load, plus the harness's work, which a node waits
        for at most. The result is 0 inside of the range, and None if one of the two is missing.
        """
        alone = self.means.get(ALONE, {})
        real, least = self.means.get(REAL, {}).get(metric), alone.get(metric)
        if real is None or not least:
            return None
        most = least * alone.get(COMPANY, 1.0) + alone.get(_harness_name(metric), 0.0)
        return real / most - 1 if real > most else min(0.0, real / least - 1)

    @property
    def variation(self) -> float | None:
        """Return the coefficient of variation of the clock's time alone.

        The result is None below two values.
        """
        spread_s = self._spread_s(ALONE)
        return None if spread_s is None else spread_s / self.means[ALONE][self.time]

    @property
    def own_variation(self) -> float | None:
        """Return the coefficient of variation without the medium's random backoffs.

        Their spread is measured in virtual time; None without it. The two causes are independent,
        so their variances add up.
        """
        spread_s, air_s = self._spread_s(ALONE), self._spread_s(AIR)
        if spread_s is None or air_s is None:
            return None
        return math.sqrt(max(0.0, spread_s ** 2 - air_s ** 2)) / self.means[ALONE][self.time]

    def _spread_s(self, condition: str) -> float | None:
        """Return the standard deviation of the judged time in seconds."""
        measured = self.measured.get(condition, {}).get(self.time, ())
        return statistics.stdev(measured) if len(measured) > 1 else None

    def relative_difference(self, metric: str, condition: str, reference: str) -> float | None:
        """Return the relative difference of a condition's mean from the reference's.

        The result is None if one of the two is missing.
        """
        here = self.means.get(condition, {}).get(metric)
        there = self.means.get(reference, {}).get(metric)
        return None if here is None or not there else here / there - 1

    def certain_difference(self, metric: str, condition: str, reference: str) -> float | None:
        """Return the near end of the difference's 95 % interval, as a share.

        The result is 0 if the interval contains 0, and None below two values of each.
        """
        here, there = (self.measured.get(name, {}).get(metric, ())
                       for name in (condition, reference))
        if min(len(here), len(there)) < 2:
            return None
        apart = compare_welch(here, there).difference
        low, high = apart.low or 0.0, apart.high or 0.0
        return (max(low, 0.0) + min(high, 0.0)) / statistics.mean(there)


def read_values(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Return the study's metrics of every proven repetition below a folder, by cell and metric."""
    study, by_cell = small.small_plans().study, dict[str, dict[str, list[float]]]()
    for path in sorted(folder.glob("**/records/*.json")):
        record = stored.read_record(path)
        if record.status == "ok":
            cell = by_cell.setdefault(record.cell_name, {})
            for metric, value in display_values(study, record).items():
                cell.setdefault(metric, []).append(value)
            for name, value in explanatory_values(record).items():
                cell.setdefault(name, []).append(value)
    return by_cell


def explanatory_values(record: Record) -> dict[str, float]:
    """Return what explains a repetition's difference from real time: host load and harness."""
    company = record.environment.get("processor_clock", {}).get("company")
    harness = {_harness_name(metric): harness_s(record, *stamps)
               for metric, stamps in zip(times_of_study(), _SPANS, strict=False)}
    return {**({COMPANY: float(company)} if company else {}),
            **{name: value for name, value in harness.items() if value is not None}}


def times_of_study() -> list[str]:
    """Return the study's metrics in seconds."""
    return [metric.name for metric in small.small_plans().study.metrics
            if metric.name.endswith("_s")]


def _harness_name(metric: str) -> str:
    return f"{HARNESS}: {metric}"


def harness_s(record: Record, begin: str, end: str) -> float | None:
    """Return the work of the harness between two stamps, as a node's processor time in seconds.

    In real time it takes at most this long, and less where a process waits meanwhile. The result
    is None if the work was not counted, or if no node has this machine's constants.
    """
    counted = [record.raw.get("harness_work", {}).get(name) for name in (begin, end)]
    constants = [_CONSTANTS.search(str(text)) for name, text
                 in record.environment.get("processor_clock", {}).items()
                 if name.startswith("device_")]
    if not all(counted) or not any(constants):
        return None
    entry_ns, fault_ns = map(int, next(found for found in constants if found).groups())
    done = {name: counted[1][name] - counted[0][name] for name in counted[0]}
    total_ns = done["work_ns"] + done["entries"] * entry_ns + done["faults"] * fault_ns
    return float(total_ns / 1e9)


def compare_cells(conditions: Mapping[str, Values]) -> list[ClockCell]:
    """Return the cells measured with the clock alone, with means by condition and metric."""
    cells = []
    for name in sorted(conditions[ALONE]):
        means = {condition: {metric: statistics.mean(measured)
                             for metric, measured in of_cells.get(name, {}).items()}
                 for condition, of_cells in conditions.items()}
        cells.append(ClockCell(name, means, {condition: of_cells.get(name, {})
                                             for condition, of_cells in conditions.items()}))
    return cells


def format_table(cells: Sequence[ClockCell]) -> list[str]:
    """Return the comparison as a Markdown table with one line for each cell."""
    heading = ("cell", "real", "clock", "against real", COMPANY, HARNESS, "unexplained", "varies",
               "without the air's luck", "beside guests", "beside hogs", "goodput against real")
    lines = [_format_row(heading), "|---" * len(heading) + "|"]
    for cell in cells:
        alone, time = cell.means.get(ALONE, {}), cell.time
        rates = ", ".join(_format_percent(cell.relative_difference(metric, ALONE, REAL), 2)
                          for metric in alone if metric.endswith("_bps"))
        lines.append(_format_row((
            cell.name, _format_ms(cell.means.get(REAL, {}).get(time)), _format_ms(alone.get(time)),
            _format_percent(cell.relative_difference(time, ALONE, REAL)),
            _format_factor(alone.get(COMPANY)),
            _format_ms(alone.get(_harness_name(time))),
            _format_percent(cell.unexplained_share(time)), _format_percent(cell.variation),
            _format_percent(cell.own_variation),
            _format_percent(cell.relative_difference(time, GUESTS, ALONE)),
            _format_percent(cell.relative_difference(time, HOGS, ALONE)), rates)))
    return lines


def _format_row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def judge_bounds(cells: Sequence[ClockCell]) -> list[tuple[str, bool]]:
    """Return each bound with its measured value, and whether it holds in every cell."""
    rates = [(cell, metric) for cell in cells for metric in cell.means.get(ALONE, {})
             if metric.endswith("_bps")]
    # Other metrics are shown for each cell but not judged: the harness works in real time.
    unexplained = [cell.unexplained_share(metric) for cell in cells
                   for metric in cell.means.get(ALONE, {})
                   if metric in times_of_study()[:len(_SPANS)]]
    bounds = [
        _judge_bound("times beyond what company and the harness explain, at most", max, unexplained,
                     TIMES),
        _judge_certain_bound("goodput against real time, at most", GOODPUT, {
            f"{cell.name} {metric}": (cell.relative_difference(metric, ALONE, REAL),
                                      cell.certain_difference(metric, ALONE, REAL))
            for cell, metric in rates}),
        _judge_bound("variation of the first time within a cell, at most", max,
                     [cell.variation for cell in cells], VARIATION)]
    for title, condition in (("eight guests on two cores", GUESTS), ("three hogs", HOGS)):
        off = {cell.name: (cell.relative_difference(cell.time, condition, ALONE),
                           cell.certain_difference(cell.time, condition, ALONE)) for cell in cells}
        bounds += [_judge_bound(f"beside {title}, median", statistics.median,
                                [share for share, _ in off.values()], MEDIAN),
                   _judge_certain_bound(f"beside {title}, at most", WORST, off)]
    return bounds


def _judge_certain_bound(title: str, bound: float, off: Mapping[
        str, tuple[float | None, float | None]]) -> tuple[str, bool]:
    """Return a bound on the greatest share, and the cells that surely exceed it.

    These are the cells whose whole interval is beyond the bound.
    """
    line, holds = _judge_bound(title, max, [share for share, _ in off.values()], bound)
    beyond = [name for name, (_, surely) in off.items() if abs(surely or 0.0) > bound]
    return f"{line}; more than {bound:.1%} for sure: {', '.join(beyond) or 'no cell'}", holds


def _judge_bound(title: str, take: Callable[[Sequence[float]], float],
                 shares: Sequence[float | None],
                 bound: float) -> tuple[str, bool]:
    measured = [abs(share) for share in shares if share is not None]
    if not measured:
        return f"{title}: nothing measured", False
    holds = take(measured) <= bound
    return (f"{title}: {take(measured):.1%} (<= {bound:.1%}): "
            f"{'holds' if holds else 'does not hold'}"), holds


def _format_percent(share: float | None, digits: int = 1) -> str:
    return "" if share is None else f"{share * 100:+.{digits}f} %"


def _format_factor(factor: float | None) -> str:
    return "" if factor is None else f"x{factor:.2f}"


def _format_ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.1f} ms"
