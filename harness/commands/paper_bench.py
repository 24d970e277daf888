"""`qop bench paper`: how long the paper's whole matrix takes in virtual time, from a part of it."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from harness import profiles
from harness.machine import ROOT
from harness.progress import lasting
from measure import record
from topologies.builders import MININET

PROFILE = "paper"
#: The part that is measured: repetitions of every cell, at least a tenth of the profile's.
_TENTH = 0.1
BOUND_MINUTES = 40.0


@dataclass(frozen=True)
class Projection:
    """What a part of a run says of the whole; times in seconds.

    Starting up happens once, everything else with every repetition.
    """

    measured: int
    planned: int
    start_s: float
    lasted_s: float
    air_s: float

    @property
    def total_s(self) -> float:
        """The whole run."""
        return self.start_s + (self.lasted_s - self.start_s) * self.planned / self.measured

    @property
    def total_air_s(self) -> float:
        """How long the same repetitions keep the air busy, one after the other."""
        return self.air_s * self.planned / self.measured

    def lines(self) -> list[str]:
        """The projection with its basis, as printed."""
        minutes, running_s = f"{BOUND_MINUTES:g} min", self.lasted_s - self.start_s
        return [
            (f"measured: {self.measured} of {self.planned} repetitions in "
             f"{lasting(self.lasted_s)}, {self.start_s:.0f} s of it before the first was done; "
             f"they took {lasting(self.air_s)} of virtual time"),
            (f"projected: {lasting(self.total_s)} for all ({self.start_s:.0f} s + {running_s:.0f} s"
             f" x {self.planned}/{self.measured})  <= {minutes}"),
            (f"that is {self.total_air_s / self.total_s:.1f} times faster than the air "
             f"({lasting(self.total_air_s)})  >= 35")]


def bench() -> None:
    """Measure every cell in virtual time as often as makes a tenth, and print the projection."""
    profile = profiles.load(PROFILE)
    repetitions = math.ceil(profile.repetitions * _TENTH)
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder:
        begun = time.time()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness", "run", "--profile", PROFILE, "--clock",
             "virtual", "--builder", MININET, "--captures", "failed", "--repetitions",
             str(repetitions), "--out", folder],
            cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        lasted_s = time.time() - begun
        places = list(Path(folder, "records").glob("*.json"))
        records = [record.read(path) for path in places]
        first_s = min(path.stat().st_mtime for path in places) - begun
    good = [found for found in records if found.status == "ok"]
    found = Projection(len(records), len(records) * profile.repetitions // repetitions, first_s,
                       lasted_s, sum(found.elapsed_s for found in good))
    click.echo(f"{len(good)} of {len(records)} good; exit status of the run {done.returncode}")
    for line in found.lines():
        click.echo(line)
