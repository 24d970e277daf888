"""Predictions, measurements and the bottleneck as data for tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.queueing.answers import find_answer
from analysis.queueing.demands import demands_of
from analysis.queueing.errors import QueueingError
from analysis.queueing.intervals import Interval, exact_interval
from analysis.queueing.network import QueueingNetwork
from analysis.queueing.response import find_response
from analysis.queueing.simulate import simulate_network
from analysis.queueing.solve import solve_network, with_processor_sharing
from analysis.queueing.steady import VISIT_LIMIT, Progress, SteadySimulation
from analysis.queueing.whatif import with_load

#: Kind of a predicted load. `calibrated`: used for calibration. `modelled`: within the measured
#: loads. `extrapolated`: outside of them. `saturated`: above capacity.
Mark = Literal["calibrated", "modelled", "extrapolated", "saturated"]
P95 = 95.0


@dataclass(frozen=True)
class Measurement:
    """The measurement of one load.

    `load` is the number of customers of a closed chain, or the arrivals per second of an open
    chain. `arrivals_s` are the arrival times of an open chain's customers in seconds. They let the
    model use the same arrivals. `calibration` marks points from which the model was made.
    """

    load: float
    response_s: float
    throughput_per_s: float | None = None
    p95_s: float | None = None
    arrivals_s: NDArray[np.float64] | None = None
    calibration: bool = False


@dataclass(frozen=True)
class ComparedValue:
    """A modelled value with the measured value, if there is one.

    A simulated value has an interval. Above saturation there is no modelled value (None).
    """

    modelled: Interval | None
    measured: float | None = None

    @property
    def error(self) -> float | None:
        """Return the relative error of the model: modelled / measured - 1."""
        if self.measured is None or self.modelled is None:
            return None
        return self.modelled.value / self.measured - 1


@dataclass(frozen=True)
class Prediction:
    """The model's values for one load.

    Response times are in seconds, throughput in cycles per second.
    """

    load: float
    mark: Mark
    response_s: ComparedValue
    throughput_per_s: ComparedValue
    p95_s: ComparedValue | None


@dataclass(frozen=True)
class Bottleneck:
    """The station that saturates first, and the load at which it does.

    `saturation_per_s` is the throughput that the other open chains leave at their loads.
    `utilization` is that of the network's own load, computed for processor sharing. It is above 1
    if open chains exceed the capacity. `knee` is the population above which customers must wait for
    each other (asymptotic bounds; infinite for an open chain).
    """

    station: str
    demand_s: float
    utilization: float
    saturation_per_s: float
    knee: float


@dataclass(frozen=True)
class Assessment:
    """A model compared with measurements.

    `worst_error` is the largest error of points that were not used for calibration. `problems`
    explain missing values.
    """

    chain: str
    predictions: tuple[Prediction, ...]
    bottleneck: Bottleneck
    worst_error: float | None
    worst_p95_error: float | None
    problems: tuple[QueueingError, ...] = ()


def find_bottleneck(network: QueueingNetwork, chain: str | None = None) -> Bottleneck:
    """Return the station that limits a chain's throughput.

    Raises:
        QueueingError: The chain visits no queue.
    """
    target = network.chain(chain)
    demands = demands_of(network)
    column = demands.demand_s[:, network.chains.index(target)]
    visited = ~demands.delay & (column > 0)
    if not visited.any():
        raise QueueingError(f"chain {target.name!r}", "visits delays only",
                            "give it a station with a queue")
    others = demands.offered - column * (target.rate_per_s or 0.0)
    room = np.where(visited, (demands.servers - others) / np.where(visited, column, 1.0), np.inf)
    row = int(room.argmin())
    per_server = float(column[row] / demands.servers[row])
    knee = math.inf if target.is_open else float(column.sum() + target.think_s) / per_server
    return Bottleneck(network.stations[row].name, float(column[row]),
                      _find_utilization(network, row),
                      max(0.0, float(room[row])), knee)


def _find_utilization(network: QueueingNetwork, row: int) -> float:
    demands = demands_of(network)
    offered = float(demands.offered[row] / demands.servers[row])
    if demands.find_saturated() or not demands.demand_s[row, demands.population > 0].any():
        return offered
    return solve_network(with_processor_sharing(network)).stations[row].utilization


def assess_model(network: QueueingNetwork, measurements: Sequence[Measurement], *,
                 chain: str | None = None, loads: Iterable[float] = (),
                 rng: np.random.Generator | None = None, visit_limit: int = VISIT_LIMIT,
                 progress: Progress | None = None) -> Assessment:
    """Return predictions for every measured load and for further loads.

    Quantities without an exact solution are simulated. Measurements with `arrivals_s` are simulated
    with those arrivals. Loads above saturation have no prediction.

    Args:
        network: The network.
        measurements: The measured loads.
        chain: Name of the chain; None for the only chain.
        loads: Further loads, which follow the measured ones.
        rng: The source of random numbers, needed for simulation.
        visit_limit: Largest number of simulated visits per load.
        progress: Receives the progress of the simulation.

    Raises:
        QueueingError: A simulation has no `rng`, or the chain visits no queue.
    """
    target = network.chain(chain).name
    modelling = _Modelling(network, target, rng, visit_limit, progress)
    span = [point.load for point in measurements]
    predictions = [modelling.predict_measurement(point) for point in measurements]
    for load in loads:
        inside = bool(span) and min(span) <= load <= max(span)
        response, throughput = modelling.find_means(load)
        mark: Mark = ("saturated" if throughput is None else
                      "modelled" if inside else "extrapolated")
        predictions.append(Prediction(load, mark, ComparedValue(response),
                                      ComparedValue(throughput), None))
    judged = [entry for entry in predictions if entry.mark == "modelled"]
    return Assessment(
        chain=target, predictions=tuple(predictions), bottleneck=find_bottleneck(network, target),
        worst_error=_worst_error(entry.response_s for entry in judged),
        worst_p95_error=_worst_error(entry.p95_s for entry in judged),
        problems=tuple(modelling.problems))


class _Modelling:
    """The model's values for a chain at given loads."""

    def __init__(self, network: QueueingNetwork, chain: str, rng: np.random.Generator | None,
                 visit_limit: int, progress: Progress | None) -> None:
        self.network, self.chain, self.rng = network, chain, rng
        self.visit_limit, self.progress = visit_limit, progress
        self.problems: list[QueueingError] = []

    def find_means(self, load: float) -> tuple[Interval | None, Interval | None]:
        """Return response time and throughput, None where there is no steady state."""
        answer = find_answer(with_load(self.network, self.chain, load), self.rng,
                             visit_limit=self.visit_limit, progress=self.progress)
        found = answer.chain(self.chain)
        if found.response_s is None:
            self.problems += [QueueingError(f"load {load:g}: {each.where}", each.what, each.advice)
                              for each in answer.problems]
        return found.response_s, found.throughput_per_s

    def predict_measurement(self, point: Measurement) -> Prediction:
        """Return the prediction for a measured load."""
        p95: Interval | None = None
        if point.arrivals_s is None:
            response, throughput = self.find_means(point.load)
            if point.p95_s is not None and response is not None:
                p95 = self._find_percentile(point.load)
        else:
            loaded = with_load(self.network, self.chain, point.load)
            run = simulate_network(loaded, self._require_generator(point.load),
                                   arrivals_s={self.chain: point.arrivals_s}).chain(self.chain)
            response, throughput = run.mean(), exact_interval(run.throughput_per_s)
            p95 = run.percentile(P95)
        mark: Mark = ("saturated" if throughput is None else
                      "calibrated" if point.calibration else "modelled")
        return Prediction(
            load=point.load, mark=mark, response_s=ComparedValue(response, point.response_s),
            throughput_per_s=ComparedValue(throughput, point.throughput_per_s),
            p95_s=None if p95 is None else ComparedValue(p95, point.p95_s))

    def _require_generator(self, load: float) -> np.random.Generator:
        if self.rng is None:
            raise QueueingError(f"load {load:g}", "percentiles are simulated", "pass an rng")
        return self.rng

    def _find_percentile(self, load: float) -> Interval | None:
        loaded = with_load(self.network, self.chain, load)
        found = find_response(loaded, loaded.chain(self.chain))
        if found is not None:
            return exact_interval(found.percentile(P95))
        run = SteadySimulation(loaded, self._require_generator(load), limit=self.visit_limit,
                               progress=self.progress)
        run.run_until_narrow(lambda run: run.is_narrow(self.chain, P95))
        if run.is_known(self.chain, P95):
            return run.percentile(self.chain, P95)
        self.problems.append(QueueingError(
            f"load {load:g}: chain {self.chain!r}", f"{run.visited:.2g} simulated visits cannot "
            "tell its 95th percentile", "leave p95_s out, or lower the load"))
        return None


def _worst_error(entries: Iterable[ComparedValue | None]) -> float | None:
    errors = [entry.error for entry in entries if entry is not None and entry.error is not None]
    return max(errors, key=abs, default=None)
