"""`qop bench`: what the harness itself costs, measured."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from guest import image
from guest.processes import memory_of_group, processor_s
from harness import render, secrets, setup
from harness.machine import ROOT
from harness.plan import Plan, Settings
from harness.testbed import Testbed
from measure import record
from policies import load_all
from topologies.builders import MININET
from topologies.loader import load_medium, load_scenario

_STREAM_BYTES = 1_000_000
#: What else can be measured: the module, and which options it wants.
_OTHERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "medium": ("medium_bench", ("runs",)), "report": ("report_bench", ("records",)),
    "paper": ("paper_bench", ()), "cluster": ("cluster_bench", ("runs",)),
    "faults": ("faults_bench", ("faults", "seed"))}


@dataclass(frozen=True)
class Figure:
    """One line of the benchmark: what, the samples, their unit, and the bound to keep."""

    name: str
    samples: list[float]
    unit: str
    bound: str

    def line(self) -> str:
        """Median and range, as printed."""
        low, high = min(self.samples), max(self.samples)
        return (f"{self.name:<52} {statistics.median(self.samples):8.2f} {self.unit:<3} "
                f"({low:.2f} to {high:.2f}, n={len(self.samples)})  {self.bound}")


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", default="harness", type=click.Choice(["harness", *_OTHERS]))
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50))
@click.option("--cold", is_flag=True, help="Also build the guest image into an empty cache.")
@click.option("--records", default=100_000, show_default=True, type=click.IntRange(60, 10_000_000),
              help="How many records to report on (with `report`).")
@click.option("--faults", default=200, show_default=True, type=click.IntRange(1, 100_000),
              help="How many faults to inject (with `faults`).")
@click.option("--seed", default=1, show_default=True,
              help="Decides which faults come when (with `faults`).")
def command(what: str, cold: bool, **options: int) -> int:
    """Measure the harness itself: start-up, fixed cost, processor and memory of a guest.

    With `medium`, measure the emulated air against what 802.11's timing allows. With `report`, the
    time and memory that the report of a large study takes, whose records are made up. With
    `paper`, a tenth of the paper's matrix in virtual time, and what that says of all of it. With
    `cluster`, one plan with one worker and with two. With `faults`, kill, hang, fill and damage
    whatever a run depends on, and count what it loses. (The last three take minutes each.)

    Medians with ranges. They hold for this machine at this moment; compare within one call.
    """
    if what in _OTHERS:
        module, wanted = _OTHERS[what]
        bench = importlib.import_module(f"harness.commands.{module}").bench
        return int(bench(*(options[name] for name in wanted)) or 0)
    _bench_harness(options["runs"], cold=cold)
    return 0


def _bench_harness(runs: int, *, cold: bool) -> None:
    setup.embedded()
    figures = [_first_measurement(policy, runs) for policy in ("P1", "P12")]
    figures += asyncio.run(_guest_costs(runs))
    for figure in figures:
        click.echo(figure.line())
    if cold:
        click.echo(_cold_build().line())
    else:
        found = image.find()
        assert found is not None
        for part in ("kernel", "root"):
            click.echo(f"{f'build of the {part}, when it was built':<52} "
                       f"{found.manifest[part]['build_s']:8.0f} s")


def _first_measurement(policy: str, runs: int) -> Figure:
    """Wall time from the command to the mobile node's first step, by the record's own stamp."""
    samples = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder:
            begun = time.time()
            subprocess.run([str(ROOT / "qop"), "run", "--scenarios", "N2", "--policies", policy,
                            "--builder", MININET, "--repetitions", "1",
                            "--stream-bytes", "50k", "--out", folder], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            [path] = Path(folder, "records").glob("*.json")
            samples.append(record.read(path).raw["stamps"]["start"] - begun)
    return Figure(f"command to first measurement, {policy}, image there", samples, "s", "<= 5 s")


async def _guest_costs(runs: int) -> list[Figure]:
    """Fixed cost of a repetition of P12, and what its guest takes of processor and memory."""
    machine = setup.embedded()
    policy = next(policy for policy in load_all() if policy.id == "P12")
    settings = Settings(tcp_bytes=_STREAM_BYTES, udp_bytes=_STREAM_BYTES)
    plan = Plan([policy], [load_scenario("N2")], load_medium("802.11b-short"), settings)
    fixed, share, memory = [], [], []
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as work:
        testbed = Testbed(machine, machine.processors[-1], policy, plan.sites[0], plan.medium,
                          settings, Path(work))
        try:
            made = secrets.make()
            await testbed.open(made, render.Renderer(made, testbed.work))
            for repetition in range(runs + 1):
                before, begun = processor_s(testbed.pid), time.monotonic()
                out = await testbed.measure(f"bench-{repetition}", plan.scenarios[0],
                                            settings.streams)
                elapsed = time.monotonic() - begun
                if not repetition:
                    continue  # the first one also checks the closed port, once a testbed
                fixed.append(elapsed - _on_air_s(out))
                share.append(elapsed / (processor_s(testbed.pid) - before))
                memory.append(memory_of_group(testbed.pid) / 1e6)
        finally:
            await testbed.close()
    return [Figure("fixed cost of a repetition, P12", fixed, "s", "<= 2 s"),
            Figure("guests measuring side by side before a core is full", share, "", ""),
            Figure("memory of a guest, P12", memory, "MB", "<= 200 MB")]


def _on_air_s(out: Path) -> float:
    """The time for which the streams kept the air busy, by iperf3's own count."""
    raw = json.loads((out / "raw.json").read_text())
    return sum(float(raw[f"iperf_{protocol}"]["end"]["sum_received"]["seconds"])
               for protocol in ("tcp", "udp"))


def _cold_build() -> Figure:
    """Build kernel and root file system into an empty cache."""
    with tempfile.TemporaryDirectory(prefix="qop-cold-") as cache:
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "guest"], cwd=ROOT, check=True,
                       env={**os.environ, "QOP_CACHE": cache})
        return Figure("cold build of the guest image", [time.monotonic() - begun], "s",
                      "<= 480 s")
