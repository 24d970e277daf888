"""Predict response times under load with a queueing network, and compare with measurements.

`assess_model` takes a network, such as that of a RADIUS server, and measurements at several loads.
It returns the model's response times and throughput next to the measured values. `find_bottleneck`
returns the station (server) that saturates first. `calibrate_network` changes a network so that it
matches two measurements: one customer (transaction) alone, and saturation. The terms are those of
`analysis.queueing.network`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.queueing.intervals import Interval, exact_interval
from analysis.queueing.network import (
    CustomerClass,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
    demands_of,
)
from analysis.queueing.response import find_response
from analysis.queueing.simulation import simulate_network
from analysis.queueing.solution import estimate_network, solve_network, with_processor_sharing
from analysis.queueing.steady_state import VISIT_LIMIT, Progress, SteadySimulation
from analysis.queueing.what_if import apply_settings, with_load

# --- Bottleneck, and predictions for measured loads ---

#: Kind of a predicted load. `calibrated`: used for calibration. `modelled`: within the measured
#: loads. `extrapolated`: outside of them. `saturated`: above capacity.
Mark = Literal["calibrated", "modelled", "extrapolated", "saturated"]
P95 = 95.0


@dataclass(frozen=True)
class Measurement:
    """A measured response time and throughput at one load.

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
    """A value of the model next to the measured value, if there is one.

    A simulated value has an interval. Above saturation there is no modelled value (None).
    """

    modelled: Interval | None
    measured: float | None = None

    @property
    def error(self) -> float | None:
        """Return the relative error of the model's value: modelled / measured - 1."""
        if self.measured is None or self.modelled is None:
            return None
        return self.modelled.value / self.measured - 1


@dataclass(frozen=True)
class Prediction:
    """The response times and the throughput that a model predicts for one load.

    Response times are in seconds, throughput in cycles (transactions) per second.
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
    if open chains exceed the capacity. `knee` is the number of customers above which they must wait
    for each other (asymptotic bounds; infinite for an open chain).
    """

    station: str
    demand_s: float
    utilization: float
    saturation_per_s: float
    knee: float


@dataclass(frozen=True)
class Assessment:
    """A comparison of a model's predictions with measurements.

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
    """Return the station that limits the throughput of a kind of transaction.

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
    """Return a model's predictions for every measured load and for further loads.

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
    modelling = _ChainModel(network, target, rng, visit_limit, progress)
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


class _ChainModel:
    """A queueing model of one chain (kind of transaction), evaluated at given loads."""

    def __init__(self, network: QueueingNetwork, chain: str, rng: np.random.Generator | None,
                 visit_limit: int, progress: Progress | None) -> None:
        self.network, self.chain, self.rng = network, chain, rng
        self.visit_limit, self.progress = visit_limit, progress
        self.problems: list[QueueingError] = []

    def find_means(self, load: float) -> tuple[Interval | None, Interval | None]:
        """Return response time and throughput at a load, None where there is no steady state."""
        answer = estimate_network(with_load(self.network, self.chain, load), self.rng,
                                  visit_limit=self.visit_limit, progress=self.progress)
        found = answer.chain(self.chain)
        if found.response_s is None:
            self.problems += [QueueingError(f"load {load:g}: {each.where}", each.what, each.advice)
                              for each in answer.problems]
        return found.response_s, found.throughput_per_s

    def predict_measurement(self, point: Measurement) -> Prediction:
        """Return the model's prediction for the load of a measurement."""
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
        response = find_response(loaded, loaded.chain(self.chain))
        if response is not None:
            return exact_interval(response.percentile(P95))
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


# --- Calibration from two measurements: one customer alone, and saturation ---
# As in Harbitter and Menascé (2002, section 4.2), service times come from an unloaded testbed. The
# demand at the bottleneck follows from the utilization law at saturation, D = c / X (Lazowska et
# al. 1984, 3.3). All other points are then predictions.

#: Name of the station and class for the time that no other station explains.
REST_STATION = "rest"


def calibrate_network(network: QueueingNetwork, *, alone_s: float, saturation_per_s: float,
                      chain: str | None = None, station: str | None = None) -> QueueingNetwork:
    """Return a queueing network changed to match the response time of one customer and saturation.

    The speed of `station` is changed so that it saturates at the measured throughput. The part of
    `alone_s` that is then missing becomes a constant delay, the station "rest".

    Args:
        network: The network.
        alone_s: Response time of a single customer, in seconds.
        saturation_per_s: Highest throughput of the chain, in cycles per second.
        chain: Name of the chain; None for the only chain.
        station: Name of the station to change; None for the bottleneck.

    Raises:
        QueueingError: The two measurements contradict each other or the network.
    """
    for name, value in (("alone_s", alone_s), ("saturation_per_s", saturation_per_s)):
        if not value > 0:
            raise QueueingError("calibration", f"{name} is {value:g}", "give more than 0")
    target = network.chain(chain)
    limit = find_bottleneck(network, target.name) if station is None else None
    name = station or (limit.station if limit else "")
    row, column = network.station(name), network.chains.index(target)
    demand = float(demands_of(network).demand_s[network.index[name], column])
    if row.discipline == "delay" or demand == 0:
        raise QueueingError(f"station {name!r}", "cannot be the bottleneck of the chain",
                            "name a queueing station that it visits")
    measured_s = row.servers / saturation_per_s
    scaled = apply_settings(network, {f"{name}.speed": demand / measured_s})
    rest_s = alone_s - float(demands_of(scaled).demand_s[:, column].sum())
    if rest_s < -1e-9 * alone_s:
        raise QueueingError(
            "calibration", f"one customer takes {alone_s:g} s, but its demands add up to "
            f"{alone_s - rest_s:g} s with {measured_s:g} s at {name} (from saturation)",
            "check both measurements, and the demands of the other stations")
    return scaled if rest_s <= 1e-9 * alone_s else _add_rest_station(scaled, target.name, rest_s)


def _add_rest_station(network: QueueingNetwork, chain: str, rest_s: float) -> QueueingNetwork:
    if REST_STATION in network.index:
        raise QueueingError(f"station {REST_STATION!r}", "is what calibration adds", "rename it")
    member = CustomerClass(REST_STATION, (Visit(REST_STATION, rest_s),))
    return QueueingNetwork(
        stations=(*network.stations, QueueingStation(REST_STATION, "delay")),
        chains=tuple(replace(entry, classes=(*entry.classes, member)) if entry.name == chain
                     else entry for entry in network.chains))
