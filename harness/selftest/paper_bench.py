"""`qop bench paper`: project the paper profile's duration with the default clock from a part."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from harness.engine import profiles
from harness.engine.machine import ROOT
from harness.engine.progress import duration_text
from harness.selftest import small
from harness.selftest.yardsticks import Yardsticks
from studies import records as stored
from topologies.builders import MININET

PROFILE = "paper"
#: Part that is measured: at least this share of the profile's repetitions of every cell.
_TENTH = 0.1
BOUND_MINUTES = 20.0


@dataclass(frozen=True)
class Projection:
    """The projected duration of a whole run from a part of it. Times are in seconds.

    The first half of the part also started the testbeds, which happens once. The second half,
    `later` repetitions in `later_s`, is typical of all repetitions that are not measured.
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
        """Return the airtime in seconds of all repetitions, one after the other."""
        return self.air_s * self.planned / self.measured

    def format_lines(self, scale: float = 1.0) -> list[str]:
        """Return the projection and its basis as printed. `scale` multiplies the bound."""
        each_s = self.later_s / self.later
        return [
            (f"measured: {self.measured} of {self.planned} repetitions in "
             f"{duration_text(self.lasted_s)}, with the start of the testbeds; the last "
             f"{self.later} in "
             f"{self.later_s:.0f} s, {each_s:.2f} s each"),
            (f"projected: {duration_text(self.total_s)} for all ({self.lasted_s:.0f} s + "
             f"{each_s:.2f} s"
             f" x {self.planned - self.measured})  <= {BOUND_MINUTES * scale:.3g} min"),
            (f"that is {self.total_air_s / self.total_s:.1f} times faster than the air, which is "
             f"busy for {duration_text(self.total_air_s)}")]


def run_bench(scales: Yardsticks) -> None:
    """Measure a tenth of the repetitions of every cell, and print the projection."""
    profile = profiles.load_profile(small.small_plans().study, PROFILE)
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
