"""Two hops through one access point, in ns-3 and in the guest's medium.

The medium runs outside of guests, and in guests.

The access point's relay queue fills as fast as it empties, because access point and sender get
equal turns. So the queue is empty at times, and it carries a little less than half of what two
saturated senders get. ns-3 says how much less. The queue length drifts slowly, which makes the
random error large: a count takes `FRAMES` frames, and each run has another seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from guest import boot, image
from harness.selftest import contention
from harness.selftest.medium_trial import MediumTrial, Ratio, make_overload, one_cell, repeat_trial

#: Number of relayed frames of a count: its standard error is then 0.3 %.
FRAMES = 20_000
SEEDS = range(1, 17)
PROFILES = ("802.11b-long", "802.11b-short", "802.11g")
REAL, REAL_S = "802.11b-short", 30.0


@dataclass(frozen=True)
class TwoHops:
    """Answers of ns-3 for a cell, by seed. `row` is one of them, for the settings."""

    row: Mapping[str, Any]
    per_s: tuple[float, ...]

    @property
    def mean_per_s(self) -> float:
        """Return the mean of the frames in a second at the receiver, over all seeds."""
        return float(np.mean(self.per_s))

    @property
    def error(self) -> float:
        """Return the standard error of the mean, as a share of the mean."""
        return float(np.std(self.per_s, ddof=1) / len(self.per_s) ** 0.5 / self.mean_per_s)


def read_answers() -> list[TwoHops]:
    """Return ns-3's answers by cell, each with several seeds."""
    return [TwoHops(rows[0], tuple(row["delivered_per_s"] for row in rows))
            for rows in contention.ns3_runs(hops=2)]


def run_outside(program: Path, row: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Run a cell outside of guests. `relayed_per_s` are the frames in a second at the receiver."""
    said = contention.run_trial(program, {
        **contention.frame_settings(contention.as_ns3(row), row["payload_bytes"]), "stations": 2,
        "relays": 1,
        "seconds": 2 * FRAMES / row["delivered_per_s"], "seed": seed})
    return {**said, "relayed_per_s": said["each_per_s"][0]}


def format_lines(program: Path) -> Iterator[str]:
    """Yield the lines of the table: here, ns-3, and their ratio with its standard error."""
    yield (f"{'two hops outside of a guest':<32} {'here':>8} {'ns-3':>8}   "
           "in vain: here, ns-3; here / ns-3")
    for cell in read_answers():
        runs = [run_outside(program, cell.row, seed) for seed in SEEDS]
        relayed = np.array([run["relayed_per_s"] for run in runs])
        error = float(np.hypot(relayed.std(ddof=1) / len(runs) ** 0.5 / relayed.mean(), cell.error))
        vain = np.mean([run["collision_share"] for run in runs])
        yield (f"{cell.row['medium']}, {cell.row['payload_bytes']} bytes".ljust(32)
               + f" {relayed.mean():8.1f} {cell.mean_per_s:8.1f}   {vain:.4f} "
               f"{cell.row['collision_share']:.4f}   {relayed.mean() / cell.mean_per_s:.4f} "
               f"\N{PLUS-MINUS SIGN} {error:.4f}")


async def in_guests(name: str, runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare a saturated sender through its access point with ns-3, in guests, on one medium."""
    cells = _answers_for(name)
    samples = await _compare_with_ns3(cells, max(FRAMES / cell.mean_per_s for cell in cells), runs,
                                      built, processor, "virtual")
    return [Ratio(f"{name}, UDP {cell.row['payload_bytes']} bytes, two hops / ns-3", sample,
                  0.99, 1.01) for cell, sample in zip(cells, samples, strict=True)]


async def in_real_time(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Compare two hops in real time with ns-3. A late machine reduces the goodput."""
    [sample] = await _compare_with_ns3(_answers_for(REAL)[:1], REAL_S, runs, built, processor,
                                       "real")
    return [Ratio(f"{REAL}, in real time, two hops / ns-3", sample, 0.98, 1.02)]


def _answers_for(name: str) -> list[TwoHops]:
    return [cell for cell in read_answers() if cell.row["medium"] == name]


async def _compare_with_ns3(cells: list[TwoHops], seconds: float, runs: int, built: image.Image,
                            processor: int, clock: boot.Clock) -> list[list[float]]:
    """Return the results of runs in guests as shares of ns-3's, by cell, on ns-3's medium."""
    medium = contention.as_ns3(cells[0].row)
    trial = MediumTrial(one_cell(), medium, [
        [make_overload(medium, "a1", "a2", cell.row["payload_bytes"])] for cell in cells],
        seconds=seconds)
    outcomes = await repeat_trial(trial, runs, built, processor, clock)
    return [[outcome.goodput_bps[number][0] / 8 / cell.row["payload_bytes"] / cell.mean_per_s
             for outcome in outcomes] for number, cell in enumerate(cells)]
