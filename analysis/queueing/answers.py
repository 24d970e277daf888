"""Means of any network, computed where known and simulated with intervals elsewhere.

If open chains bring more work than a station can serve, the station has no steady state. Chains
that visit it, or share a queue with such a chain, have no means. The means of all other chains are
still given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.queueing.demands import demands_of, has_product_form
from analysis.queueing.errors import QueueingError
from analysis.queueing.intervals import Interval, exact_interval
from analysis.queueing.network import Chain, QueueingNetwork
from analysis.queueing.response import find_means, find_response
from analysis.queueing.solve import Solution, choose_method, solve_network
from analysis.queueing.steady import VISIT_LIMIT, Progress, SteadySimulation

#: Names of the methods that give means.
EXACT, APPROXIMATE = "exact", "approximate, by the Linearizer"
POLLACZEK_KHINCHINE = "exact (Pollaczek-Khinchine)"
SIMULATED = "simulated, with 95 % intervals"


@dataclass(frozen=True)
class ChainAnswer:
    """Means of a chain: cycles per second and seconds per cycle, None if unknown."""

    name: str
    throughput_per_s: Interval | None
    response_s: Interval | None


@dataclass(frozen=True)
class StationAnswer:
    """Means of a station over all chains.

    `demand_s` is the work per cycle, and `residence_s` includes waiting. `utilization` is the share
    of time in use.
    """

    name: str
    demand_s: float
    utilization: Interval | None
    residence_s: Interval | None


@dataclass(frozen=True)
class NetworkAnswer:
    """Means of a network, with the methods and the reasons for missing means."""

    methods: tuple[str, ...]
    chains: tuple[ChainAnswer, ...]
    stations: tuple[StationAnswer, ...]
    problems: tuple[QueueingError, ...] = ()

    def chain(self, name: str) -> ChainAnswer:
        """Return a chain's answer by its name."""
        return next(each for each in self.chains if each.name == name)


def find_answer(network: QueueingNetwork, rng: np.random.Generator | None = None, *,
                visit_limit: int = VISIT_LIMIT,
                progress: Progress | None = None) -> NetworkAnswer:
    """Return the means of a network.

    Raises:
        QueueingError: The network has to be simulated, and there is no `rng`.
    """
    problems = demands_of(network).find_saturated()
    blocked = _blocked_chains(network, [row for row, _ in problems])
    stable = [chain for chain in network.chains if chain.name not in blocked]
    found = (_solve_stable(replace(network, chains=tuple(stable)), rng, visit_limit, progress)
             if stable else NetworkAnswer((), (), ()))
    chains = {each.name: each for each in found.chains}
    for chain in network.chains:
        if chain.name in blocked:
            chains[chain.name] = _blocked_answer(network, chain)
    methods = found.methods or ((POLLACZEK_KHINCHINE,) if any(
        each.response_s for each in chains.values()) else ())
    return NetworkAnswer(
        methods, tuple(chains[chain.name] for chain in network.chains),
        tuple(_station_answers(network, blocked, found.stations)),
        (*(problem for _, problem in problems), *found.problems))


def _blocked_chains(network: QueueingNetwork, saturated: Sequence[int]) -> set[str]:
    """Return the chains that a saturated station blocks.

    They visit such a station, or share a queue with a chain that does.
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


def _blocked_answer(network: QueueingNetwork, chain: Chain) -> ChainAnswer:
    """Return the means of an urgent chain that other chains do not affect.

    Other chains have no means.
    """
    found = find_response(network, chain) if chain.is_open else None
    if found is None:
        return ChainAnswer(chain.name, None, None)
    return ChainAnswer(chain.name, exact_interval(chain.rate_per_s or 0.0),
                       exact_interval(found.mean_s))


def _station_answers(network: QueueingNetwork, blocked: set[str],
                     solved: Sequence[StationAnswer]) -> list[StationAnswer]:
    known = {each.name: each for each in solved}
    demands = demands_of(network)
    columns = [number for number, chain in enumerate(network.chains) if chain.name in blocked]
    stations = []
    for row, station in enumerate(network.stations):
        demand_s = float(demands.demand_s[row].sum())
        if station.name in known and not demands.demand_s[row, columns].any():
            stations.append(known[station.name])
        elif station.discipline == "delay":
            stations.append(StationAnswer(station.name, demand_s, None, exact_interval(demand_s)))
        else:
            offered = float(demands.offered[row]) / station.servers
            stations.append(StationAnswer(station.name, demand_s,
                                          exact_interval(1.0) if offered >= 1 else None, None))
    return stations


def _solve_stable(network: QueueingNetwork, rng: np.random.Generator | None, visit_limit: int,
                  progress: Progress | None) -> NetworkAnswer:
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


def _from_solution(solution: Solution) -> NetworkAnswer:
    return NetworkAnswer(
        (EXACT if solution.method == "exact" else APPROXIMATE,),
        tuple(ChainAnswer(each.name, exact_interval(each.throughput_per_s),
                          exact_interval(each.response_s))
              for each in solution.chains),
        tuple(StationAnswer(each.name, sum(each.demand_s), exact_interval(each.utilization),
                            exact_interval(sum(each.residence_s))) for each in solution.stations))


def _from_means(network: QueueingNetwork, means: dict[tuple[int, str], float]) -> NetworkAnswer:
    demands = demands_of(network)
    chains = tuple(ChainAnswer(chain.name, exact_interval(chain.rate_per_s or 0.0), exact_interval(
        sum(mean_s for (_, name), mean_s in means.items() if name == chain.name)))
        for chain in network.chains)
    stations = tuple(StationAnswer(
        station.name, float(demands.demand_s[row].sum()),
        exact_interval(float(demands.offered[row]) / (
            1 if station.discipline == "delay" else station.servers)),
        exact_interval(sum(mean_s for (place, _), mean_s in means.items() if place == row)))
        for row, station in enumerate(network.stations))
    return NetworkAnswer((POLLACZEK_KHINCHINE,), chains, stations)


def _simulate_answer(network: QueueingNetwork, rng: np.random.Generator, visit_limit: int,
                     progress: Progress | None) -> NetworkAnswer:
    run = SteadySimulation(network, rng, limit=visit_limit, progress=progress)
    run.run_until_narrow(lambda run: all(run.is_narrow(chain.name) for chain in network.chains))
    chains, problems = [], []
    for column, chain in enumerate(network.chains):
        throughput = (exact_interval(chain.rate_per_s or 0.0) if chain.is_open
                      else run.throughput_per_s(column) if run.is_settled else None)
        known = run.is_known(chain.name)
        chains.append(ChainAnswer(chain.name, throughput, run.mean(chain.name) if known else None))
        if not known:
            problems.append(_unknown_error(network, chain, run))
    return NetworkAnswer((SIMULATED,), tuple(chains), tuple(
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


def _simulated_station(network: QueueingNetwork, row: int, run: SteadySimulation) -> StationAnswer:
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
    return StationAnswer(station.name, demand_s, busy, residence)
