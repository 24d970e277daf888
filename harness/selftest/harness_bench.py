"""`qop bench`: start-up, fixed cost of a repetition, processor and memory of a guest."""

from __future__ import annotations

import asyncio
import json
import os
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
from guest.processes import memory_of_group, processor_s
from harness import render, secrets
from harness.engine import contention, setup
from harness.engine.machine import ROOT
from harness.engine.testbed import TestbedClient
from harness.selftest import small, yardsticks
from studies import records as stored
from studies.study import Stage


@dataclass(frozen=True)
class BenchLine:
    """One line of the benchmark: what, the samples, their unit, and the bound to keep.

    A bound in seconds is for the machine of reference: others are given what their yardsticks say.
    """

    name: str
    samples: list[float]
    unit: str
    bound: float | None = None

    def line(self, scale: float = 1.0) -> str:
        """Median and range with the bound, as printed on a machine that takes `scale` as long."""
        low, high = min(self.samples), max(self.samples)
        by = scale if self.unit == "s" else 1.0
        bound = "" if self.bound is None else f"  <= {self.bound * by:.1f} {self.unit}"
        return (f"{self.name:<52} {statistics.median(self.samples):8.2f} {self.unit:<3} "
                f"({low:.2f} to {high:.2f}, n={len(self.samples)}){bound}")


def bench(runs: int, *, cold: bool) -> None:
    """Print what the harness itself costs."""
    machine = setup.embedded()
    scales = yardsticks.measure(machine.image, machine.processors[-1])
    click.echo(scales.line())
    levels = small.of().levels()
    figures = [_first_measurement(level, runs) for level in (levels[0], levels[-1])]
    figures += asyncio.run(_guest_costs(levels[-1], runs))
    for figure in figures:
        click.echo(figure.line(scales.scale))
    if cold:
        click.echo(_cold_build().line(scales.scale))
    else:
        built = image.find()
        assert built is not None
        for part in ("kernel", "root"):
            click.echo(f"{f'build of the {part}, when it was built':<52} "
                       f"{built.manifest[part]['build_s']:8.0f} s")


def _first_measurement(level: str, runs: int) -> BenchLine:
    """Wall time from the command to a repetition's first step, by the record's own stamp."""
    samples = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder:
            begun = time.time()
            subprocess.run([str(ROOT / "qop"), "run", *small.of().arguments([level], 1), "--out",
                            folder], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            [path] = Path(folder, "records").glob("*.json")
            started = contention.began(stored.read(path).raw)
            assert started is not None
            samples.append(started - begun)
    return BenchLine(f"command to first measurement, {level}, image there", samples, "s", 2.0)


async def _guest_costs(level: str, runs: int) -> list[BenchLine]:
    """Fixed cost of a repetition, and what its guest takes of processor and memory."""
    machine = setup.embedded()
    plan = small.of().plan([level], 1, small=False)
    [planned] = plan.testbeds.values()
    [cell] = plan.cells
    task, deadline_s = plan.study.task(cell, plan.asked), plan.study.deadline_s(cell, plan.asked)
    fixed, share, used_memory = [], [], []
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as work:
        testbed = TestbedClient(machine, machine.processors[-1], planned, plan, Path(work))
        try:
            made = secrets.make()
            await testbed.open(made, render.Renderer(made, testbed.work))
            for repetition in range(runs + 1):
                before, begun = processor_s(testbed.pid), time.monotonic()
                out = await testbed.measure(f"bench-{repetition}", task, deadline_s)
                elapsed = time.monotonic() - begun
                if not repetition:
                    continue  # the first one also does what is done once a testbed
                fixed.append(elapsed - _in_stages_s(out, plan.study.stages[1:]))
                share.append(elapsed / (processor_s(testbed.pid) - before))
                used_memory.append(memory_of_group(testbed.pid) / 1e6)
        finally:
            await testbed.close()
    return [BenchLine(f"fixed cost of a repetition, {level}", fixed, "s", 0.4),
            BenchLine("guests measuring side by side before a core is full", share, ""),
            BenchLine(f"memory of a guest, {level}", used_memory, "MB", 200.0)]


def _in_stages_s(out: Path, stages: Sequence[Stage]) -> float:
    """The time that a repetition spent in these stages, by its own stamps."""
    raw = json.loads((out / "raw.json").read_text())
    return sum(end - begin for stage in stages
               for begin, end in contention.windows_of(stage, raw))


def _cold_build() -> BenchLine:
    """Build kernel and root file system into an empty cache."""
    with tempfile.TemporaryDirectory(prefix="qop-cold-") as cache:
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "guest"], cwd=ROOT, check=True,
                       env={**os.environ, "QOP_CACHE": cache})
        return BenchLine("cold build of the guest image", [time.monotonic() - begun], "s",
                         240.0)
