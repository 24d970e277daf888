"""`qop bench`: measure start-up time, fixed cost of a repetition, and a guest's resources."""

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

from bench import small_plans
from bench.machine_speed import MachineSpeeds
from guest import image
from guest.boot import Clock
from guest.processes import read_group_memory, read_used_cpu_s
from harness import render, secrets
from harness.engine import cpu_contention, events, recording, setup
from harness.engine.machine import ROOT
from harness.engine.testbed import TestbedClient
from measure.capture import tshark_server
from studies.study import Repetition, Stage, Study

#: Real time, because a guest's stamps are compared with the host's clock; the other clocks skip
#: waiting, and their stamps differ.
_CLOCK: Clock = "real"


@dataclass(frozen=True)
class BenchLine:
    """A line of the benchmark's output: name, samples, unit and bound.

    A bound in seconds is for the reference machine; on other machines it is scaled by the speed.
    """

    name: str
    samples: list[float]
    unit: str
    bound: float | None = None

    def format_line(self, scale: float = 1.0) -> str:
        """Return median, range and bound as text. `scale` multiplies a bound in seconds."""
        low, high = min(self.samples), max(self.samples)
        by = scale if self.unit == "s" else 1.0
        digits = 1 if (self.bound or 0.0) >= 1 else 2
        bound = "" if self.bound is None else f"  <= {self.bound * by:.{digits}f} {self.unit}"
        return (f"{self.name:<52} {statistics.median(self.samples):8.2f} {self.unit:<3} "
                f"({low:.2f} to {high:.2f}, n={len(self.samples)}){bound}")


def run_bench(runs: int, *, cold: bool, scales: MachineSpeeds) -> None:
    """Measure and print the costs of qop itself: time, CPU time and memory.

    With `cold`, a build of the guest with an empty cache is measured, too. `scales` is the speed of
    this machine.
    """
    levels = small_plans.make_small_plans().list_levels()
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
    """Measure the time from the command to a ready testbed, with the default clock.

    The time comes from the run's own events: with a clock that skips waiting, no stamp of a guest
    is in the host's time.
    """
    samples = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder:
            begun = time.time()
            arguments = [*small_plans.make_small_plans().run_arguments([level], 1), "--out", folder]
            subprocess.run([str(ROOT / "qop"), "run", *arguments], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            [ready] = [event["at"] for event in events.read_events(Path(folder, events.FILE))
                       if event["event"] == "testbed-ready"]
            samples.append(ready - begun)
    return BenchLine(f"command to first measurement, {level}, image there", samples, "s", 2.0)


async def _guest_costs(level: str, runs: int) -> list[BenchLine]:
    """Measure the fixed cost of a repetition and its dissection, and its guest's resources."""
    machine = setup.make_embedded_machine()
    plan = small_plans.make_small_plans().make_plan([level], 1, small=False, clock=_CLOCK)
    [planned] = plan.testbeds.values()
    [cell] = plan.cells
    task, deadline_s = plan.study.task(cell, plan.asked), plan.study.deadline_s(cell, plan.asked)
    fixed, dissection, share, used_memory = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as work:
        testbed = TestbedClient(machine, machine.processors[-1], planned, plan, Path(work))
        try:
            run_secrets = secrets.make_secrets()
            await testbed.open(run_secrets, render.Renderer(run_secrets, testbed.work))
            for repetition in range(runs + 1):
                before, begun = read_used_cpu_s(testbed.pid), time.monotonic()
                out = await testbed.measure_repetition(f"bench-{repetition}", task, deadline_s)
                elapsed, taken = time.monotonic() - begun, read_used_cpu_s(testbed.pid) - before
                dissected = _dissection_s(plan.study, Repetition(
                    cell, plan.asked, out, run_secrets, plan.settings.clock))
                if not repetition:
                    continue  # the first repetition includes work that is done once for a testbed
                dissection.append(dissected)
                fixed.append(elapsed - _in_stages_s(out, plan.study.stages[1:]))
                share.append(elapsed / taken)
                used_memory.append(read_group_memory(testbed.pid) / 1e6)
        finally:
            await testbed.close()
    return [BenchLine(f"fixed cost of a repetition, {level}", fixed, "s", 0.4),
            BenchLine(f"processor of its dissection and judgement, {level}", dissection, "s", 0.15),
            BenchLine("guests measuring side by side before a core is full", share, ""),
            BenchLine(f"memory of a guest, {level}", used_memory, "MB", 200.0)]


def _dissection_s(study: Study, repetition: Repetition) -> float:
    """Return the CPU seconds to dissect and judge a repetition, including tshark's."""
    before = _own_s()
    recording.judge_repetition(study, repetition)
    return _own_s() - before


def _own_s() -> float:
    """Return the CPU seconds of this process, its ended children and the tshark servers."""
    return tshark_server.used_s() + sum(used.ru_utime + used.ru_stime for used in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _in_stages_s(out: Path, stages: Sequence[Stage]) -> float:
    """Return how long a repetition spent in some stages (such as streams), in seconds."""
    raw = json.loads((out / "raw.json").read_text())
    return sum(end - begin for stage in stages
               for begin, end in cpu_contention.find_stage_windows(stage, raw))


def _cold_build() -> BenchLine:
    """Time how long the kernel and the root file system take to build with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="qop-cold-") as cache:
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "guest"], cwd=ROOT, check=True,
                       env={**os.environ, "QOP_CACHE": cache})
        return BenchLine("cold build of the guest image", [time.monotonic() - begun], "s",
                         240.0)
