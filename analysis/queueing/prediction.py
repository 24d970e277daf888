"""Predictions beside measurements, and the bottleneck, as plain data for whoever prints them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.queueing.demands import demands_of
from analysis.queueing.errors import QueueingError
from analysis.queueing.intervals import Interval, certain
from analysis.queueing.network import QueueingNetwork
from analysis.queueing.simulate import simulate
from analysis.queueing.solve import sharing, solve
from analysis.queueing.whatif import with_load

#: Used to calibrate; within the loads that were measured; beyond them.
Mark = Literal["calibrated", "modelled", "extrapolated"]
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
    """A modelled value (with an interval if simulated) beside the measured one, if there is one."""

    modelled: Interval
    measured: float | None = None

    @property
    def error(self) -> float | None:
        """Modelled over measured, less one."""
        return None if self.measured is None else self.modelled.value / self.measured - 1


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

    `utilization` is at the network's own load, as if stations shared their processors. `knee` is
    the population from which customers must wait for each other (asymptotic bounds; infinite for
    an open chain).
    """

    station: str
    demand_s: float
    utilization: float
    saturation_per_s: float
    knee: float


@dataclass(frozen=True)
class Assessment:
    """A model against measurements: `worst_error` is the largest of what was not calibrated."""

    chain: str
    predictions: tuple[Prediction, ...]
    bottleneck: Bottleneck
    worst_error: float | None
    worst_p95_error: float | None


def bottleneck(network: QueueingNetwork, chain: str | None = None) -> Bottleneck:
    """The station that limits a chain's throughput; raises QueueingError if it has no queue."""
    target = network.chain(chain)
    demands = demands_of(network)
    column = demands.demand_s[:, network.chains.index(target)]
    per_server = np.where(demands.delay, 0.0, column / demands.servers)
    row = int(per_server.argmax())
    if per_server[row] == 0:
        raise QueueingError(f"chain {target.name!r}", "visits delays only",
                            "give it a station with a queue")
    means = solve(sharing(network)).stations[row]
    knee = math.inf if target.is_open else float(column.sum() + target.think_s) / per_server[row]
    return Bottleneck(network.stations[row].name, float(column[row]), means.utilization,
                      float(1 / per_server[row]), float(knee))


def assess(network: QueueingNetwork, measurements: Sequence[Measurement], *,
           chain: str | None = None, loads: Iterable[float] = (),
           rng: np.random.Generator | None = None,
           completions: int = 20_000) -> Assessment:
    """Predictions for every measured load, and for further `loads`, in the order given.

    Means are computed. Measurements with `p95_s` or `arrivals_s` are simulated, with `completions`
    cycles or on those arrivals, which takes an `rng`. Raises QueueingError as `solve` does.
    """
    target = network.chain(chain).name
    span = [point.load for point in measurements]
    predictions = [_measured(network, target, point, rng, completions) for point in measurements]
    for load in loads:
        inside = bool(span) and min(span) <= load <= max(span)
        response, throughput = _means(network, target, load)
        predictions.append(Prediction(load, "modelled" if inside else "extrapolated",
                                      ComparedValue(response), ComparedValue(throughput), None))
    judged = [entry for entry in predictions if entry.mark == "modelled"]
    return Assessment(
        chain=target, predictions=tuple(predictions), bottleneck=bottleneck(network, target),
        worst_error=_worst(entry.response_s for entry in judged),
        worst_p95_error=_worst(entry.p95_s for entry in judged))


def _measured(network: QueueingNetwork, chain: str, point: Measurement,
              rng: np.random.Generator | None, completions: int) -> Prediction:
    p95: Interval | None = None
    if point.p95_s is None and point.arrivals_s is None:
        response, throughput = _means(network, chain, point.load)
    else:
        if rng is None:
            raise QueueingError(f"load {point.load:g}", "percentiles are simulated", "pass an rng")
        loaded = with_load(network, chain, point.load)
        arrivals = None if point.arrivals_s is None else {chain: point.arrivals_s}
        run = simulate(loaded, rng, completions=completions, arrivals_s=arrivals).chain(chain)
        p95 = run.percentile(P95)
        response, throughput = ((run.mean(), certain(run.throughput_per_s)) if arrivals
                                else _means(network, chain, point.load))
    return Prediction(
        load=point.load, mark="calibrated" if point.calibration else "modelled",
        response_s=ComparedValue(response, point.response_s),
        throughput_per_s=ComparedValue(throughput, point.throughput_per_s),
        p95_s=None if p95 is None else ComparedValue(p95, point.p95_s))


def _means(network: QueueingNetwork, chain: str, load: float) -> tuple[Interval, Interval]:
    means = solve(with_load(network, chain, load)).chain(chain)
    return certain(means.response_s), certain(means.throughput_per_s)


def _worst(entries: Iterable[ComparedValue | None]) -> float | None:
    errors = [entry.error for entry in entries if entry is not None and entry.error is not None]
    return max(errors, key=abs, default=None)
