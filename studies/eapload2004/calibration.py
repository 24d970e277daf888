"""Measurements of a server without load, which calibrate the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.cells import Cells, Ids
from analysis.queueing import Visit
from studies.eapload2004.design import ALONE, NOMINAL
from studies.eapload2004.metrics import CAPACITY, ROUND_TRIPS, SERVICE

SERVER = "server"


@dataclass(frozen=True)
class Unloaded:
    """The measurements of the cell without load (s and 1/s).

    A client that finds the server idle takes longer by `warm_up_s`, or by `cooling` after pauses
    (pause, additional time). `steps_s` are the parts of one client alone, generator and server in
    turn, where both share a processor.
    """

    alone_s: float
    capacity_per_s: float
    service_s: float
    cycle_s: float
    round_trips: float
    warm_up_s: float = 0.0
    cooling: tuple[tuple[float, float], ...] = ()
    steps_s: tuple[float, ...] = ()

    @property
    def server_share(self) -> float:
        """Return the server's share of the demand."""
        return sum(self.steps_s[1::2]) / sum(self.steps_s) if self.steps_s else 1.0

    def steps(self) -> tuple[Visit, ...]:
        """Return an authentication's demand as visits, the generator's first.

        Without `steps_s`, the result is one visit.
        """
        demand_s = 1 / self.capacity_per_s
        if not self.steps_s:
            return (Visit(SERVER, demand_s),)
        scale = demand_s / sum(self.steps_s)
        return tuple(Visit(SERVER, step_s * scale, is_urgent=number % 2 == 0)
                     for number, step_s in enumerate(self.steps_s))

    @property
    def rtt_s(self) -> float:
        """Return the nominal round trip between the networks (s)."""
        return float(NOMINAL["rtt"]) / 1e3


def read_unloaded(cells: Cells) -> Unloaded | None:
    """Return the measurements of the cell without load, None if it was not measured."""
    values = [cells.mean_of_any(name, ALONE) for name in (
        "alone_s", CAPACITY.name, SERVICE.name, "cycle_s", ROUND_TRIPS.name)]
    means = [value.estimate.mean for value in values if value is not None]
    if len(means) != len(values):
        return None
    alone_s, capacity, service_s, cycle_s, round_trips = means
    measured = Unloaded(alone_s, capacity, service_s, cycle_s, round_trips)
    return _not_quicker_than_demand(measured) if cells.results.clock == "real" else measured


def _not_quicker_than_demand(measured: Unloaded) -> Unloaded:
    """Raise the time alone to the demand in saturation where it is less.

    In real time, chance can make a client alone appear slightly quicker.
    """
    return replace(measured, alone_s=max(measured.alone_s, 1 / measured.capacity_per_s))


def calibrate_repetition(cells: Cells, place: int, measured: Unloaded) -> Unloaded:
    """Return the calibration of a single repetition in real time, else `measured`.

    It is the mean of the values before and after the repetition's load.
    """
    said = cells.results.samples[place]
    alone_s, demand_s = (_mean_list(said, name) for name in ("alone_s", "saturated_demand_s"))
    if cells.results.clock != "real" or not (alone_s.size and demand_s.size):
        return measured
    there = _not_quicker_than_demand(replace(
        measured, alone_s=float(alone_s[0]), capacity_per_s=1 / float(demand_s[0])))
    rested_s, steps_s, paused_s, rests_s = (
        _mean_list(said, name) for name in ("rested_s", "steps_s", "paused_s", "rests_s"))
    if rested_s.size:
        return replace(there, warm_up_s=max(0.0, float(rested_s[0]) - there.alone_s))
    return replace(
        there, steps_s=tuple(map(float, steps_s)),
        cooling=tuple((float(pause_s), max(0.0, float(took_s) - there.alone_s))
                      for pause_s, took_s in zip(paused_s, rests_s, strict=True)))


def _mean_list(samples: Mapping[str, Sequence[float]], name: str) -> NDArray[np.float64]:
    """Return the mean of a list before and after the load, empty if not measured."""
    lists = [each for when in ("before", "after") if (each := samples.get(f"{name}_{when}"))]
    return np.mean(lists, axis=0) if lists else np.empty(0)


def demand_drift(cells: Cells, row: Ids) -> float | None:
    """Return by which share the server's demand grew from before to after a cell's load."""
    before, after = (cells.mean_of_any(name, row) for name in (
        CAPACITY.name, "capacity_after_per_s"))
    return before.estimate.mean / after.estimate.mean - 1 if before and after else None
