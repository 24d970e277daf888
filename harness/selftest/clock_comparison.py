"""What the bench of the processor clock compares: cells by condition, in a table with bounds."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.statistics import welch
from harness.engine.recording import shown
from harness.selftest import small
from measure.record import Record
from studies import records as stored

#: The conditions: real time, the clock alone, beside other guests, beside programs; and virtual
#: time, in which nothing but the air's luck makes repetitions differ.
REAL, ALONE, GUESTS, HOGS, AIR = "real", "alone", "guests", "hogs", "air"
#: How many times the least the pieces took before a repetition, which its times are divided by.
COMPANY = "company"
#: Seconds that what the harness does would take a node, by the stamps between which it does it,
#: of the study's first times: in real time nodes wait for it.
HARNESS = "of the harness"
_SPANS = (("start", "first_packet"), ("handoff", "foreign_first_packet"))
_CONSTANTS = re.compile(r"a system call (\d+) ns, a page fault (\d+) ns")
#: Bounds in shares: of times and goodput against real time; of the host, in the median and at most.
TIMES, GOODPUT, MEDIAN, WORST, VARIATION = 0.05, 0.005, 0.03, 0.07, 0.05

#: Values in SI units by metric, of each repetition, by cell.
Values = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class ClockCell:
    """What the clock's conditions say of one cell.

    Means of what is compared, and the values that they are of, by condition and metric.
    """

    name: str
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict, repr=False)

    @property
    def time(self) -> str:
        """The metric that the clock is judged by: the first in seconds."""
        return next((name for name in self.means.get(ALONE, {}) if name.endswith("_s")), "")

    def beyond(self, metric: str) -> float | None:
        """How far real time is from what explains it, as a share; 0 within, None without both.

        The clock counts nodes' work in caches that are theirs alone, and the harness' not at all.
        So real time lies between that and the same with this machine's usual company and with what
        the harness does meanwhile, all of which a node waits for at most.
        """
        alone = self.means.get(ALONE, {})
        real, least = self.means.get(REAL, {}).get(metric), alone.get(metric)
        if real is None or not least:
            return None
        most = least * alone.get(COMPANY, 1.0) + alone.get(_harness(metric), 0.0)
        return real / most - 1 if real > most else min(0.0, real / least - 1)

    @property
    def variation(self) -> float | None:
        """The coefficient of variation of the clock's time alone; None of less than two values."""
        spread_s = self._spread_s(ALONE)
        return None if spread_s is None else spread_s / self.means[ALONE][self.time]

    @property
    def own_variation(self) -> float | None:
        """The same without the air's luck, which has its spread in virtual time; None without that.

        The two do not know of each other, so that their variances add up.
        """
        spread_s, air_s = self._spread_s(ALONE), self._spread_s(AIR)
        if spread_s is None or air_s is None:
            return None
        return math.sqrt(max(0.0, spread_s ** 2 - air_s ** 2)) / self.means[ALONE][self.time]

    def _spread_s(self, condition: str) -> float | None:
        """The standard deviation of that time."""
        measured = self.measured.get(condition, {}).get(self.time, ())
        return statistics.stdev(measured) if len(measured) > 1 else None

    def off(self, metric: str, condition: str, reference: str) -> float | None:
        """How far a condition's mean is from the reference's, as a share; None without both."""
        here = self.means.get(condition, {}).get(metric)
        there = self.means.get(reference, {}).get(metric)
        return None if here is None or not there else here / there - 1

    def surely_off(self, metric: str, condition: str, reference: str) -> float | None:
        """The same at the least: the near end of its 95 % interval.

        0 where the interval holds 0, None without two values of each.
        """
        here, there = (self.measured.get(name, {}).get(metric, ())
                       for name in (condition, reference))
        if min(len(here), len(there)) < 2:
            return None
        apart = welch(here, there).difference
        low, high = apart.low or 0.0, apart.high or 0.0
        return (max(low, 0.0) + min(high, 0.0)) / statistics.mean(there)


def values(folder: Path) -> dict[str, dict[str, list[float]]]:
    """The study's metrics of every proven repetition below a folder, by cell and metric."""
    study, by_cell = small.of().study, dict[str, dict[str, list[float]]]()
    for path in sorted(folder.glob("**/records/*.json")):
        record = stored.read(path)
        if record.status == "ok":
            cell = by_cell.setdefault(record.cell_name, {})
            for metric, value in shown(study, record).items():
                cell.setdefault(metric, []).append(value)
            for name, value in circumstances(record).items():
                cell.setdefault(name, []).append(value)
    return by_cell


def circumstances(record: Record) -> dict[str, float]:
    """What explains how a repetition's times differ from real time's: company and harness."""
    company = record.environment.get("processor_clock", {}).get("company")
    harness = {_harness(metric): harness_s(record, *stamps)
               for metric, stamps in zip(times_of_study(), _SPANS, strict=False)}
    return {**({COMPANY: float(company)} if company else {}),
            **{name: value for name, value in harness.items() if value is not None}}


def times_of_study() -> list[str]:
    """The study's metrics in seconds."""
    return [metric.name for metric in small.of().study.metrics if metric.name.endswith("_s")]


def _harness(metric: str) -> str:
    return f"{HARNESS}: {metric}"


def harness_s(record: Record, begin: str, end: str) -> float | None:
    """What the harness did between two stamps, as a node's work, in seconds.

    In real time it takes so long at most, less where something waits meanwhile. None where nobody
    counted, or where no node has this machine's constants.
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


def compared(conditions: Mapping[str, Values]) -> list[ClockCell]:
    """Every cell that the clock alone has measured, with means by condition and metric."""
    cells = []
    for name in sorted(conditions[ALONE]):
        means = {condition: {metric: statistics.mean(measured)
                             for metric, measured in of_cells.get(name, {}).items()}
                 for condition, of_cells in conditions.items()}
        cells.append(ClockCell(name, means, {condition: of_cells.get(name, {})
                                             for condition, of_cells in conditions.items()}))
    return cells


def table(cells: Sequence[ClockCell]) -> list[str]:
    """The comparison as Markdown, a line a cell."""
    heading = ("cell", "real", "clock", "against real", COMPANY, HARNESS, "unexplained", "varies",
               "without the air's luck", "beside guests", "beside hogs", "goodput against real")
    lines = [_row(heading), "|---" * len(heading) + "|"]
    for cell in cells:
        alone, time = cell.means.get(ALONE, {}), cell.time
        rates = ", ".join(_percent(cell.off(metric, ALONE, REAL), 2)
                          for metric in alone if metric.endswith("_bps"))
        lines.append(_row((
            cell.name, _ms(cell.means.get(REAL, {}).get(time)), _ms(alone.get(time)),
            _percent(cell.off(time, ALONE, REAL)), _times(alone.get(COMPANY)),
            _ms(alone.get(_harness(time))), _percent(cell.beyond(time)), _percent(cell.variation),
            _percent(cell.own_variation), _percent(cell.off(time, GUESTS, ALONE)),
            _percent(cell.off(time, HOGS, ALONE)), rates)))
    return lines


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def verdicts(cells: Sequence[ClockCell]) -> list[tuple[str, bool]]:
    """Each bound with what was measured, and whether it is kept in every cell."""
    rates = [(cell, metric) for cell in cells for metric in cell.means.get(ALONE, {})
             if metric.endswith("_bps")]
    # Without that, it is shown a cell and not judged: the harness is in real time, and has to be.
    unexplained = [cell.beyond(metric) for cell in cells
                   for metric in cell.means.get(ALONE, {})
                   if metric in times_of_study()[:len(_SPANS)]]
    bounds = [
        _verdict("times beyond what company and the harness explain, at most", max, unexplained,
                 TIMES),
        _for_sure("goodput against real time, at most", GOODPUT, {
            f"{cell.name} {metric}": (cell.off(metric, ALONE, REAL),
                                      cell.surely_off(metric, ALONE, REAL))
            for cell, metric in rates}),
        _verdict("variation of the first time within a cell, at most", max,
                 [cell.variation for cell in cells], VARIATION)]
    for title, condition in (("eight guests on two cores", GUESTS), ("three hogs", HOGS)):
        off = {cell.name: (cell.off(cell.time, condition, ALONE),
                           cell.surely_off(cell.time, condition, ALONE)) for cell in cells}
        bounds += [_verdict(f"beside {title}, median", statistics.median,
                            [share for share, _ in off.values()], MEDIAN),
                   _for_sure(f"beside {title}, at most", WORST, off)]
    return bounds


def _for_sure(title: str, bound: float, off: Mapping[
        str, tuple[float | None, float | None]]) -> tuple[str, bool]:
    """A bound on the greatest share, and what is beyond it even at the interval's near end."""
    line, holds = _verdict(title, max, [share for share, _ in off.values()], bound)
    beyond = [name for name, (_, surely) in off.items() if abs(surely or 0.0) > bound]
    return f"{line}; more than {bound:.1%} for sure: {', '.join(beyond) or 'no cell'}", holds


def _verdict(title: str, take: Callable[[Sequence[float]], float], shares: Sequence[float | None],
             bound: float) -> tuple[str, bool]:
    measured = [abs(share) for share in shares if share is not None]
    if not measured:
        return f"{title}: nothing measured", False
    holds = take(measured) <= bound
    return (f"{title}: {take(measured):.1%} (<= {bound:.1%}): "
            f"{'holds' if holds else 'does not hold'}"), holds


def _percent(share: float | None, digits: int = 1) -> str:
    return "" if share is None else f"{share * 100:+.{digits}f} %"


def _times(factor: float | None) -> str:
    return "" if factor is None else f"x{factor:.2f}"


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.1f} ms"
