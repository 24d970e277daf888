"""Solution of a network: means by chain, station and class.

Equations (B.7) to (B.10) of Harbitter and Menascé (2002) convert results for chains to classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from analysis.queueing import exact, linearizer, mixed, schweitzer
from analysis.queueing.demands import (
    ChainSolution,
    Demands,
    check_product_form,
    demands_of,
    has_product_form,
)
from analysis.queueing.errors import QueueingError, choose_from
from analysis.queueing.network import QueueingNetwork

Method = Literal["auto", "exact", "schweitzer", "linearizer"]
#: Largest number of computed values for an exact solution by `auto`; it takes about a second.
EXACT_LIMIT = 4_000_000


@dataclass(frozen=True)
class ChainMeans:
    """Means of a chain: cycles per second, and seconds per cycle without the think time."""

    name: str
    throughput_per_s: float
    response_s: float


@dataclass(frozen=True)
class StationMeans:
    """Means of a station: utilization, and number of customers present.

    For delay, the utilization is the number of customers present. `demand_s` and `residence_s` have
    each chain's seconds per cycle, in the network's order.
    """

    name: str
    utilization: float
    queue: float
    demand_s: tuple[float, ...]
    residence_s: tuple[float, ...]


@dataclass(frozen=True)
class ClassMeans:
    """Means of a class at a station.

    Throughput is in visits per second, residence in seconds per visit including waiting. `queue` is
    the number of customers of the class at the station.
    """

    chain: str
    name: str
    station: str
    throughput_per_s: float
    residence_s: float
    queue: float


@dataclass(frozen=True)
class Solution:
    """Means of a network, with the method: "exact" or the name of an approximation."""

    method: str
    chains: tuple[ChainMeans, ...]
    stations: tuple[StationMeans, ...]
    classes: tuple[ClassMeans, ...]

    def chain(self, name: str | None = None) -> ChainMeans:
        """Return a chain's means by its name, or those of the first chain.

        Raises:
            QueueingError: There is no such chain.
        """
        for means in self.chains:
            if name is None or means.name == name:
                return means
        raise QueueingError(f"chain {name!r}", "is not in this solution",
                            choose_from(str(name), (means.name for means in self.chains)))

    def station(self, name: str) -> StationMeans:
        """Return a station's means by its name.

        Raises:
            QueueingError: There is no such station.
        """
        for means in self.stations:
            if means.name == name:
                return means
        raise QueueingError(f"station {name!r}", "is not in this solution",
                            choose_from(name, (means.name for means in self.stations)))


def solve_network(network: QueueingNetwork, method: Method = "auto") -> Solution:
    """Return the means of a network.

    The method `auto` is exact while that takes about a second, and the Linearizer beyond.

    Raises:
        QueueingError: Open traffic is above capacity, a station has no product form, or an exact
            solution does not fit in memory.
    """
    check_product_form(network)
    demands = demands_of(network)
    chosen = _choose_solver(demands, method)
    solution = _METHODS[chosen](demands)
    return Solution(method=chosen, chains=_chain_means(network, demands, solution),
                    stations=_station_means(network, demands, solution),
                    classes=tuple(_class_means(network, demands, solution)))


def means_of(network: QueueingNetwork, method: Method = "auto") -> dict[str, ChainMeans]:
    """Return only the means of each chain, which is faster than `solve_network` for many what-ifs.

    Raises:
        QueueingError: In the same cases as `solve_network`.
    """
    check_product_form(network)
    demands = demands_of(network)
    solution = _METHODS[_choose_solver(demands, method)](demands)
    return {means.name: means for means in _chain_means(network, demands, solution)}


def choose_method(network: QueueingNetwork) -> str:
    """Return the method for a network's means: exact, linearizer or simulation.

    The Linearizer stays within about 2 % for single servers. With several servers its error was up
    to 16 %, so large networks with several servers are simulated.
    """
    if not has_product_form(network):
        return "simulation"
    demands = demands_of(network)
    method = _choose_solver(demands, "auto")
    several = (demands.servers > 1) & ~demands.delay
    visited = (demands.demand_s[:, demands.population > 0] > 0).any(axis=1)
    return "simulation" if method == "linearizer" and (several & visited).any() else method


def with_processor_sharing(network: QueueingNetwork) -> QueueingNetwork:
    """Return the network with processor sharing instead of FCFS and priorities.

    The new network saturates at the same loads, and has a product form with any service times.
    """
    return replace(network, stations=tuple(
        replace(station, discipline="ps") if station.discipline in ("fcfs", "priority") else station
        for station in network.stations))


_METHODS = {"exact": mixed.solve_exact, "schweitzer": schweitzer.solve_schweitzer,
            "linearizer": linearizer.solve_linearizer}


def _choose_solver(demands: Demands, method: str) -> str:
    if method not in get_args(Method):
        raise QueueingError(f"method {method!r}", "is unknown",
                            choose_from(method, get_args(Method)))
    if method != "auto":
        return method
    if exact.count_states(demands.population) > EXACT_LIMIT:
        return "linearizer"
    demands.check_stable()
    model = mixed.closed_model(demands)
    size = exact.count_computed_values(model) if len(
        demands.population) == 1 else exact.count_stored_values(model)
    return "exact" if size <= EXACT_LIMIT else "linearizer"


def _chain_means(network: QueueingNetwork, demands: Demands,
                 solution: ChainSolution) -> tuple[ChainMeans, ...]:
    response = np.where(demands.population + demands.rate_per_s > 0,
                        solution.residence_s.sum(axis=0), 0.0)
    return tuple(ChainMeans(chain.name, float(solution.throughput_per_s[q]), float(response[q]))
                 for q, chain in enumerate(network.chains))


def _station_means(network: QueueingNetwork, demands: Demands,
                   solution: ChainSolution) -> tuple[StationMeans, ...]:
    busy = demands.demand_s @ solution.throughput_per_s
    queue = solution.queue.sum(axis=1)
    return tuple(StationMeans(
        name=station.name,
        utilization=float(busy[i] if demands.delay[i] else busy[i] / demands.servers[i]),
        queue=float(queue[i]), demand_s=tuple(map(float, demands.demand_s[i])),
        residence_s=tuple(map(float, solution.residence_s[i])))
        for i, station in enumerate(network.stations))


def _class_means(network: QueueingNetwork, demands: Demands,
                 solution: ChainSolution) -> Iterator[ClassMeans]:
    for q, chain in enumerate(network.chains):
        flow = float(solution.throughput_per_s[q])
        for member in chain.classes:
            for visit in member.visits:
                row = network.index[visit.station]
                demand = float(demands.demand_s[row, q])
                # (B.8): the service times of all classes are multiplied by 1 + L_i(n - 1_q).
                stretch = float(solution.residence_s[row, q]) / demand if demand else 1.0
                rate = flow * chain.share(member) * visit.visits                     # (B.9)
                residence = visit.service_s * stretch
                yield ClassMeans(chain.name, member.name, visit.station, rate, residence,
                                 rate * residence)                                   # (B.10)
