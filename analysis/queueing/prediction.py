"""Predictions beside measurements, and the bottleneck, as plain data for whoever prints them."""

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
from analysis.queueing.intervals import Interval, certain
from analysis.queueing.network import QueueingNetwork
from analysis.queueing.response import find_response
from analysis.queueing.simulate import simulate
from analysis.queueing.solve import sharing, solve
from analysis.queueing.steady import VISIT_LIMIT, Progress, SteadySimulation
from analysis.queueing.whatif import with_load

#: Used to calibrate; within the loads that were measured; beyond them; beyond what can be served.
Mark = Literal["calibrated", "modelled", "extrapolated", "saturated"]
P95 = 95.0


@dataclass(frozen=True)
class Measurement:
    """One measured load: customers of a closed chain, or those arriving a second at an open one.

    `arrivals_s`, the instants in seconds at which an open chain's customers came, lets the model
    be compared on the same arrivals. `calibration` marks points that the model was made from.
    """

    load: float
    response_s: float
    throughput_per_s: float | None = None
    p95_s: float | None = None
    arrivals_s: NDArray[np.float64] | None = None
    calibration: bool = False


@dataclass(frozen=True)
class ComparedValue:
    """A modelled value (with an interval if simulated) beside the measured one, if there is one.

    Beyond saturation nothing is modelled (None).
    """

    modelled: Interval | None
    measured: float | None = None

    @property
    def error(self) -> float | None:
        """Modelled over measured, less one."""
        if self.measured is None or self.modelled is None:
            return None
        return self.modelled.value / self.measured - 1


@dataclass(frozen=True)
class Prediction:
    """What the model says of one load: response times in seconds, throughput in cycles a second."""

    load: float
    mark: Mark
    response_s: ComparedValue
    throughput_per_s: ComparedValue
    p95_s: ComparedValue | None


@dataclass(frozen=True)
class Bottleneck:
    """The station that saturates first, and where.

    `saturation_per_s` is what the other open chains leave of it at their loads. `utilization` is at
    the network's own load, as if stations shared their processors; above 1 where open chains bring
    more than can be served. `knee` is the population from which customers must wait for each other
    (asymptotic bounds; infinite for an open chain).
    """

    station: str
    demand_s: float
    utilization: float
    saturation_per_s: float
    knee: float


@dataclass(frozen=True)
class Assessment:
    """A model against measurements: `worst_error` is the largest of what was not calibrated.

    `problems` say why values are missing.
    """

    chain: str
    predictions: tuple[Prediction, ...]
    bottleneck: Bottleneck
    worst_error: float | None
    worst_p95_error: float | None
    problems: tuple[QueueingError, ...] = ()


def bottleneck(network: QueueingNetwork, chain: str | None = None) -> Bottleneck:
    """The station that limits a chain's throughput; raises QueueingError if it has no queue."""
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
    return Bottleneck(network.stations[row].name, float(column[row]), _utilization(network, row),
                      max(0.0, float(room[row])), knee)


def _utilization(network: QueueingNetwork, row: int) -> float:
    demands = demands_of(network)
    offered = float(demands.offered[row] / demands.servers[row])
    if demands.find_saturated() or not demands.demand_s[row, demands.population > 0].any():
        return offered
    return solve(sharing(network)).stations[row].utilization


def assess(network: QueueingNetwork, measurements: Sequence[Measurement], *,
           chain: str | None = None, loads: Iterable[float] = (),
           rng: np.random.Generator | None = None, visit_limit: int = VISIT_LIMIT,
           progress: Progress | None = None) -> Assessment:
    """Predictions for every measured load, and for further `loads`, in the order given.

    What is not known exactly is simulated, with up to `visit_limit` visits, and so are measurements
    with `arrivals_s`, on those arrivals; both take an `rng`. A load beyond saturation has no
    prediction. Raises QueueingError where there is none.
    """
    target = network.chain(chain).name
    modelling = _Modelling(network, target, rng, visit_limit, progress)
    span = [point.load for point in measurements]
    predictions = [modelling.of_measurement(point) for point in measurements]
    for load in loads:
        inside = bool(span) and min(span) <= load <= max(span)
        response, throughput = modelling.means(load)
        mark: Mark = ("saturated" if throughput is None else
                      "modelled" if inside else "extrapolated")
        predictions.append(Prediction(load, mark, ComparedValue(response),
                                      ComparedValue(throughput), None))
    judged = [entry for entry in predictions if entry.mark == "modelled"]
    return Assessment(
        chain=target, predictions=tuple(predictions), bottleneck=bottleneck(network, target),
        worst_error=_worst(entry.response_s for entry in judged),
        worst_p95_error=_worst(entry.p95_s for entry in judged),
        problems=tuple(modelling.problems))


class _Modelling:
    """What the model says of a chain at one load after the other."""

    def __init__(self, network: QueueingNetwork, chain: str, rng: np.random.Generator | None,
                 visit_limit: int, progress: Progress | None) -> None:
        self.network, self.chain, self.rng = network, chain, rng
        self.visit_limit, self.progress = visit_limit, progress
        self.problems: list[QueueingError] = []

    def means(self, load: float) -> tuple[Interval | None, Interval | None]:
        """Return response time and throughput; None where there is no steady state."""
        answer = find_answer(with_load(self.network, self.chain, load), self.rng,
                             visit_limit=self.visit_limit, progress=self.progress)
        found = answer.chain(self.chain)
        if found.response_s is None:
            self.problems += [QueueingError(f"load {load:g}: {each.where}", each.what, each.advice)
                              for each in answer.problems]
        return found.response_s, found.throughput_per_s

    def of_measurement(self, point: Measurement) -> Prediction:
        """Return the prediction for a measured load."""
        p95: Interval | None = None
        if point.arrivals_s is None:
            response, throughput = self.means(point.load)
            if point.p95_s is not None and response is not None:
                p95 = self._percentile(point.load)
        else:
            loaded = with_load(self.network, self.chain, point.load)
            run = simulate(loaded, self._numbers(point.load),
                           arrivals_s={self.chain: point.arrivals_s}).chain(self.chain)
            response, throughput = run.mean(), certain(run.throughput_per_s)
            p95 = run.percentile(P95)
        mark: Mark = ("saturated" if throughput is None else
                      "calibrated" if point.calibration else "modelled")
        return Prediction(
            load=point.load, mark=mark, response_s=ComparedValue(response, point.response_s),
            throughput_per_s=ComparedValue(throughput, point.throughput_per_s),
            p95_s=None if p95 is None else ComparedValue(p95, point.p95_s))

    def _numbers(self, load: float) -> np.random.Generator:
        if self.rng is None:
            raise QueueingError(f"load {load:g}", "percentiles are simulated", "pass an rng")
        return self.rng

    def _percentile(self, load: float) -> Interval | None:
        loaded = with_load(self.network, self.chain, load)
        found = find_response(loaded, loaded.chain(self.chain))
        if found is not None:
            return certain(found.percentile(P95))
        run = SteadySimulation(loaded, self._numbers(load), limit=self.visit_limit,
                               progress=self.progress)
        run.go_on(lambda run: run.is_narrow(self.chain, P95))
        if run.is_known(self.chain, P95):
            return run.percentile(self.chain, P95)
        self.problems.append(QueueingError(
            f"load {load:g}: chain {self.chain!r}", f"{run.visited:.2g} simulated visits cannot "
            "tell its 95th percentile", "leave p95_s out, or lower the load"))
        return None


def _worst(entries: Iterable[ComparedValue | None]) -> float | None:
    errors = [entry.error for entry in entries if entry is not None and entry.error is not None]
    return max(errors, key=abs, default=None)
