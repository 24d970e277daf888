"""`qop bench paper`: measure a part of the profile 'paper', and project the whole duration."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from bench import small_plans
from bench.machine_speed import MachineSpeeds
from harness.engine import profiles
from harness.engine.machine import ROOT
from harness.engine.progress import format_duration
from studies import records as stored
from topologies.builders import MININET

PROFILE = "paper"
#: Part that is measured: at least this share of the profile's repetitions of every cell.
_TENTH = 0.1
BOUND_MINUTES = 20.0


@dataclass(frozen=True)
class Projection:
    """The projected duration of a whole run, from a measured part of it (times in seconds).

    - `measured`, `planned`: number of repetitions of the part and of the whole run
    - `lasted_s`: duration of the part. Its first half also started the testbeds, which happens
      once.
    - `later`, `later_s`: repetitions and duration of its second half, which is typical of all
      repetitions that are not measured
    - `air_s`: airtime of the part
    """

    measured: int
    planned: int
    lasted_s: float
    later: int
    later_s: float
    air_s: float

    @property
    def total_s(self) -> float:
        """Return the projected duration of the whole run in seconds."""
        return self.lasted_s + (self.planned - self.measured) * self.later_s / self.later

    @property
    def total_air_s(self) -> float:
        """Return the airtime of all repetitions, one after the other, in seconds."""
        return self.air_s * self.planned / self.measured

    def format_lines(self, scale: float = 1.0) -> list[str]:
        """Return the projected duration and its basis as text. `scale` multiplies the bound."""
        each_s = self.later_s / self.later
        return [
            (f"measured: {self.measured} of {self.planned} repetitions in "
             f"{format_duration(self.lasted_s)}, with the start of the testbeds; the last "
             f"{self.later} in {self.later_s:.0f} s, {each_s:.2f} s each"),
            (f"projected: {format_duration(self.total_s)} for all ({self.lasted_s:.0f} s + "
             f"{each_s:.2f} s"
             f" x {self.planned - self.measured})  <= {BOUND_MINUTES * scale:.3g} min"),
            (f"that is {self.total_air_s / self.total_s:.1f} times faster than the air, which is "
             f"busy for {format_duration(self.total_air_s)}")]


def run_bench(scales: MachineSpeeds) -> None:
    """Measure a tenth of the profile paper's repetitions, and print how long all would take.

    Args:
        scales: Speed of this machine, which scales the printed bound of the duration.
    """
    profile = profiles.load_profile(small_plans.make_small_plans().study, PROFILE)
    repetitions = math.ceil(profile.repetitions * _TENTH)
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder:
        begun = time.time()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness", "run", "--profile", PROFILE, "--builder",
             MININET, "--captures", "failed", "--repetitions", str(repetitions), "--out", folder],
            cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        lasted_s = time.time() - begun
        places = list(Path(folder, "records").glob("*.json"))
        records = [stored.read_record(path) for path in places]
        ended = sorted(path.stat().st_mtime for path in places)
    good = [entry for entry in records if entry.status == "ok"]
    later = ended[len(ended) // 2 - 1:]
    projection = Projection(
        measured=len(records), planned=len(records) * profile.repetitions // repetitions,
        lasted_s=lasted_s, later=len(later) - 1, later_s=later[-1] - later[0],
        air_s=sum(entry.elapsed_s for entry in good))
    click.echo(f"{len(good)} of {len(records)} good; exit status of the run {done.returncode}")
    for line in projection.format_lines(scales.scale):
        click.echo(line)
