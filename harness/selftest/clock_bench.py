"""`qop bench clock`: compare the processor clock with real time, with and without host load.

Several runs of the same plan are made, each in a results folder of its own, which continues after
an interruption:

- real time on an undisturbed core, one policy after the other
- the processor clock alone
- the processor clock while seven other guests run on two cores
- the processor clock while three busy loops run
- virtual time, which has the random backoffs of the medium and no computing

The eight guests share the cells, so that each cell is measured once while seven others run. The
busy loops run for some policies only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from guest.boot import Clock
from guest.processes import tied_command
from harness.engine import request, setup
from harness.engine.machine import ROOT
from harness.engine.request import RunRequest
from harness.engine.results import RESULTS
from harness.selftest import small
from harness.selftest.clock_comparison import (
    AIR,
    ALONE,
    GUESTS,
    HOGS,
    REAL,
    VARIATION,
    compare_cells,
    format_table,
    judge_bounds,
    read_values,
    times_of_study,
)
from harness.selftest.yardsticks import Yardsticks
from topologies.builders import MININET

#: The study's profile that lists the cells to compare.
PROFILE = "clock"
TABLE = "clock.md"
#: Number of runs at once, which makes eight guests on two cores. One of every _ONE_IN policies,
#: the last included, is measured while _HOGS busy loops run: on two cores that takes half of the
#: time.
_AT_ONCE, _HOGS, _ONE_IN = 4, 3, 4
_LEAST_REPETITIONS = 3
#: Largest number of repetitions of a cell, as a multiple of `--runs`.
_MORE_AT_MOST = 3


@dataclass(frozen=True)
class ClockRun:
    """A benchmark run: results folder, clock and levels of the first factor.

    Without levels, all are measured.
    """

    folder: Path
    clock: Clock = "processor"
    levels: tuple[str, ...] = ()


def run_bench(runs: int, out: Path | None, scales: Yardsticks) -> int:
    """Measure what is missing, then print and store the table.

    Returns:
        0 if every bound holds, else 1.
    """
    machine = setup.embedded_machine()
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
    with _run_hogs():
        _run_all([ClockRun(folder / HOGS, levels=tuple(beside_hogs(levels)))], all_of_them,
                 repetitions)
    # Last, because it takes longest. One policy at a time: the core has no other testbed's
    # streams.
    for level in levels:
        _run_all([ClockRun(folder / REAL / level, "real", levels=(level,))], one, repetitions)
    cells = compare_cells({condition: read_values(folder / condition)
                           for condition in (REAL, ALONE, GUESTS, HOGS, AIR)})
    bounds = judge_bounds(cells)
    lines = [*format_table(cells), "", *(line for line, _ in bounds)]
    (folder / TABLE).write_text("\n".join([scales.format_line(), "", *lines]) + "\n")
    click.echo("\n".join(lines))
    return 0 if all(holds for _, holds in bounds) else 1


def _profile_levels() -> list[str]:
    """Return the levels of the study's first factor that the profile contains."""
    study = small.small_plans().study
    made = request.build_plan(RunRequest(study, profile=PROFILE), {"builder": MININET})
    return list(dict.fromkeys(cell.ids[study.factors[0].name] for cell in made.cells))


def split_runs(folder: Path, levels: Sequence[str]) -> list[ClockRun]:
    """Return the runs to make at once. All levels are distributed over them."""
    dealt = [tuple(levels[number::_AT_ONCE]) for number in range(_AT_ONCE)]
    return [ClockRun(folder / str(number), levels=share)
            for number, share in enumerate(dealt) if share]


def beside_hogs(levels: Sequence[str]) -> list[str]:
    """Return every `_ONE_IN`th level, the last one included."""
    return list(levels[::-_ONE_IN])[::-1]


def _run_all(runs: Sequence[ClockRun], processors: Sequence[int], repetitions: int) -> None:
    """Measure all these runs at once on the same processors, and wait for their ends."""
    with contextlib.ExitStack() as stack:
        under_way = [stack.enter_context(_start_run(each, processors, repetitions))
                     for each in runs]
        for process in under_way:
            process.wait()


@contextlib.contextmanager
def _start_run(run: ClockRun, processors: Sequence[int],
               repetitions: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run with its guests on these processors and the harness on others.

    The run is terminated at the end of the context.
    """
    study = small.small_plans().study
    only = ["--only", f"{study.factors[0].name}={','.join(run.levels)}"] if run.levels else []
    argv = [sys.executable, "-P", "-m", "harness", "run", study.id, "--clock", run.clock,
            "--profile", PROFILE, *only, "--builder", MININET, "--captures", "failed",
            "--repetitions", str(repetitions), *_more_where_they_vary(repetitions), "--out",
            str(run.folder)]
    beside = sorted(os.sched_getaffinity(0) - set(processors)) or processors
    guests = {**os.environ, "QOP_PROCESSORS": ",".join(map(str, processors))}
    with subprocess.Popen(["taskset", "-c", ",".join(map(str, beside)), *argv], cwd=ROOT,
                          stdout=subprocess.DEVNULL, env=guests) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def _more_where_they_vary(repetitions: int) -> list[str]:
    """Return options for further repetitions of cells whose mean is not precise enough.

    A registration over two hops varies more by the medium's random backoffs than by computing.
    """
    name = times_of_study()[0]
    short = next(metric.short for metric in small.small_plans().study.metrics if metric.name
                 == name)
    return ["--until-ci", f"{short}:{VARIATION:.0%}", "--max-repetitions",
            str(_MORE_AT_MOST * repetitions)]


@contextlib.contextmanager
def _run_hogs() -> Iterator[None]:
    """Run busy loops on the processors inside the context."""
    # They end with the bench, however it ends: some that remained used a core for minutes.
    under_way = [subprocess.Popen([*tied_command("KILL"), sys.executable, "-c", "while True: pass"],
                                  process_group=0) for _ in range(_HOGS)]
    try:
        yield
    finally:
        for process in under_way:
            process.kill()
            process.wait()
