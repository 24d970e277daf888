"""`qop bench clock`: check the processor clock against real time, with and without load.

By the processor clock, waiting is skipped, and computing takes the CPU time that it used.
`run_bench` measures the same plan under five conditions. Each run has a results folder of its own,
which continues after an interruption. The result is a table with one line for each cell (one policy
in one scenario), and bounds that must hold in every cell.

| condition | name | |
|---|---|---|
| `REAL` | real | real time on an undisturbed core, one policy after the other |
| `ALONE` | alone | the processor clock alone |
| `GUESTS` | guests | the processor clock while seven other guests run on two cores |
| `HOST_LOAD` | hogs | the processor clock while three busy loops run, for some policies only |
| `AIR` | air | virtual time: random backoffs of the medium, and no computing |

Real time must lie between two values:

    clock <= real <= clock * slowdown + harness work

- clock: the time by the processor clock alone
- slowdown: the factor by which usual host load lengthens computing (`LOAD_COMPENSATION`)
- harness work: qop's own work during the time (`HARNESS`), for which a node waits in real time. The
  sum is an upper limit, because a node may wait for something else meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from analysis.statistics import compare_welch
from bench import small_plans
from bench.machine_speed import MachineSpeeds
from guest.boot import Clock
from guest.processes import build_tied_command
from harness.engine import request, setup
from harness.engine.machine import ROOT
from harness.engine.recording import collect_display_values
from harness.engine.request import RunRequest
from harness.engine.results import RESULTS
from measure.records.record import Record
from studies import records as stored
from topologies.builders import MININET

# --- Comparison of cells under these conditions: table and bounds ---

#: The conditions (see above).
REAL, ALONE, GUESTS, HOST_LOAD, AIR = "real", "alone", "guests", "hogs", "air"
#: Slowdown by host load: the time of the calibration workload, divided by its least time. Records
#: and the table have it under this name.
LOAD_COMPENSATION = "company"
#: The harness's own work between the stamps in _SPANS, in seconds of a node's processor time. In
#: real time nodes wait for it. There is a pair of stamps for each of the study's first times.
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
    """The results of one cell (one policy in one scenario) under each condition of the module.

    `means` are by condition and metric, and `measured` are the values that they are means of.
    """

    name: str
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict, repr=False)

    @property
    def time(self) -> str:
        """Return the metric by which the clock is judged: the first one in seconds."""
        return next((name for name in self.means.get(ALONE, {}) if name.endswith("_s")), "")

    def unexplained_share(self, metric: str) -> float | None:
        """Return by what fraction real time differs from the range that the clock predicts.

        The range begins at the processor clock's time and ends at that time * slowdown + harness
        work (see the module's formula). The clock counts nodes' work as if caches were theirs
        alone, and does not count qop's own work. The result is 0 inside of the range, and None if
        real or clock time is missing.
        """
        alone = self.means.get(ALONE, {})
        real, least = self.means.get(REAL, {}).get(metric), alone.get(metric)
        if real is None or not least:
            return None
        most = least * alone.get(LOAD_COMPENSATION, 1.0) + alone.get(_harness_name(metric), 0.0)
        return real / most - 1 if real > most else min(0.0, real / least - 1)

    @property
    def variation(self) -> float | None:
        """Return the coefficient of variation of times measured with the processor clock alone.

        The result is None below two values.
        """
        spread_s = self._spread_s(ALONE)
        return None if spread_s is None else spread_s / self.means[ALONE][self.time]

    @property
    def own_variation(self) -> float | None:
        """Return the coefficient of variation without that of the air's random backoffs.

        The backoffs' spread is measured in virtual time; None without it. The two causes are
        independent, so their variances add up.
        """
        spread_s, air_s = self._spread_s(ALONE), self._spread_s(AIR)
        if spread_s is None or air_s is None:
            return None
        return math.sqrt(max(0.0, spread_s ** 2 - air_s ** 2)) / self.means[ALONE][self.time]

    def _spread_s(self, condition: str) -> float | None:
        """Return the standard deviation of the times under a condition, in seconds."""
        measured = self.measured.get(condition, {}).get(self.time, ())
        return statistics.stdev(measured) if len(measured) > 1 else None

    def relative_difference(self, metric: str, condition: str, reference: str) -> float | None:
        """Return by what fraction a condition's mean differs from that of another condition.

        The result is None if one of the two is missing.
        """
        here = self.means.get(condition, {}).get(metric)
        there = self.means.get(reference, {}).get(metric)
        return None if here is None or not there else here / there - 1

    def certain_difference(self, metric: str, condition: str, reference: str) -> float | None:
        """Return the smallest relative difference of two conditions within the 95 % interval.

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
    """Return the metrics of every proven repetition in a folder, by cell and metric."""
    study, by_cell = small_plans.make_small_plans().study, dict[str, dict[str, list[float]]]()
    for path in sorted(folder.glob("**/records/*.json")):
        record = stored.read_record(path)
        if record.status == "ok":
            cell = by_cell.setdefault(record.cell_name, {})
            for metric, value in collect_display_values(study, record).items():
                cell.setdefault(metric, []).append(value)
            for name, value in collect_explanatory_values(record).items():
                cell.setdefault(name, []).append(value)
    return by_cell


def collect_explanatory_values(record: Record) -> dict[str, float]:
    """Return the slowdown by host load and the harness's work of a repetition, by name.

    A repetition in real time takes longer because of both.
    """
    company = record.environment.get("processor_clock", {}).get("company")
    harness = {_harness_name(metric): compute_harness_s(record, *stamps)
               for metric, stamps in zip(list_time_metrics(), _SPANS, strict=False)}
    return {**({LOAD_COMPENSATION: float(company)} if company else {}),
            **{name: value for name, value in harness.items() if value is not None}}


def list_time_metrics() -> list[str]:
    """Return the study's metrics in seconds."""
    return [metric.name for metric in small_plans.make_small_plans().study.metrics
            if metric.name.endswith("_s")]


def _harness_name(metric: str) -> str:
    return f"{HARNESS}: {metric}"


def compute_harness_s(record: Record, begin: str, end: str) -> float | None:
    """Return qop's own work between two time stamps, as CPU time of a node in seconds.

    In real time it takes at most this long, and less where a process waits meanwhile. The result is
    None if the work was not counted, or if no node has this machine's constants.
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
    """Return the results of all cells that were measured with the processor clock alone.

    Args:
        conditions: The values of all repetitions, by condition.
    """
    cells = []
    for name in sorted(conditions[ALONE]):
        means = {condition: {metric: statistics.mean(measured)
                             for metric, measured in of_cells.get(name, {}).items()}
                 for condition, of_cells in conditions.items()}
        cells.append(ClockCell(name, means, {condition: of_cells.get(name, {})
                                             for condition, of_cells in conditions.items()}))
    return cells


def format_table(cells: Sequence[ClockCell]) -> list[str]:
    """Return the comparison of clocks as a Markdown table, with a line per policy and scenario."""
    heading = ("cell", "real", "clock", "against real", LOAD_COMPENSATION, HARNESS, "unexplained",
               "varies",
               "without the air's luck", "beside guests", "beside hogs", "goodput against real")
    lines = [_format_row(heading), "|---" * len(heading) + "|"]
    for cell in cells:
        alone, time = cell.means.get(ALONE, {}), cell.time
        rates = ", ".join(_format_percent(cell.relative_difference(metric, ALONE, REAL), 2)
                          for metric in alone if metric.endswith("_bps"))
        lines.append(_format_row((
            cell.name, _format_ms(cell.means.get(REAL, {}).get(time)), _format_ms(alone.get(time)),
            _format_percent(cell.relative_difference(time, ALONE, REAL)),
            _format_factor(alone.get(LOAD_COMPENSATION)),
            _format_ms(alone.get(_harness_name(time))),
            _format_percent(cell.unexplained_share(time)), _format_percent(cell.variation),
            _format_percent(cell.own_variation),
            _format_percent(cell.relative_difference(time, GUESTS, ALONE)),
            _format_percent(cell.relative_difference(time, HOST_LOAD, ALONE)), rates)))
    return lines


def _format_row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def judge_bounds(cells: Sequence[ClockCell]) -> list[tuple[str, bool]]:
    """Check every bound on the clock's accuracy.

    Returns:
        For each bound, a line with its measured value, and whether the bound holds.
    """
    rates = [(cell, metric) for cell in cells for metric in cell.means.get(ALONE, {})
             if metric.endswith("_bps")]
    # Other metrics are shown for each cell but not judged: the harness works in real time.
    unexplained = [cell.unexplained_share(metric) for cell in cells
                   for metric in cell.means.get(ALONE, {})
                   if metric in list_time_metrics()[:len(_SPANS)]]
    bounds = [
        _judge_bound("times beyond what company and the harness explain, at most", max, unexplained,
                     TIMES),
        _judge_certain_bound("goodput against real time, at most", GOODPUT, {
            f"{cell.name} {metric}": (cell.relative_difference(metric, ALONE, REAL),
                                      cell.certain_difference(metric, ALONE, REAL))
            for cell, metric in rates}),
        _judge_bound("variation of the first time within a cell, at most", max,
                     [cell.variation for cell in cells], VARIATION)]
    for title, condition in (("eight guests on two cores", GUESTS), ("three hogs", HOST_LOAD)):
        off = {cell.name: (cell.relative_difference(cell.time, condition, ALONE),
                           cell.certain_difference(cell.time, condition, ALONE)) for cell in cells}
        bounds += [_judge_bound(f"beside {title}, median", statistics.median,
                                [share for share, _ in off.values()], MEDIAN),
                   _judge_certain_bound(f"beside {title}, at most", WORST, off)]
    return bounds


def _judge_certain_bound(title: str, bound: float, off: Mapping[
        str, tuple[float | None, float | None]]) -> tuple[str, bool]:
    """Check a bound on a difference: it fails for cells whose whole interval is beyond it.

    Returns:
        A line with the largest difference and the cells beyond the bound, and whether the bound
        holds.
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


# --- Runs under these conditions ---
# The eight guests share the cells, so that each cell is measured once while seven others run.

#: The study's profile that lists the cells to compare.
PROFILE = "clock"
TABLE = "clock.md"
#: Number of runs at once, which makes eight guests on two cores. One of every
#: _LOADED_LEVEL_STEP policies, the last included, is measured while _LOAD_PROGRAMS busy loops run:
#: on two cores that takes half of the time.
_PARALLEL_RUNS, _LOAD_PROGRAMS, _LOADED_LEVEL_STEP = 4, 3, 4
_LEAST_REPETITIONS = 3
#: Largest number of repetitions of a cell, as a multiple of `--runs`.
_MORE_AT_MOST = 3


@dataclass(frozen=True)
class ClockRun:
    """A run of the benchmark: its results folder, its clock and its policies.

    Without policies (`levels`), all are measured.
    """

    folder: Path
    clock: Clock = "processor"
    levels: tuple[str, ...] = ()


def run_bench(runs: int, out: Path | None, scales: MachineSpeeds) -> int:
    """Measure the runs of the benchmark that are missing, then print and store the table.

    Returns:
        0 if every bound holds, else 1.
    """
    machine = setup.make_embedded_machine()
    folder = out or RESULTS / "clock"
    # An undisturbed core has a guest and nothing else: the harness and its dissectors use others.
    one, all_of_them = machine.processors[-1:], machine.processors
    repetitions = max(runs, _LEAST_REPETITIONS)
    levels = _profile_levels()
    _run_all([ClockRun(folder / ALONE)], one, repetitions)
    # Spread of the same repetitions from the medium's random backoffs, which no clock can remove.
    _run_all([ClockRun(folder / AIR, "virtual")], all_of_them, repetitions)
    # On all processors: each run has a guest on each of them, eight guests on two cores.
    _run_all(split_runs(folder / GUESTS, levels), all_of_them, repetitions)
    with _run_load():
        _run_all([ClockRun(folder / HOST_LOAD, levels=tuple(select_loaded_levels(levels)))],
                 all_of_them,
                 repetitions)
    # Last, because it takes longest. One policy at a time: the core has no other testbed's
    # streams.
    for level in levels:
        _run_all([ClockRun(folder / REAL / level, "real", levels=(level,))], one, repetitions)
    cells = compare_cells({condition: read_values(folder / condition)
                           for condition in (REAL, ALONE, GUESTS, HOST_LOAD, AIR)})
    bounds = judge_bounds(cells)
    lines = [*format_table(cells), "", *(line for line, _ in bounds)]
    (folder / TABLE).write_text("\n".join([scales.format_line(), "", *lines]) + "\n")
    click.echo("\n".join(lines))
    return 0 if all(holds for _, holds in bounds) else 1


def _profile_levels() -> list[str]:
    """Return the policies that the benchmark's profile contains."""
    study = small_plans.make_small_plans().study
    plan = request.build_plan(RunRequest(study, profile=PROFILE), {"builder": MININET})
    return list(dict.fromkeys(cell.ids[study.factors[0].name] for cell in plan.cells))


def split_runs(folder: Path, levels: Sequence[str]) -> list[ClockRun]:
    """Return runs to start at the same time, over which the policies are distributed."""
    dealt = [tuple(levels[number::_PARALLEL_RUNS]) for number in range(_PARALLEL_RUNS)]
    return [ClockRun(folder / str(number), levels=share)
            for number, share in enumerate(dealt) if share]


def select_loaded_levels(levels: Sequence[str]) -> list[str]:
    """Return the policies to measure under load: every `_LOADED_LEVEL_STEP`th and the last."""
    return list(levels[::-_LOADED_LEVEL_STEP])[::-1]


def _run_all(runs: Sequence[ClockRun], processors: Sequence[int], repetitions: int) -> None:
    """Measure several runs at the same time on the same processors, and wait for their ends."""
    with contextlib.ExitStack() as stack:
        under_way = [stack.enter_context(_start_run(each, processors, repetitions))
                     for each in runs]
        for process in under_way:
            process.wait()


@contextlib.contextmanager
def _start_run(run: ClockRun, processors: Sequence[int],
               repetitions: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run whose guests use these processors, while qop itself uses others.

    The run is terminated at the end of the context.
    """
    study = small_plans.make_small_plans().study
    only = ["--only", f"{study.factors[0].name}={','.join(run.levels)}"] if run.levels else []
    argv = [sys.executable, "-P", "-m", "harness", "run", study.id, "--clock", run.clock,
            "--profile", PROFILE, *only, "--builder", MININET, "--captures", "failed",
            "--repetitions", str(repetitions), *_request_repetitions(repetitions), "--out",
            str(run.folder)]
    other_processors = sorted(os.sched_getaffinity(0) - set(processors)) or processors
    guests = {**os.environ, "QOP_PROCESSORS": ",".join(map(str, processors))}
    with subprocess.Popen(["taskset", "-c", ",".join(map(str, other_processors)), *argv], cwd=ROOT,
                          stdout=subprocess.DEVNULL, env=guests) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def _request_repetitions(repetitions: int) -> list[str]:
    """Return options that request more repetitions where a mean is not precise enough.

    A registration over two hops varies more by the medium's random backoffs than by computing.
    """
    name = list_time_metrics()[0]
    short = next(metric.short for metric in small_plans.make_small_plans().study.metrics
                 if metric.name
                 == name)
    return ["--until-ci", f"{short}:{VARIATION:.0%}", "--max-repetitions",
            str(_MORE_AT_MOST * repetitions)]


@contextlib.contextmanager
def _run_load() -> Iterator[None]:
    """Keep the processors busy with endless loops inside the context."""
    # They end with the bench, however it ends: some that remained used a core for minutes.
    under_way = [subprocess.Popen([*build_tied_command("KILL"), sys.executable, "-c",
                                   "while True: pass"],
                                  process_group=0) for _ in range(_LOAD_PROGRAMS)]
    try:
        yield
    finally:
        for process in under_way:
            process.kill()
            process.wait()
