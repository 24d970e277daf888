"""`qop bench`: start-up time, fixed cost of a repetition, and a guest's processor and memory."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from guest import image
from guest.boot import Clock
from guest.processes import memory_of_group, used_cpu_s
from harness import render, secrets
from harness.engine import contention, events, recording, setup
from harness.engine.machine import ROOT
from harness.engine.testbed import TestbedClient
from harness.selftest import small
from harness.selftest.yardsticks import Yardsticks
from measure import ready
from studies.study import Repetition, Stage, Study

#: Real time, because a guest's stamps are compared with the host's clock; the other clocks skip
#: waiting, and their stamps differ.
_CLOCK: Clock = "real"


@dataclass(frozen=True)
class BenchLine:
    """A line of the benchmark: name, samples, unit and bound.

    A bound in seconds is for the reference machine; on other machines the yardsticks scale it.
    """

    name: str
    samples: list[float]
    unit: str
    bound: float | None = None

    def format_line(self, scale: float = 1.0) -> str:
        """Return median, range and bound as printed. `scale` multiplies a bound in seconds."""
        low, high = min(self.samples), max(self.samples)
        by = scale if self.unit == "s" else 1.0
        digits = 1 if (self.bound or 0.0) >= 1 else 2
        bound = "" if self.bound is None else f"  <= {self.bound * by:.{digits}f} {self.unit}"
        return (f"{self.name:<52} {statistics.median(self.samples):8.2f} {self.unit:<3} "
                f"({low:.2f} to {high:.2f}, n={len(self.samples)}){bound}")


def run_bench(runs: int, *, cold: bool, scales: Yardsticks) -> None:
    """Print the costs of the harness itself."""
    levels = small.small_plans().list_levels()
    figures = [_first_measurement(level, runs) for level in (levels[0], levels[-1])]
    figures += asyncio.run(_guest_costs(levels[-1], runs))
    for figure in figures:
        click.echo(figure.format_line(scales.scale))
    if cold:
        click.echo(_cold_build().format_line(scales.scale))
    else:
        built = image.find_image()
        assert built is not None
        for part in ("kernel", "root"):
            click.echo(f"{f'build of the {part}, when it was built':<52} "
                       f"{built.manifest[part]['build_s']:8.0f} s")


def _first_measurement(level: str, runs: int) -> BenchLine:
    """Measure the wall time from the command to a ready testbed, with the default clock.

    The time comes from the run's own events: with a clock that skips waiting, no stamp of a guest
    is in the host's time.
    """
    samples = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder:
            begun = time.time()
            asked = [*small.small_plans().run_arguments([level], 1), "--out", folder]
            subprocess.run([str(ROOT / "qop"), "run", *asked], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            [ready] = [event["at"] for event in events.read_events(Path(folder, events.FILE))
                       if event["event"] == "testbed-ready"]
            samples.append(ready - begun)
    return BenchLine(f"command to first measurement, {level}, image there", samples, "s", 2.0)


async def _guest_costs(level: str, runs: int) -> list[BenchLine]:
    """Measure the fixed cost of a repetition, its dissection, and its guest's resources."""
    machine = setup.embedded_machine()
    plan = small.small_plans().make_plan([level], 1, small=False, clock=_CLOCK)
    [planned] = plan.testbeds.values()
    [cell] = plan.cells
    task, deadline_s = plan.study.task(cell, plan.asked), plan.study.deadline_s(cell, plan.asked)
    fixed, dissection, share, used_memory = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as work:
        testbed = TestbedClient(machine, machine.processors[-1], planned, plan, Path(work))
        try:
            made = secrets.make_secrets()
            await testbed.open(made, render.Renderer(made, testbed.work))
            for repetition in range(runs + 1):
                before, begun = used_cpu_s(testbed.pid), time.monotonic()
                out = await testbed.measure_repetition(f"bench-{repetition}", task, deadline_s)
                elapsed, taken = time.monotonic() - begun, used_cpu_s(testbed.pid) - before
                dissected = _dissection_s(plan.study, Repetition(
                    cell, plan.asked, out, made, plan.settings.clock))
                if not repetition:
                    continue  # the first repetition includes work that is done once for a testbed
                dissection.append(dissected)
                fixed.append(elapsed - _in_stages_s(out, plan.study.stages[1:]))
                share.append(elapsed / taken)
                used_memory.append(memory_of_group(testbed.pid) / 1e6)
        finally:
            await testbed.close()
    return [BenchLine(f"fixed cost of a repetition, {level}", fixed, "s", 0.4),
            BenchLine(f"processor of its dissection and judgement, {level}", dissection, "s", 0.15),
            BenchLine("guests measuring side by side before a core is full", share, ""),
            BenchLine(f"memory of a guest, {level}", used_memory, "MB", 200.0)]


def _dissection_s(study: Study, repetition: Repetition) -> float:
    """Return the processor seconds to dissect and judge a repetition, including tshark's."""
    before = _own_s()
    recording.judge_repetition(study, repetition)
    return _own_s() - before


def _own_s() -> float:
    """Return the processor seconds of this process, its ended children and the tshark servers."""
    return ready.used_s() + sum(used.ru_utime + used.ru_stime for used in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _in_stages_s(out: Path, stages: Sequence[Stage]) -> float:
    """Return the seconds that a repetition spent in these stages, from its own stamps."""
    raw = json.loads((out / "raw.json").read_text())
    return sum(end - begin for stage in stages
               for begin, end in contention.windows_of(stage, raw))


def _cold_build() -> BenchLine:
    """Build the kernel and the root file system into an empty cache, and time that."""
    with tempfile.TemporaryDirectory(prefix="qop-cold-") as cache:
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "guest"], cwd=ROOT, check=True,
                       env={**os.environ, "QOP_CACHE": cache})
        return BenchLine("cold build of the guest image", [time.monotonic() - begun], "s",
                         240.0)
