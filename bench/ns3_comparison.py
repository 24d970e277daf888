"""Compare the emulated air with models and with results of the simulator ns-3.

There are two comparisons. `compare_with_ns3` is about stations that send to one receiver, outside
of a guest. The other is about a sender through its access point, with two hops: `format_two_hops`
outside of a guest, and `compare_two_hops` in guests.

ns-3's results come from runs of some seconds, so they vary at random. The size of that error is
taken from the spread of runs of the same length here.

Near saturation 1 % more load means 10 % more delay, and a run's load cannot be set exactly. So runs
here have from 1 % less to 1 % more load (`SPREAD`). A parabola through their delays gives the delay
at the load that ns-3 really had.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import dcf
from bench.dcf import Saturation
from bench.medium_trial import (
    MediumTrial,
    RatioLine,
    make_one_cell_network,
    make_overload,
    repeat_trial,
)
from guest import boot, image
from topologies.loader import load_medium
from topologies.medium_model import Medium

# --- Two hops through one access point, outside of guests and in guests ---
# The access point's relay queue fills as fast as it empties, because access point and sender get
# equal turns. So the queue is empty at times, and it carries a little less than half of what two
# saturated senders get. ns-3 says how much less. The queue length drifts slowly, which makes the
# random error large: a count takes `FRAMES` frames, and each run has another seed.

#: Number of relayed frames of a count: its standard error is then 0.3 %.
FRAMES = 20_000
SEEDS = range(1, 17)
PROFILES = ("802.11b-long", "802.11b-short", "802.11g")
REAL, REAL_S = "802.11b-short", 30.0


@dataclass(frozen=True)
class TwoHopAnswers:
    """The results of ns-3 for one setup of two hops, by seed.

    `row` is one of them, for the settings.
    """

    row: Mapping[str, Any]
    per_s: tuple[float, ...]

    @property
    def mean_per_s(self) -> float:
        """Return the mean number of frames per second at the receiver, over all seeds of ns-3."""
        return float(np.mean(self.per_s))

    @property
    def error(self) -> float:
        """Return the standard error of the mean, as a fraction of the mean."""
        return float(np.std(self.per_s, ddof=1) / len(self.per_s) ** 0.5 / self.mean_per_s)


def read_two_hop_answers() -> list[TwoHopAnswers]:
    """Return the results of ns-3 for two hops, by setup, each with several seeds."""
    return [TwoHopAnswers(rows[0], tuple(row["delivered_per_s"] for row in rows))
            for rows in dcf.read_ns3_runs(hops=2)]


def run_two_hops(program: Path, row: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Run a setup of two hops outside of guests and return its results.

    `relayed_per_s` are the frames per second at the receiver.
    """
    result = dcf.run_dcf_program(program, {
        **dcf.make_frame_settings(dcf.to_ns3_medium(row), row["payload_bytes"]),
        "stations": 2,
        "relays": 1,
        "seconds": 2 * FRAMES / row["delivered_per_s"], "seed": seed})
    return {**result, "relayed_per_s": result["each_per_s"][0]}


def format_two_hops(program: Path) -> Iterator[str]:
    """Yield the lines of a table: result here, of ns-3, and their ratio with its error."""
    yield (f"{'two hops outside of a guest':<32} {'here':>8} {'ns-3':>8}   "
           "collided: here, ns-3; here / ns-3")
    for cell in read_two_hop_answers():
        runs = [run_two_hops(program, cell.row, seed) for seed in SEEDS]
        relayed = np.array([run["relayed_per_s"] for run in runs])
        error = float(np.hypot(relayed.std(ddof=1) / len(runs) ** 0.5 / relayed.mean(), cell.error))
        collided = np.mean([run["collision_share"] for run in runs])
        yield (f"{cell.row['medium']}, {cell.row['payload_bytes']} bytes".ljust(32)
               + f" {relayed.mean():8.1f} {cell.mean_per_s:8.1f}   {collided:.4f} "
               f"{cell.row['collision_share']:.4f}   {relayed.mean() / cell.mean_per_s:.4f} "
               f"\N{PLUS-MINUS SIGN} {error:.4f}")


async def compare_two_hops(name: str, runs: int, built: image.GuestImage,
                           processor: int) -> list[RatioLine]:
    """Compare a saturated sender through its access point with ns-3, in guests, on one medium."""
    cells = _answers_for(name)
    samples = await _compare_with_ns3(cells, max(FRAMES / cell.mean_per_s for cell in cells), runs,
                                      built, processor, "virtual")
    return [RatioLine(f"{name}, UDP {cell.row['payload_bytes']} bytes, two hops / ns-3", sample,
                      0.99, 1.01) for cell, sample in zip(cells, samples, strict=True)]


async def compare_two_hops_in_real_time(runs: int, built: image.GuestImage,
                                        processor: int) -> list[RatioLine]:
    """Compare two hops with ns-3 in real time, where a late machine reduces the goodput."""
    [sample] = await _compare_with_ns3(_answers_for(REAL)[:1], REAL_S, runs, built, processor,
                                       "real")
    return [RatioLine(f"{REAL}, in real time, two hops / ns-3", sample, 0.98, 1.02)]


def _answers_for(name: str) -> list[TwoHopAnswers]:
    return [cell for cell in read_two_hop_answers() if cell.row["medium"] == name]


async def _compare_with_ns3(cells: list[TwoHopAnswers], seconds: float, runs: int,
                            built: image.GuestImage,
                            processor: int, clock: boot.Clock) -> list[list[float]]:
    """Return the goodput in guests as a fraction of ns-3's, for each setup, on ns-3's medium."""
    medium = dcf.to_ns3_medium(cells[0].row)
    trial = MediumTrial(make_one_cell_network(), medium, [
        [make_overload(medium, "a1", "a2", cell.row["payload_bytes"])] for cell in cells],
        seconds=seconds)
    outcomes = await repeat_trial(trial, runs, built, processor, clock)
    return [[outcome.goodput_bps[number][0] / 8 / cell.row["payload_bytes"] / cell.mean_per_s
             for outcome in outcomes] for number, cell in enumerate(cells)]


# --- Stations that send to one receiver, outside of guests ---

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
class Ns3Comparison:
    """A value here and in ns-3, with half of the 95 % interval of ns-3's value.

    The interval is for the mean of as many runs as ns-3 made, of the same length.
    """

    here: float
    ns3: float
    within: float

    @property
    def apart(self) -> float:
        """Return by what fraction the value here differs from ns-3's."""
        return self.here / self.ns3 - 1

    @property
    def chance(self) -> float:
        """Return half of ns-3's confidence interval as a fraction of ns-3's value."""
        return self.within / self.ns3


def compare_with_ns3(program: Path, row: Mapping[str, Any]) -> dict[str, Ns3Comparison]:
    """Compare the emulated air with ns-3 in one setup, in runs of equal length.

    Returns the compared values by name.
    """
    settings = {**dcf.make_frame_settings(dcf.to_ns3_medium(row),
                                          row["payload_bytes"]),
                "stations": row["stations"], "seconds": row["seconds"] / (1 - _WARM_UP)}
    # All frames arrive, so stations generate them at the rate that ns-3's stations had.
    gap_ns = row["stations"] / row["delivered_per_s"] * 1e9 if row["load"] else 0.0
    runs = [dcf.run_dcf_program(program,
                                {**settings, "seed": seed, "gap_ns": gap_ns * share})
            for seed, share in enumerate(np.linspace(1 - SPREAD, 1 + SPREAD, RUNS), 1)]
    loads = np.array([run["delivered_per_s"] for run in runs])
    answers, within = {}, _NEARLY_ALL / row["runs"] ** 0.5
    for name in (*SATURATED, *DELAYS) if row["load"] else SATURATED:
        values = np.array([run[name] for run in runs])
        if row.get(name) and name in DELAYS:
            off = loads - row["delivered_per_s"]
            curve = np.polyfit(off, values, 2)
            strays = np.sqrt(((values - np.polyval(curve, off)) ** 2).sum() / (RUNS - 3))
            answers[name] = Ns3Comparison(float(curve[-1]), row[name], float(within * strays))
        elif row.get(name):
            answers[name] = Ns3Comparison(float(values.mean()), row[name],
                                          float(within * values.std(ddof=1)))
    return answers


def solve_model(medium: Medium, payload_bytes: int, stations: int) -> Saturation:
    """Return the throughput of saturated stations by a model.

    It is exact for two stations, else Bianchi's model. Two stations are least independent.
    """
    return dcf.solve_saturated(medium, payload_bytes) if stations == 2 else \
        dcf.solve_bianchi(medium, payload_bytes, stations)


def format_comparison() -> Iterator[str]:
    """Yield the lines of a table: result here, of the model, and of ns-3 with its error."""
    if not shutil.which("cc"):
        yield "No C compiler here, so the guest's air does not run outside of it."
        return
    with tempfile.TemporaryDirectory(prefix="qop-dcf-") as folder:
        program = dcf.compile_dcf_program(Path(folder))
        like_ns3 = dcf.compile_dcf_program(Path(folder), like_ns3=True)
        yield (f"{'outside of a guest':<32} {'here':>8} {'model':>8} {'ns-3':>8}   "
               "collided: here, model, ns-3; fairness in a second: here, ns-3")
        rows = dcf.read_ns3_answers()
        yield from (_saturation_line(row, program) for row in rows if not row["load"])
        yield (f"{'delays, us':<32} {'here':>8} {'as ns-3':>8} {'ns-3':>8}   "
               "99th percentile: here, as ns-3 draws backoffs, ns-3")
        yield from (_delay_line(row, program, like_ns3) for row in rows if row["load"])
        yield from format_two_hops(program)
        yield f"{'lone frame, us':<32} {'here':>8} {'preamble and bits':>18}"
        yield from (_single_frame_line(name, program) for name
                    in dict.fromkeys(row["medium"] for row in rows))


def _saturation_line(row: Mapping[str, Any], program: Path) -> str:
    compared, should = compare_with_ns3(program, row), solve_model(
        dcf.to_ns3_medium(row), row["payload_bytes"], row["stations"])
    frames, jain = compared["delivered_per_s"], compared.get("jain_1s")
    line = (f"{_row_label(row):<32} {frames.here:8.1f} {should.delivered_per_s:8.1f} "
            f"{frames.ns3:8.1f} \N{PLUS-MINUS SIGN} {frames.chance:.1%}")
    if collided := compared.get("collision_share"):
        line += (f"   {collided.here:.4f} {should.collision_share:.4f} {collided.ns3:.4f} "
                 f"\N{PLUS-MINUS SIGN} {collided.chance:.1%}")
    return line + (f"   {jain.here:.4f} {jain.ns3:.4f}" if jain and row["stations"] > 1 else "")


def _delay_line(row: Mapping[str, Any], program: Path, like_ns3: Path) -> str:
    here, alike = compare_with_ns3(program, row), compare_with_ns3(like_ns3, row)
    name = f"{_row_label(row)}, load {row['load']}"
    return f"{name:<32} " + "   ".join(
        f"{here[delay].here:8.0f} {alike[delay].here:8.0f} {here[delay].ns3:8.0f} "
        f"\N{PLUS-MINUS SIGN} {here[delay].chance:.1%} (here {here[delay].apart:+.1%})"
        for delay in DELAYS)


def _single_frame_line(name: str, program: Path) -> str:
    """Return a table line about a frame on a nearly idle channel, where it never waits."""
    medium = load_medium(name)
    own = dcf.make_frame_settings(medium, _LONE_BYTES)
    result = dcf.run_dcf_program(program,
                                 {**own, "stations": 1, "gap_ns": 1e9, "seconds": 2000})
    return (f"{name}, {_LONE_BYTES} bytes".ljust(32)
            + f" {result['delay_mean_us']:8.1f} {own['frame_ns'] / 1e3:18.1f}")


def _row_label(row: Mapping[str, Any]) -> str:
    return f"{row['medium']}, {row['stations']} of {row['payload_bytes']} bytes"
