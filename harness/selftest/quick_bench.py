"""`qop bench quick`: time the default study's default profile, from command to report."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click

from guest.boot import Clock
from harness.engine.machine import ROOT
from harness.selftest.yardsticks import Yardsticks
from studies import records as stored
from topologies.builders import MININET

#: Bound in seconds on two quiet cores with an existing image, on the yardsticks' reference
#: machine.
BOUND_S = 210.0


@dataclass(frozen=True)
class QuickRun:
    """A whole run: its repetitions by status, and its duration in seconds."""

    statuses: Counter[str]
    lasted_s: float

    def format_lines(self, scale: float) -> list[str]:
        """Return the run and its bound as printed. `scale` multiplies the bound."""
        return [
            ", ".join(f"{number} {status}" for status, number in sorted(self.statuses.items())),
            f"quick profile: {self.lasted_s:.0f} s  <= {BOUND_S * scale:.0f} s"]


def run_bench(clock: Clock, scales: Yardsticks) -> int:
    """Run the profile in a temporary folder and print its duration. Return the run's exit status.

    The exit status is 0 only if all is proven.
    """
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder:
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness", "run", "--clock", clock, "--builder", MININET,
             "--out", folder], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        lasted_s = time.monotonic() - begun
        statuses = Counter(str(stored.read_record(path).status)
                           for path in Path(folder, "records").glob("*.json"))
    if not statuses:
        return done.returncode
    for line in QuickRun(statuses, lasted_s).format_lines(scales.scale):
        click.echo(line)
    return done.returncode
