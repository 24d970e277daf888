"""`qop bench clock`: what the processor clock says beside real time, and whether it hears the host.

Runs of the same plan, each in a results folder of its own that goes on where it was interrupted:
real time on an undisturbed core, one policy after the other; the processor clock alone, beside
seven other guests on two cores, and beside three programs that only want the processor. The eight
guests share the cells among them, so that each cell is measured once beside seven others; the
programs are there for some policies.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from guest.boot import Clock
from guest.processes import tied
from harness.engine import request, setup
from harness.engine.machine import ROOT
from harness.engine.recording import shown
from harness.engine.request import RunRequest
from harness.engine.results import RESULTS
from harness.selftest import small
from harness.selftest.yardsticks import Yardsticks
from measure.record import Record
from studies import records as stored
from topologies.builders import MININET

#: The study's profile that says which cells are compared.
PROFILE = "clock"
TABLE = "clock.md"
#: Runs that are under way at once make so many guests on two cores. One in so many policies, the
#: last among them, is measured beside the programs: on two cores they take half of the time.
_AT_ONCE, _HOGS, _ONE_IN = 4, 3, 4
_LEAST_REPETITIONS = 3
REAL, ALONE, GUESTS, HOGS = "real", "alone", "guests", "hogs"
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
class ClockRun:
    """A run of the bench: where to, by which clock, and some levels of the first factor, or all."""

    folder: Path
    clock: Clock = "processor"
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClockCell:
    """What the clock's conditions say of one cell: means of what is compared, and a spread."""

    name: str
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    variation: float | None = None

    @property
    def time(self) -> str:
        """The metric that the clock is judged by: the first in seconds."""
        return _time(self.means.get(ALONE, {}))

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

    def off(self, metric: str, condition: str, reference: str) -> float | None:
        """How far a condition's mean is from the reference's, as a share; None without both."""
        here = self.means.get(condition, {}).get(metric)
        there = self.means.get(reference, {}).get(metric)
        return None if here is None or not there else here / there - 1


def bench(runs: int, out: Path | None, scales: Yardsticks) -> int:
    """Measure what is missing, print and keep the table; 1 where a bound is not kept."""
    machine = setup.embedded()
    folder = out or RESULTS / "clock"
    # An undisturbed core has a guest and nothing else: the harness and its dissectors have others.
    one, all_of_them = machine.processors[-1:], machine.processors
    repetitions = max(runs, _LEAST_REPETITIONS)
    levels = _levels()
    _run([ClockRun(folder / ALONE)], one, repetitions)
    # On all processors; each run has one guest on each of them, and a second.
    _run(shares(folder / GUESTS, levels), all_of_them, repetitions)
    with _hogs():
        _run([ClockRun(folder / HOGS, levels=tuple(beside_hogs(levels)))], all_of_them, repetitions)
    # Last, as it takes longest. By themselves: an undisturbed core has no other testbed's streams.
    for level in levels:
        _run([ClockRun(folder / REAL / level, "real", levels=(level,))], one, repetitions)
    cells = compared({condition: values(folder / condition)
                      for condition in (REAL, ALONE, GUESTS, HOGS)})
    bounds = verdicts(cells)
    lines = [*table(cells), "", *(line for line, _ in bounds)]
    (folder / TABLE).write_text("\n".join([scales.line(), "", *lines]) + "\n")
    click.echo("\n".join(lines))
    return 0 if all(holds for _, holds in bounds) else 1


def _levels() -> list[str]:
    """Those of the study's first factor that the profile has."""
    study = small.of().study
    made = request.plan(RunRequest(study, profile=PROFILE), {"builder": MININET})
    return list(dict.fromkeys(cell.ids[study.factors[0].name] for cell in made.cells))


def shares(folder: Path, levels: Sequence[str]) -> list[ClockRun]:
    """As many runs as are under way at once, with all levels among them."""
    dealt = [tuple(levels[number::_AT_ONCE]) for number in range(_AT_ONCE)]
    return [ClockRun(folder / str(number), levels=share)
            for number, share in enumerate(dealt) if share]


def beside_hogs(levels: Sequence[str]) -> list[str]:
    """One in `_ONE_IN` levels, the last among them."""
    return list(levels[::-_ONE_IN])[::-1]


def _run(runs: Sequence[ClockRun], processors: Sequence[int], repetitions: int) -> None:
    """Measure all of these, at once and on the same processors, to their ends."""
    with contextlib.ExitStack() as stack:
        under_way = [stack.enter_context(_started(each, processors, repetitions))
                     for each in runs]
        for process in under_way:
            process.wait()


@contextlib.contextmanager
def _started(run: ClockRun, processors: Sequence[int],
             repetitions: int) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose guests have these processors, and the harness others; it ends with this."""
    study = small.of().study
    only = ["--only", f"{study.factors[0].name}={','.join(run.levels)}"] if run.levels else []
    argv = [sys.executable, "-P", "-m", "harness", "run", study.id, "--clock", run.clock,
            "--profile", PROFILE, *only, "--builder", MININET, "--captures", "failed",
            "--repetitions", str(repetitions), "--out", str(run.folder)]
    beside = sorted(os.sched_getaffinity(0) - set(processors)) or processors
    guests = {**os.environ, "QOP_PROCESSORS": ",".join(map(str, processors))}
    with subprocess.Popen(["taskset", "-c", ",".join(map(str, beside)), *argv], cwd=ROOT,
                          stdout=subprocess.DEVNULL, env=guests) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


@contextlib.contextmanager
def _hogs() -> Iterator[None]:
    """Programs that only want the processor, as long as this lasts."""
    # They end with the bench, whatever ends it: some that were left over took a core for minutes.
    under_way = [subprocess.Popen([*tied("KILL"), sys.executable, "-c", "while True: pass"],
                                  process_group=0) for _ in range(_HOGS)]
    try:
        yield
    finally:
        for process in under_way:
            process.kill()
            process.wait()


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
               for metric, stamps in zip(_times_of_study(), _SPANS, strict=False)}
    return {**({COMPANY: float(company)} if company else {}),
            **{name: value for name, value in harness.items() if value is not None}}


def _times_of_study() -> list[str]:
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
    for name, alone in sorted(conditions[ALONE].items()):
        times = alone.get(_time(alone), [])
        spread = statistics.stdev(times) / statistics.mean(times) if len(times) > 1 else None
        means = {condition: {metric: statistics.mean(measured)
                             for metric, measured in of_cells.get(name, {}).items()}
                 for condition, of_cells in conditions.items()}
        cells.append(ClockCell(name, means, spread))
    return cells


def _time(metrics: Mapping[str, object]) -> str:
    return next((name for name in metrics if name.endswith("_s")), "")


def table(cells: Sequence[ClockCell]) -> list[str]:
    """The comparison as Markdown, a line a cell."""
    heading = ("cell", "real", "clock", "against real", COMPANY, HARNESS, "unexplained", "varies",
               "beside guests", "beside hogs", "goodput against real")
    lines = [_row(heading), "|---" * len(heading) + "|"]
    for cell in cells:
        alone, time = cell.means.get(ALONE, {}), cell.time
        rates = ", ".join(_percent(cell.off(metric, ALONE, REAL), 2)
                          for metric in alone if metric.endswith("_bps"))
        lines.append(_row((
            cell.name, _ms(cell.means.get(REAL, {}).get(time)), _ms(alone.get(time)),
            _percent(cell.off(time, ALONE, REAL)), _times(alone.get(COMPANY)),
            _ms(alone.get(_harness(time))), _percent(cell.beyond(time)), _percent(cell.variation),
            _percent(cell.off(time, GUESTS, ALONE)), _percent(cell.off(time, HOGS, ALONE)), rates)))
    return lines


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def verdicts(cells: Sequence[ClockCell]) -> list[tuple[str, bool]]:
    """Each bound with what was measured, and whether it is kept in every cell."""
    def against_real(suffix: str) -> list[float | None]:
        return [cell.off(metric, ALONE, REAL) for cell in cells
                for metric in cell.means.get(ALONE, {}) if metric.endswith(suffix)]

    # Without that, it is shown a cell and not judged: the harness is in real time, and has to be.
    unexplained = [cell.beyond(metric) for cell in cells
                   for metric in cell.means.get(ALONE, {})
                   if metric in _times_of_study()[:len(_SPANS)]]
    bounds = [
        _verdict("times beyond what company and the harness explain, at most", max, unexplained,
                 TIMES),
        _verdict("goodput against real time, at most", max, against_real("_bps"), GOODPUT),
        _verdict("variation of the first time within a cell, at most", max,
                 [cell.variation for cell in cells], VARIATION)]
    for title, condition in (("eight guests on two cores", GUESTS), ("three hogs", HOGS)):
        off = [cell.off(cell.time, condition, ALONE) for cell in cells]
        bounds += [_verdict(f"beside {title}, median", statistics.median, off, MEDIAN),
                   _verdict(f"beside {title}, at most", max, off, WORST)]
    return bounds


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
