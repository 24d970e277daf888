"""`qop bench quick`: time how long a newcomer's first run takes, from command to report.

The run is `./qop run` without further choices: the default study with its profile `quick`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click

from bench.machine_speed import MachineSpeeds
from guest.boot import Clock
from harness.engine.machine import ROOT
from studies import records as stored
from topologies.builders import MININET

#: Longest accepted duration of the run in seconds. It is for two quiet cores with an existing
#: image, on the reference machine of `bench.machine_speed`.
BOUND_S = 210.0


@dataclass(frozen=True)
class QuickRun:
    """A complete run: its number of repetitions by status, and its duration in seconds."""

    statuses: Counter[str]
    lasted_s: float

    def format_lines(self, scale: float) -> list[str]:
        """Return lines with the records by status, and with the run's duration and its limit.

        Args:
            scale: How many times as long as the reference machine this machine takes. It
                multiplies the limit, `BOUND_S`.
        """
        return [
            ", ".join(f"{number} {status}" for status, number in sorted(self.statuses.items())),
            f"quick profile: {self.lasted_s:.0f} s  <= {BOUND_S * scale:.0f} s"]


def run_bench(clock: Clock, scales: MachineSpeeds) -> int:
    """Measure the profile in a temporary folder, print its duration, and return the status.

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
