"""`qop bench clock`: what the processor clock says beside real time, and whether it hears the host.

Runs of the same plan, each in a results folder of its own that goes on where it was interrupted:
real time on an undisturbed core, one policy after the other; the processor clock alone, beside
seven other guests on two cores, and beside three programs that only want the processor; and virtual
time, which has the air's luck and no computing. The eight guests share the cells among them, so
that each cell is measured once beside seven others; the programs are there for some policies.
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
from guest.processes import tied
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
    compared,
    table,
    times_of_study,
    values,
    verdicts,
)
from harness.selftest.yardsticks import Yardsticks
from topologies.builders import MININET

#: The study's profile that says which cells are compared.
PROFILE = "clock"
TABLE = "clock.md"
#: Runs that are under way at once make so many guests on two cores. One in so many policies, the
#: last among them, is measured beside the programs: on two cores they take half of the time.
_AT_ONCE, _HOGS, _ONE_IN = 4, 3, 4
_LEAST_REPETITIONS = 3
#: A cell gets so many times the repetitions at most.
_MORE_AT_MOST = 3


@dataclass(frozen=True)
class ClockRun:
    """A run of the bench: where to, by which clock, and some levels of the first factor, or all."""

    folder: Path
    clock: Clock = "processor"
    levels: tuple[str, ...] = ()


def bench(runs: int, out: Path | None, scales: Yardsticks) -> int:
    """Measure what is missing, print and keep the table; 1 where a bound is not kept."""
    machine = setup.embedded()
    folder = out or RESULTS / "clock"
    # An undisturbed core has a guest and nothing else: the harness and its dissectors have others.
    one, all_of_them = machine.processors[-1:], machine.processors
    repetitions = max(runs, _LEAST_REPETITIONS)
    levels = _levels()
    _run([ClockRun(folder / ALONE)], one, repetitions)
    # What the air's luck makes of the same repetitions, which no clock can help.
    _run([ClockRun(folder / AIR, "virtual")], all_of_them, repetitions)
    # On all processors; each run has one guest on each of them, and a second.
    _run(shares(folder / GUESTS, levels), all_of_them, repetitions)
    with _hogs():
        _run([ClockRun(folder / HOGS, levels=tuple(beside_hogs(levels)))], all_of_them, repetitions)
    # Last, as it takes longest. By themselves: an undisturbed core has no other testbed's streams.
    for level in levels:
        _run([ClockRun(folder / REAL / level, "real", levels=(level,))], one, repetitions)
    cells = compared({condition: values(folder / condition)
                      for condition in (REAL, ALONE, GUESTS, HOGS, AIR)})
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
    """Further repetitions of cells whose mean is less sure than it has to be.

    A registration over two hops has more of the air's luck in it than of computing.
    """
    name = times_of_study()[0]
    short = next(metric.short for metric in small.of().study.metrics if metric.name == name)
    return ["--until-ci", f"{short}:{VARIATION:.0%}", "--max-repetitions",
            str(_MORE_AT_MOST * repetitions)]


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
