"""Exact mean value analysis (MVA) of closed chains.

There can be several chains and several servers. The equations are the arrival theorem, Little's law
and forced flow, (B.1) to (B.5) of Harbitter and Menascé (2002), after Reiser and Lavenberg (1980).
A think time Z is added to (B.2).

Stations with several servers or with open traffic serve at a rate that depends on the number of
closed customers present. The probability that such a station is empty comes from the network
without the station, as Reiser (1981) proposed. One minus the sum of the other probabilities is
numerically unstable.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.queueing.demands import Array, ChainSolution, Demands
from analysis.queueing.errors import QueueingError

#: Largest number of values that a solution stores, about 320 MB. Beyond it, the Linearizer is
#: within 1 % of the exact means.
SIZE_LIMIT = 40_000_000


@dataclass(frozen=True)
class ClosedModel:
    """Closed chains without open ones.

    Shapes: `demand_s` (M, Q), `think_s` and `population` (Q,), `delay` (M,). `rates` maps the row
    of each station with a variable rate to a(1), a(2), ... This is the rate in demands per second
    with that many customers present. The last rate holds for larger numbers too.
    """

    demand_s: Array
    think_s: Array
    population: NDArray[np.int64]
    delay: NDArray[np.bool_]
    rates: dict[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class ClosedSolution:
    """The solution of closed chains.

    `throughput_per_s` has shape (Q,), `residence_s` has shape (M, Q). `marginals[i][j]` is the
    probability that j closed customers are at station i, for the stations in `rates`.
    """

    throughput_per_s: Array
    residence_s: Array
    marginals: dict[int, Array]


def count_states(population: NDArray[np.int64]) -> int:
    """Return the number of population vectors of exact MVA."""
    return math.prod([int(n) + 1 for n in population])


def count_stored_values(model: ClosedModel) -> int:
    """Return how many values a solution of the model stores, at most SIZE_LIMIT."""
    rows = model.demand_s.shape[0] + sum(len(rates) for rates in model.rates.values())
    a_state = rows + len(model.population)
    size: int = count_states(model.population) * a_state << len(model.rates)
    return size


def count_computed_values(model: ClosedModel) -> int:
    """Return how many values the recursion of a single chain computes without storing them."""
    rows = model.demand_s.shape[0] + sum(len(rates) for rates in model.rates.values())
    size: int = int(model.population.sum()) * rows << len(model.rates)
    return size


def solve_closed(model: ClosedModel) -> ClosedSolution:
    """Return the exact solution.

    Raises:
        QueueingError: The solution does not fit in memory.
    """
    if len(model.population) == 1:
        return _SingleChain(model).solve_without(frozenset())
    if count_stored_values(model) > SIZE_LIMIT:
        raise QueueingError("network", f"exact MVA would pass {count_states(model.population):.3g} "
                            "population vectors", "use the method linearizer")
    return _Recursion(model).solve_full()


class _SingleChain:
    """MVA of one chain with Python floats, which are faster than short arrays."""

    def __init__(self, model: ClosedModel) -> None:
        self.model, self.demand = model, [float(d) for d in model.demand_s[:, 0]]
        self.fixed = float(model.demand_s[model.delay, 0].sum() + model.think_s[0])
        self.plain = [row for row in np.flatnonzero(~model.delay) if row not in model.rates]
        self.flows: dict[frozenset[int], list[float]] = {}

    def solve_without(self, removed: frozenset[int]) -> ClosedSolution:
        """Return the solution without some stations, and store its throughputs in `flows`.

        `flows` has the throughputs for 0, 1, ... N customers.
        """
        special = [_Place(row, self.model.rates[row].tolist(), self.demand[row],
                              self._flow_without(removed | {row}))
                   for row in self.model.rates if row not in removed]
        demands = [self.demand[row] for row in self.plain]
        lengths, residence = [0.0] * len(demands), demands
        throughput, flow = 0.0, [0.0]
        for n in range(1, int(self.model.population[0]) + 1):
            residence = [d * (1.0 + length) for d, length in zip(demands, lengths, strict=True)]
            total = self.fixed + sum(residence) + sum([s.residence_time() for s in special])
            throughput = n / total if total > 0 else math.inf
            flow.append(throughput)
            if total > 0:
                lengths = [throughput * r for r in residence]
                for station in special:
                    station.advance(n, throughput)
        self.flows[removed] = flow
        rows = self.model.demand_s.copy()
        rows[self.plain, 0] = residence
        for station in special:
            rows[station.row, 0] = station.residence
        return ClosedSolution(np.array([throughput]), rows,
                              {station.row: np.array(station.table) for station in special})

    def _flow_without(self, removed: frozenset[int]) -> list[float]:
        if removed not in self.flows:
            self.solve_without(removed)
        return self.flows[removed]


class _Place:
    """The distribution of customers at a station for one chain.

    It is that of one population at a time. `_Marginal` is the counterpart for several chains.
    """

    def __init__(self, row: int, rates: list[float], demand: float, without: list[float]) -> None:
        self.row, self.rates, self.demand, self.without = row, rates, demand, without
        self.table = [1.0] + [0.0] * (len(rates) - 1)
        self.extra = [j / rate - j / rates[-1] for j, rate in enumerate(rates, 1)]
        self.residence, self.length = demand, 0.0

    def residence_time(self) -> float:
        """Return the residence time of one more customer."""
        queue = sum([p * e for p, e in zip(self.table, self.extra, strict=True)])
        self.residence = self.demand * ((1.0 + self.length) / self.rates[-1] + queue)
        return self.residence

    def advance(self, n: int, throughput: float) -> None:
        """Update the distribution to n customers with this throughput."""
        self.length = throughput * self.residence
        work = throughput * self.demand
        self.table = [self.table[0] * throughput / self.without[n],
                      *[work * p / rate for p, rate in zip(self.table[:-1], self.rates[:-1],
                                                           strict=True)]]


class _Recursion:
    """MVA over all population vectors, level by level: all vectors of n customers at once."""

    def __init__(self, model: ClosedModel) -> None:
        self.model = model
        shape = tuple(int(n) + 1 for n in model.population)
        self.vectors = np.indices(shape).reshape(len(shape), -1).T
        self.steps = np.array([int(np.prod(shape[q + 1:])) for q in range(len(shape))])
        totals = self.vectors.sum(axis=1)
        order = np.argsort(totals, kind="stable")
        bounds = np.searchsorted(totals[order], np.arange(1, totals.max() + 2))
        self.levels = [order[a:b] for a, b in itertools.pairwise(bounds)]
        self.throughputs: dict[frozenset[int], Array] = {}

    def solve_full(self) -> ClosedSolution:
        """Return the solution for the full population."""
        return self._solve_without(frozenset())

    def _throughput_without(self, removed: frozenset[int]) -> Array:
        """Return the throughputs of the network without some stations.

        There is a row for every population vector, shape (P, Q).
        """
        if removed not in self.throughputs:
            self._solve_without(removed)
        return self.throughputs[removed]

    def _solve_without(self, removed: frozenset[int]) -> ClosedSolution:
        model = self.model
        demand = model.demand_s.copy()
        demand[list(removed)] = 0.0
        special = {row: _Marginal(model.rates[row], demand[row], len(self.vectors),
                                  self._throughput_without(removed | {row}))
                   for row in model.rates if row not in removed}
        lengths = np.zeros((len(self.vectors), demand.shape[0]))
        flow = np.zeros(self.vectors.shape)
        residence = demand.copy()
        for level in self.levels:
            residence = self._fill_level(level, demand, special, lengths, flow)
        self.throughputs[removed] = flow
        return ClosedSolution(flow[-1], residence * (model.population > 0),
                              {row: marginal.table[-1] for row, marginal in special.items()})

    def _fill_level(self, level: NDArray[np.int64], demand: Array, special: dict[int, _Marginal],
                    lengths: Array, flow: Array) -> Array:
        """Fill one level of `lengths` and `flow`.

        Returns:
            The residence times of the last vector, shape (M, Q).
        """
        present = self.vectors[level] > 0
        before = np.where(present, level[:, None] - self.steps, 0)
        # (B.1): an arriving customer sees the network with one customer of its chain less.
        waiting = np.where(self.model.delay[:, None], 0.0, lengths[before].transpose(0, 2, 1))
        residence = demand * (1.0 + waiting)
        for row, marginal in special.items():
            residence[:, row, :] = marginal.residence(lengths[before, row], before)
        total = self.model.think_s + residence.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            flow[level] = np.where(present, self.vectors[level] / total, 0.0)
        # A chain whose last station was removed would have an infinite throughput.
        bounded = np.where(np.isfinite(flow[level]), flow[level], 0.0)
        lengths[level] = (residence * bounded[:, None, :]).sum(axis=2)
        for marginal in special.values():
            marginal.advance(level, before, present, flow)
        return np.asarray(residence[-1], dtype=np.float64)


class _Marginal:
    """The distribution of customers at a station for every population vector.

    The rate of the station depends on the number of customers present.
    """

    def __init__(self, rates: Array, demand: Array, size: int, without: Array) -> None:
        self.demand, self.rates, self.without = demand, rates, without
        # table[n, j]: probability of j customers, for each j below the last rate's number of
        # customers.
        self.table = np.zeros((size, len(rates)))
        self.table[0, 0] = 1.0
        places = np.arange(1, len(rates) + 1)
        self.extra = places / rates - places / rates[-1]

    def residence(self, length: Array, before: NDArray[np.int64]) -> Array:
        """Return the residence times at the station for each vector and chain.

        They are D sum_j j / a(j) p(j - 1 | one less), in the shape of `before`.
        """
        stretch: Array = (1.0 + length) / self.rates[-1] + self.table[before] @ self.extra
        return self.demand * stretch

    def advance(self, level: NDArray[np.int64], before: NDArray[np.int64],
                present: NDArray[np.bool_], flow: Array) -> None:
        """Fill one level of the table."""
        rows = np.arange(len(level))
        chain = np.argmax(present, axis=1)
        source = before[rows, chain]
        # Probability of an empty station: normalizing constant G without the station divided by G.
        # It follows from throughputs, and any present chain gives the same result.
        self.table[level, 0] = (self.table[source, 0] * flow[level, chain]
                                / self.without[level, chain])
        share = np.where(present, self.demand * flow[level], 0.0)
        self.table[level, 1:] = (share[:, :, None] * self.table[before][:, :, :-1]).sum(
            axis=1) / self.rates[:-1]


def server_rates(servers: int, length: int) -> Array:
    """Return the rates of a station with several servers by the number of customers.

    The rates are a(j) = min(j, servers) for j = 1, 2, ... up to where they stay constant. There are
    at most `length` rates.
    """
    return np.minimum(np.arange(1, max(1, min(servers, length)) + 1), servers).astype(np.float64)


def plain_closed(demands: Demands) -> ClosedModel:
    """Return the closed model of a network without open chains."""
    total = int(demands.population.sum())
    rates = {row: server_rates(int(count), total) for row, count in enumerate(demands.servers)
             if count > 1 and not demands.delay[row]}
    return ClosedModel(demand_s=demands.demand_s, think_s=demands.think_s,
                       population=demands.population, delay=demands.delay, rates=rates)


def as_chain_solution(solution: ClosedSolution) -> ChainSolution:
    """Return only throughput and residence times of a closed solution."""
    return ChainSolution(solution.throughput_per_s, solution.residence_s)
