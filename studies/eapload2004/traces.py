"""Arrivals at the server in one repetition, or in several one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.cells import Cells
from studies.eapload2004.design import ALONE, NOMINAL
from studies.eapload2004.metrics import LATENCIES
from studies.eapload2004.samples import first_samples

SERVER, SUPPLICANT = "server", "supplicant"
#: Pause between repetitions that are put one after the other (s), when all customers have left.
_APART_S = 1.0
#: Shorter times at the server are readings of the clock, in virtual time (s).
_SOME_S = 0.0002


@dataclass(frozen=True)
class ArrivalTrace:
    """The arrivals in all repetitions of a cell, one after the other (s).

    `arrivals_s` and `latencies_s` are of the background. `meetings` are of the supplicant: share of
    its demand at the server, and times of the requests. `alongside` is the supplicant's own
    computing before its requests, where it takes the server's processor: duration and times of
    begin. `span_s` is the duration of the load, without the pauses between repetitions.
    """

    arrivals_s: NDArray[np.float64]
    latencies_s: NDArray[np.float64]
    meetings: tuple[tuple[float, NDArray[np.float64]], ...]
    span_s: float
    alongside: tuple[tuple[float, NDArray[np.float64]], ...] = ()


def join_repetitions(cells: Cells, places: Sequence[int]) -> ArrivalTrace:
    """Return the arrivals of repetitions, each starting after the end of the one before.

    `places` are the indices of the repetitions in the results.
    """
    samples = [cells.results.samples[place] for place in places]
    parts = _demand_shares(cells, samples)
    every, begins_s, span_s = [(np.empty(0),) * (2 + len(parts))], 0.0, 0.0
    for each in samples:
        arrivals, latencies, *meetings = (np.asarray(each[name], dtype=np.float64) for name in (
            "arrivals_s", LATENCIES.name, *parts))
        every.append((begins_s + arrivals, latencies, *(
            begins_s + np.sort(instants) for instants in meetings)))
        if arrivals.size:
            span_s += float(np.ptp(arrivals))
        begins_s += float(max([*(arrivals + latencies), *np.concatenate(meetings)],
                              default=0.0)) + _APART_S
    arrivals, latencies, *meetings = map(np.concatenate, zip(*every, strict=True))
    return ArrivalTrace(arrivals, latencies, tuple(zip(parts.values(), meetings, strict=True)),
                        span_s, _supplicant_work(cells, dict(zip(parts, meetings, strict=True))))


def _supplicant_work(cells: Cells, request_times: Mapping[str, NDArray[np.float64]],
                     ) -> tuple[tuple[float, NDArray[np.float64]], ...]:
    """Return the supplicant's own computing before its requests, in real time only.

    A guest has one processor for all nodes, so the server's customers wait for it, unless a device
    takes their time. Each part is as long as without load. It ends when its request is sent.
    """
    charged = cells.mean_of_any("demand_s", ALONE)
    if cells.results.clock != "real" or (charged and charged.estimate.mean):
        return ()
    taken_s = first_samples(cells, ALONE).get(f"demand_{SUPPLICANT}_s", ())
    way_s = float(NOMINAL["rtt"]) / 2e3
    begun = [(seconds, request_times[name] - way_s - seconds) for number, seconds
             in enumerate(taken_s)
             if (name := f"asked_{number}_s") in request_times]
    return tuple((seconds, instants[instants >= 0]) for seconds, instants in begun
                 if (instants >= 0).any())


def _demand_shares(cells: Cells,
                   samples: Sequence[Mapping[str, Sequence[float]]]) -> Mapping[str, float]:
    """Return the lists with times of the supplicant's requests, by share of its demand.

    The shares are those of the cell without load. Without the times of each request, there is one
    list: the times of the longest request, with all of the demand.
    """
    taken_s = first_samples(cells, ALONE).get(f"demand_{SERVER}_s", ())
    longer_s = {f"asked_{number}_s": seconds for number, seconds in enumerate(taken_s)
                if seconds > _SOME_S}
    if not longer_s or any(name not in each for each in samples for name in longer_s):
        return {"meetings_s": 1.0}
    return {name: seconds / sum(longer_s.values()) for name, seconds in longer_s.items()}
