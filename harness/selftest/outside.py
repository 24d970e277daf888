"""Compare the guest's medium, run outside of a guest, with two models and answers of ns-3.

ns-3's answers come from runs of some seconds, so they vary at random. The size of that error is
taken from the spread of runs of the same length here. Near saturation 1 % more load means 10 %
more delay, and a run gets only about the load that it was given. So delays are compared at the
load that ns-3 really had, from a parabola through runs here with slightly more and less load. Runs
that differ only at random would determine its slope badly.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.selftest import contention, two_hops, two_stations
from harness.selftest.contention import Saturation
from topologies.loader import load_medium
from topologies.timing import Medium

RUNS = 16
#: Largest relative deviation of the loads of runs with delays from the middle load.
SPREAD = 0.01
SATURATED = ("delivered_per_s", "collision_share", "jain_1s")
DELAYS = ("delay_mean_us", "delay_p99_us")
#: Share of a trial that is not counted, while queues fill.
_WARM_UP = 0.1
_LONE_BYTES = 64
#: Half width of the 95 % range of a normal distribution, in standard deviations.
_NEARLY_ALL = 1.96


@dataclass(frozen=True)
class BesideNs3:
    """A number here and in ns-3, with half of the 95 % interval of ns-3's value.

    The interval is for the mean of as many runs as ns-3 made, of the same length.
    """

    here: float
    ns3: float
    within: float

    @property
    def apart(self) -> float:
        """Return the relative difference of the value here from ns-3's."""
        return self.here / self.ns3 - 1

    @property
    def chance(self) -> float:
        """Return half of the interval as a share of ns-3's value."""
        return self.within / self.ns3


def compare_with_ns3(program: Path, row: Mapping[str, Any]) -> dict[str, BesideNs3]:
    """Compare a cell with ns-3's answers by name, in runs of equal length."""
    settings = {**contention.frame_settings(contention.as_ns3(row), row["payload_bytes"]),
                "stations": row["stations"], "seconds": row["seconds"] / (1 - _WARM_UP)}
    # All frames arrive, so stations generate them at the rate that ns-3's stations had.
    gap_ns = row["stations"] / row["delivered_per_s"] * 1e9 if row["load"] else 0.0
    runs = [contention.run_trial(program, {**settings, "seed": seed, "gap_ns": gap_ns * share})
            for seed, share in enumerate(np.linspace(1 - SPREAD, 1 + SPREAD, RUNS), 1)]
    loads = np.array([run["delivered_per_s"] for run in runs])
    answers, within = {}, _NEARLY_ALL / row["runs"] ** 0.5
    for name in (*SATURATED, *DELAYS) if row["load"] else SATURATED:
        values = np.array([run[name] for run in runs])
        if row.get(name) and name in DELAYS:
            off = loads - row["delivered_per_s"]
            curve = np.polyfit(off, values, 2)
            strays = np.sqrt(((values - np.polyval(curve, off)) ** 2).sum() / (RUNS - 3))
            answers[name] = BesideNs3(float(curve[-1]), row[name], float(within * strays))
        elif row.get(name):
            answers[name] = BesideNs3(float(values.mean()), row[name],
                                   float(within * values.std(ddof=1)))
    return answers


def solve_model(medium: Medium, payload_bytes: int, stations: int) -> Saturation:
    """Return the model's result: exact for two stations, else by Bianchi's model.

    Two stations are least independent.
    """
    return two_stations.solve_saturated(medium, payload_bytes) if stations == 2 else \
        contention.solve_bianchi(medium, payload_bytes, stations)


def side_by_side() -> Iterator[str]:
    """Yield the lines of the table: here, model, and ns-3 with its random error."""
    if not shutil.which("cc"):
        yield "No C compiler here, so the guest's air does not run outside of it."
        return
    with tempfile.TemporaryDirectory(prefix="qop-dcf-") as folder:
        program = contention.compile_trial(Path(folder))
        like_ns3 = contention.compile_trial(Path(folder), like_ns3=True)
        yield (f"{'outside of a guest':<32} {'here':>8} {'model':>8} {'ns-3':>8}   "
               "in vain: here, model, ns-3; fairness in a second: here, ns-3")
        rows = contention.ns3_answers()
        yield from (_saturation_line(row, program) for row in rows if not row["load"])
        yield (f"{'delays, us':<32} {'here':>8} {'as ns-3':>8} {'ns-3':>8}   "
               "99th percentile: here, as ns-3 draws backoffs, ns-3")
        yield from (_delay_line(row, program, like_ns3) for row in rows if row["load"])
        yield from two_hops.format_lines(program)
        yield f"{'lone frame, us':<32} {'here':>8} {'preamble and bits':>18}"
        yield from (_single_frame_line(name, program) for name
                    in dict.fromkeys(row["medium"] for row in rows))


def _saturation_line(row: Mapping[str, Any], program: Path) -> str:
    said, should = compare_with_ns3(program, row), solve_model(
        contention.as_ns3(row), row["payload_bytes"], row["stations"])
    frames, jain = said["delivered_per_s"], said.get("jain_1s")
    line = (f"{_row_label(row):<32} {frames.here:8.1f} {should.delivered_per_s:8.1f} "
            f"{frames.ns3:8.1f} \N{PLUS-MINUS SIGN} {frames.chance:.1%}")
    if vain := said.get("collision_share"):
        line += (f"   {vain.here:.4f} {should.collision_share:.4f} {vain.ns3:.4f} "
                 f"\N{PLUS-MINUS SIGN} {vain.chance:.1%}")
    return line + (f"   {jain.here:.4f} {jain.ns3:.4f}" if jain and row["stations"] > 1 else "")


def _delay_line(row: Mapping[str, Any], program: Path, like_ns3: Path) -> str:
    here, alike = compare_with_ns3(program, row), compare_with_ns3(like_ns3, row)
    name = f"{_row_label(row)}, load {row['load']}"
    return f"{name:<32} " + "   ".join(
        f"{here[delay].here:8.0f} {alike[delay].here:8.0f} {here[delay].ns3:8.0f} "
        f"\N{PLUS-MINUS SIGN} {here[delay].chance:.1%} (here {here[delay].apart:+.1%})"
        for delay in DELAYS)


def _single_frame_line(name: str, program: Path) -> str:
    """Return a line for a frame on a nearly idle channel, where it never waits."""
    medium = load_medium(name)
    own = contention.frame_settings(medium, _LONE_BYTES)
    said = contention.run_trial(program, {**own, "stations": 1, "gap_ns": 1e9, "seconds": 2000})
    return (f"{name}, {_LONE_BYTES} bytes".ljust(32)
            + f" {said['delay_mean_us']:8.1f} {own['frame_ns'] / 1e3:18.1f}")


def _row_label(row: Mapping[str, Any]) -> str:
    return f"{row['medium']}, {row['stations']} of {row['payload_bytes']} bytes"
