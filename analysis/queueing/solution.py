"""Compute mean response times and utilizations of a queueing network, or simulate them.

`solve_network` needs a product form and returns means by chain (kind of transaction), station
(server) and class (step). `estimate_network` accepts any network, and simulates it if necessary. If
open chains (transactions that arrive from outside) bring more work than a station can serve, the
station has no steady state. Chains that visit it, or use a queue together with such a chain, have
no means. The means of all other chains are still given. The terms are those of
`analysis.queueing.network`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from analysis.queueing import approximation, mean_value_analysis
from analysis.queueing.intervals import Interval, exact_interval
from analysis.queueing.network import (
    Chain,
    ChainSolution,
    Demands,
    QueueingError,
    QueueingNetwork,
    check_product_form,
    demands_of,
    has_product_form,
    suggest_word,
)
from analysis.queueing.response import find_means, find_response
from analysis.queueing.steady_state import VISIT_LIMIT, Progress, SteadySimulation

# --- Solution of a network with a product form ---
# Equations (B.7) to (B.10) of Harbitter and Menascé (2002) convert results for chains to classes.

Method = Literal["auto", "exact", "schweitzer", "linearizer"]
#: Largest number of computed values for an exact solution by `auto`; it takes about a second.
EXACT_LIMIT = 4_000_000


@dataclass(frozen=True)
class ChainMeans:
    """The means of a kind of transaction (chain): throughput per second, and duration in s.

    The think time is not included.
    """

    name: str
    throughput_per_s: float
    response_s: float


@dataclass(frozen=True)
class StationMeans:
    """The means of a station (server): utilization, and number of customers (transactions) present.

    For a delay station (without a queue), the utilization is the number of customers present.
    `demand_s` and `residence_s` have each chain's seconds per cycle, in the network's order:
    `demand_s` without waiting, `residence_s` with it.
    """

    name: str
    utilization: float
    queue: float
    demand_s: tuple[float, ...]
    residence_s: tuple[float, ...]


@dataclass(frozen=True)
class ClassMeans:
    """The means of a class (step of a transaction) at a station (server).

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
    """All means of a queueing network, and the method: "exact" or an approximation's name."""

    method: str
    chains: tuple[ChainMeans, ...]
    stations: tuple[StationMeans, ...]
    classes: tuple[ClassMeans, ...]

    def chain(self, name: str | None = None) -> ChainMeans:
        """Return the means of a chain by its name, or of the first chain.

        Raises:
            QueueingError: There is no such chain.
        """
        for means in self.chains:
            if name is None or means.name == name:
                return means
        raise QueueingError(f"chain {name!r}", "is not in this solution",
                            suggest_word(str(name), (means.name for means in self.chains)))

    def station(self, name: str) -> StationMeans:
        """Return the means of a station (server) by its name.

        Raises:
            QueueingError: There is no such station.
        """
        for means in self.stations:
            if means.name == name:
                return means
        raise QueueingError(f"station {name!r}", "is not in this solution",
                            suggest_word(name, (means.name for means in self.stations)))


def solve_network(network: QueueingNetwork, method: Method = "auto") -> Solution:
    """Compute the means of a queueing network without simulation.

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


def find_chain_means(network: QueueingNetwork, method: Method = "auto") -> dict[str, ChainMeans]:
    """Return only the means of each chain, which is faster than `solve_network`.

    This is for many what-if questions. A chain is a kind of transaction. `method` is that of
    `solve_network`.

    Raises:
        QueueingError: In the same cases as `solve_network`.
    """
    check_product_form(network)
    demands = demands_of(network)
    solution = _METHODS[_choose_solver(demands, method)](demands)
    return {means.name: means for means in _chain_means(network, demands, solution)}


def choose_method(network: QueueingNetwork) -> str:
    """Return the best method for a queueing network's means: exact, linearizer or simulation.

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
    """Return a queueing network with processor sharing in place of FCFS and priorities.

    The new network saturates at the same loads, and has a product form with any service times.
    """
    return replace(network, stations=tuple(
        replace(station, discipline="ps") if station.discipline in ("fcfs", "priority") else station
        for station in network.stations))


_METHODS = {"exact": mean_value_analysis.solve_exact, "schweitzer": approximation.solve_schweitzer,
            "linearizer": approximation.solve_linearizer}


def _choose_solver(demands: Demands, method: str) -> str:
    """Return "exact" or "linearizer" for a method of the user, which may be "auto"."""
    if method not in get_args(Method):
        raise QueueingError(f"method {method!r}", "is unknown",
                            suggest_word(method, get_args(Method)))
    if method != "auto":
        return method
    if mean_value_analysis.count_states(demands.population) > EXACT_LIMIT:
        return "linearizer"
    demands.check_stable()
    model = mean_value_analysis.closed_model(demands)
    size = mean_value_analysis.count_computed_values(model) if len(
        demands.population) == 1 else mean_value_analysis.count_stored_values(model)
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
    """Yield the means of each class at each queueing station (equations B.8 to B.10)."""
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


# --- Estimate of any network, simulated if necessary ---

#: Names of the methods that give means.
EXACT, APPROXIMATE = "exact", "approximate, by the Linearizer"
POLLACZEK_KHINCHINE = "exact (Pollaczek-Khinchine)"
SIMULATED = "simulated, with 95 % intervals"


@dataclass(frozen=True)
class ChainEstimate:
    """The estimated means of a kind of transaction (chain): throughput per second, duration in s.

    Unknown means are None.
    """

    name: str
    throughput_per_s: Interval | None
    response_s: Interval | None


@dataclass(frozen=True)
class StationEstimate:
    """The estimated means of a station (server) over all chains.

    `demand_s` is the work per cycle, and `residence_s` includes waiting. `utilization` is the
    fraction of time in use.
    """

    name: str
    demand_s: float
    utilization: Interval | None
    residence_s: Interval | None


@dataclass(frozen=True)
class NetworkEstimate:
    """The estimated means of a queueing network, with methods and reasons for missing means."""

    methods: tuple[str, ...]
    chains: tuple[ChainEstimate, ...]
    stations: tuple[StationEstimate, ...]
    problems: tuple[QueueingError, ...] = ()

    def chain(self, name: str) -> ChainEstimate:
        """Return the estimated means of a chain by its name."""
        return next(each for each in self.chains if each.name == name)


def estimate_network(network: QueueingNetwork, rng: np.random.Generator | None = None, *,
                     visit_limit: int = VISIT_LIMIT,
                     progress: Progress | None = None) -> NetworkEstimate:
    """Return the means of any queueing network, simulated if they cannot be computed.

    A simulation ends after `visit_limit` visits at the latest, and reports to `progress`.

    Raises:
        QueueingError: The network has to be simulated, and there is no `rng`.
    """
    problems = demands_of(network).find_saturated()
    blocked = _blocked_chains(network, [row for row, _ in problems])
    stable = [chain for chain in network.chains if chain.name not in blocked]
    stable_answer = (
        _solve_stable(replace(network, chains=tuple(stable)), rng, visit_limit, progress)
        if stable else NetworkEstimate((), (), ()))
    chains = {each.name: each for each in stable_answer.chains}
    for chain in network.chains:
        if chain.name in blocked:
            chains[chain.name] = _blocked_answer(network, chain)
    methods = stable_answer.methods or ((POLLACZEK_KHINCHINE,) if any(
        each.response_s for each in chains.values()) else ())
    return NetworkEstimate(
        methods, tuple(chains[chain.name] for chain in network.chains),
        tuple(_station_answers(network, blocked, stable_answer.stations)),
        (*(problem for _, problem in problems), *stable_answer.problems))


def _blocked_chains(network: QueueingNetwork, saturated: Sequence[int]) -> set[str]:
    """Return the kinds of transactions without a steady state, due to a saturated station.

    They visit such a station, or use a queue together with transactions that do.
    """
    demands = demands_of(network)
    visits = (demands.demand_s > 0) & ~demands.delay[:, None]
    rows = set(saturated)
    while True:
        columns = {column for row in rows for column in np.flatnonzero(visits[row])}
        further = {int(row) for column in columns for row in np.flatnonzero(visits[:, column])}
        if further <= rows:
            return {network.chains[column].name for column in columns}
        rows |= further


def _blocked_answer(network: QueueingNetwork, chain: Chain) -> ChainEstimate:
    """Return the means of an urgent kind of transaction, which no other one affects.

    The others have no means.
    """
    response = find_response(network, chain) if chain.is_open else None
    if response is None:
        return ChainEstimate(chain.name, None, None)
    return ChainEstimate(chain.name, exact_interval(chain.rate_per_s or 0.0),
                         exact_interval(response.mean_s))


def _station_answers(network: QueueingNetwork, blocked: set[str],
                     solved: Sequence[StationEstimate]) -> list[StationEstimate]:
    """Return the means of all stations (servers) of a network in which some are overloaded.

    A station that a blocked kind of transaction visits has no steady state, so its means are None.
    There are two exceptions: an overloaded station has the utilization 1, and the means of a
    station without a queue are known.

    Args:
        network: The network.
        blocked: Names of the chains (kinds of transactions) that visit an overloaded station.
        solved: The means of a network without the blocked chains. They are valid at stations that
            no blocked chain visits.
    """
    known = {each.name: each for each in solved}
    demands = demands_of(network)
    columns = [number for number, chain in enumerate(network.chains) if chain.name in blocked]
    stations = []
    for row, station in enumerate(network.stations):
        demand_s = float(demands.demand_s[row].sum())
        if station.name in known and not demands.demand_s[row, columns].any():
            stations.append(known[station.name])
        elif station.discipline == "delay":
            stations.append(StationEstimate(station.name, demand_s, None, exact_interval(demand_s)))
        else:
            offered = float(demands.offered[row]) / station.servers
            stations.append(StationEstimate(station.name, demand_s,
                                            exact_interval(1.0) if offered >= 1 else None, None))
    return stations


def _solve_stable(network: QueueingNetwork, rng: np.random.Generator | None, visit_limit: int,
                  progress: Progress | None) -> NetworkEstimate:
    """Return the means of a network that no arrival rate overloads, by the best method for it."""
    method = choose_method(network)
    if method != "simulation":
        return _from_solution(solve_network(network, "exact" if method == "exact"
                                            else "linearizer"))
    means = None if has_product_form(network) else find_means(network)
    if means is not None:
        return _from_means(network, means)
    if rng is None:
        raise QueueingError("network", "has to be simulated", "pass an rng")
    return _simulate_answer(network, rng, visit_limit, progress)


def _from_solution(solution: Solution) -> NetworkEstimate:
    return NetworkEstimate(
        (EXACT if solution.method == "exact" else APPROXIMATE,),
        tuple(ChainEstimate(each.name, exact_interval(each.throughput_per_s),
                            exact_interval(each.response_s))
              for each in solution.chains),
        tuple(StationEstimate(each.name, sum(each.demand_s), exact_interval(each.utilization),
                              exact_interval(sum(each.residence_s))) for each in solution.stations))


def _from_means(network: QueueingNetwork, means: dict[tuple[int, str], float]) -> NetworkEstimate:
    """Return the estimate of a network from the mean residence times of each station and chain."""
    demands = demands_of(network)
    chains = tuple(ChainEstimate(chain.name, exact_interval(chain.rate_per_s or 0.0),
                                 exact_interval(
        sum(mean_s for (_, name), mean_s in means.items() if name == chain.name)))
        for chain in network.chains)
    stations = tuple(StationEstimate(
        station.name, float(demands.demand_s[row].sum()),
        exact_interval(float(demands.offered[row]) / (
            1 if station.discipline == "delay" else station.servers)),
        exact_interval(sum(mean_s for (place, _), mean_s in means.items() if place == row)))
        for row, station in enumerate(network.stations))
    return NetworkEstimate((POLLACZEK_KHINCHINE,), chains, stations)


def _simulate_answer(network: QueueingNetwork, rng: np.random.Generator, visit_limit: int,
                     progress: Progress | None) -> NetworkEstimate:
    """Simulate a network until its means are known well enough, and return them."""
    run = SteadySimulation(network, rng, limit=visit_limit, progress=progress)
    run.run_until_narrow(lambda run: all(run.is_narrow(chain.name) for chain in network.chains))
    chains, problems = [], []
    for column, chain in enumerate(network.chains):
        throughput = (exact_interval(chain.rate_per_s or 0.0) if chain.is_open
                      else run.throughput_per_s(column) if run.is_settled else None)
        known = run.is_known(chain.name)
        chains.append(ChainEstimate(chain.name, throughput, run.mean(chain.name) if known
                                    else None))
        if not known:
            problems.append(_unknown_error(network, chain, run))
    return NetworkEstimate((SIMULATED,), tuple(chains), tuple(
        _simulated_station(network, row, run) for row in range(len(network.stations))),
        tuple(problems))


def _unknown_error(network: QueueingNetwork, chain: Chain, run: SteadySimulation) -> QueueingError:
    demands = demands_of(network)
    busy = np.where(demands.delay, 0.0, demands.offered / demands.servers)
    row = int(busy.argmax())
    why = (f", since {network.stations[row].name} is {busy[row]:.1%} busy" if busy[row] else "")
    return QueueingError(
        f"chain {chain.name!r}", f"{run.visited:.2g} simulated visits cannot tell its response "
        f"time{why}", "lower the load, or give its stations exponential service or discipline ps")


def _simulated_station(network: QueueingNetwork, row: int,
                       run: SteadySimulation) -> StationEstimate:
    """Return the means of a queueing station from a simulation, exact ones where they are known."""
    station, demands = network.stations[row], demands_of(network)
    demand_s = float(demands.demand_s[row].sum())
    is_delay = station.discipline == "delay"
    busy: Interval | None = None
    if is_delay or not demands.demand_s[row, demands.population > 0].any():
        busy = exact_interval(float(demands.offered[row]) / (1 if is_delay else station.servers))
    elif run.is_settled:
        servers = run.busy_servers(row)
        busy = Interval(*(each / station.servers for each in (
            servers.value, servers.low, servers.high)))
    residence = exact_interval(demand_s) if is_delay else (
        run.residence_s(row) if run.is_settled else None)
    return StationEstimate(station.name, demand_s, busy, residence)
