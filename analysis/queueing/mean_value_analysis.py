"""Compute exact mean response times and throughput of queueing networks (MVA).

`solve_exact` takes the service `Demands` of any network with a product form, and returns the means
of each chain (kind of transaction). A closed chain has a fixed number of customers (transactions),
an open chain has arrivals from outside. `solve_closed` solves networks with closed chains only.

The equations of mean value analysis are the arrival theorem, Little's law and forced flow, (B.1) to
(B.5) of Harbitter and Menascé (2002), after Reiser and Lavenberg (1980). A think time Z is added to
(B.2). Stations with several servers or with open traffic serve at a rate that depends on the number
of closed customers present. The probability that such a station is empty comes from the network
without the station, as Reiser (1981) proposed. One minus the sum of the other probabilities is
numerically unstable. The terms are those of `analysis.queueing.network`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.queueing.network import Array, ChainSolution, Demands, QueueingError

# --- Closed chains ---

#: Largest number of values that a solution stores, about 320 MB. Beyond it, the Linearizer is
#: within 1 % of the exact means.
STATE_LIMIT = 40_000_000


@dataclass(frozen=True)
class ClosedModel:
    """A queueing network with closed chains only, as arrays.

    M is the number of stations (servers), Q that of chains (kinds of transactions).

    - `demand_s`: service time of a customer of each chain at each station (s), shape (M, Q)
    - `think_s`, `population`: time between cycles (s) and number of customers by chain, shape (Q,)
    - `delay`: true for stations without a queue, which serve all customers at once, shape (M,)
    - `rates`: rates a(1), a(2), ... of each station with a variable rate, by its row. a(n) is the
      rate in demands per second with n customers present. The last rate holds for larger n, too.
    """

    demand_s: Array
    think_s: Array
    population: NDArray[np.int64]
    delay: NDArray[np.bool_]
    rates: dict[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class ClosedSolution:
    """The means of closed chains: throughput, residence times and queue distributions.

    A closed chain is a kind of transaction with a fixed number of customers.

    `throughput_per_s` has shape (Q,), `residence_s` has shape (M, Q). `marginals[i][j]` is the
    probability that j closed customers are at station i, for the stations in `rates`.
    """

    throughput_per_s: Array
    residence_s: Array
    marginals: dict[int, Array]


def count_states(population: NDArray[np.int64]) -> int:
    """Return how many combinations of customer numbers exact MVA has to compute."""
    return math.prod([int(n) + 1 for n in population])


def count_stored_values(model: ClosedModel) -> int:
    """Return how many values exact MVA of several chains stores for a model.

    `solve_closed` refuses more than STATE_LIMIT.
    """
    rows = model.demand_s.shape[0] + sum(len(rates) for rates in model.rates.values())
    a_state = rows + len(model.population)
    size: int = count_states(model.population) * a_state << len(model.rates)
    return size


def count_computed_values(model: ClosedModel) -> int:
    """Return how many values MVA of a single kind of transaction computes without storing."""
    rows = model.demand_s.shape[0] + sum(len(rates) for rates in model.rates.values())
    size: int = int(model.population.sum()) * rows << len(model.rates)
    return size


def solve_closed(model: ClosedModel) -> ClosedSolution:
    """Return the exact means of closed chains (kinds of transactions) by mean value analysis.

    Raises:
        QueueingError: The solution does not fit in memory.
    """
    if len(model.population) == 1:
        return _SingleChain(model).solve_without(frozenset())
    if count_stored_values(model) > STATE_LIMIT:
        raise QueueingError("network", f"exact MVA would pass {count_states(model.population):.3g} "
                            "population vectors", "use the method linearizer")
    return _PopulationRecursion(model).solve_full()


class _SingleChain:
    """Mean value analysis (MVA) of one kind of transaction, with Python floats.

    Floats are faster than short arrays. For n = 1 to N customers, the residence time at a station
    is R(n) = D (1 + L(n - 1)), with the demand D there. The throughput is
    X(n) = n / (Z + sum of R(n)), and L(n) = X(n) R(n) customers are at the station. `fixed` is Z
    with the demands of delay stations. Stations with variable rates are `_StationDistribution`.
    """

    def __init__(self, model: ClosedModel) -> None:
        self.model, self.demand = model, [float(d) for d in model.demand_s[:, 0]]
        self.fixed = float(model.demand_s[model.delay, 0].sum() + model.think_s[0])
        self.plain = [row for row in np.flatnonzero(~model.delay) if row not in model.rates]
        self.flows: dict[frozenset[int], list[float]] = {}

    def solve_without(self, removed: frozenset[int]) -> ClosedSolution:
        """Return the means without some queueing stations, and store the throughputs in `flows`.

        `flows` has the throughputs for 0, 1, ... N customers.
        """
        special = [_StationDistribution(row, self.model.rates[row].tolist(), self.demand[row],
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


class _StationDistribution:
    """The distribution of the number of customers at a queueing station, for one chain.

    A chain is a kind of transaction, a customer one transaction in progress.

    It is that of one population at a time. `_MarginalDistribution` is the counterpart for several
    chains.
    """

    def __init__(self, row: int, rates: list[float], demand: float, without: list[float]) -> None:
        self.row, self.rates, self.demand, self.without = row, rates, demand, without
        self.table = [1.0] + [0.0] * (len(rates) - 1)
        self.extra = [j / rate - j / rates[-1] for j, rate in enumerate(rates, 1)]
        self.residence, self.length = demand, 0.0

    def residence_time(self) -> float:
        """Return how long one more customer stays at the queueing station."""
        queue = sum([p * e for p, e in zip(self.table, self.extra, strict=True)])
        self.residence = self.demand * ((1.0 + self.length) / self.rates[-1] + queue)
        return self.residence

    def advance(self, n: int, throughput: float) -> None:
        """Update the distribution to n customers in the queueing network, with this throughput."""
        self.length = throughput * self.residence
        work = throughput * self.demand
        self.table = [self.table[0] * throughput / self.without[n],
                      *[work * p / rate for p, rate in zip(self.table[:-1], self.rates[:-1],
                                                           strict=True)]]


class _PopulationRecursion:
    """MVA of several chains, for all combinations of customer numbers in turn.

    All combinations with n customers together are computed at once (`levels`). The equations are
    those of `_SingleChain`, where a customer of chain q sees the network with one customer of q
    less. In `vectors`, that combination is `steps[q]` rows earlier.
    """

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
        """Return the means for the full number of customers."""
        return self._solve_without(frozenset())

    def _throughput_without(self, removed: frozenset[int]) -> Array:
        """Return the throughputs of the network without some queueing stations.

        There is a row for every population vector, shape (P, Q).
        """
        if removed not in self.throughputs:
            self._solve_without(removed)
        return self.throughputs[removed]

    def _solve_without(self, removed: frozenset[int]) -> ClosedSolution:
        """Solve the network without some stations, for all combinations of customer numbers."""
        model = self.model
        demand = model.demand_s.copy()
        demand[list(removed)] = 0.0
        special = {row: _MarginalDistribution(model.rates[row], demand[row], len(self.vectors),
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

    def _fill_level(self, level: NDArray[np.int64], demand: Array,
                    special: dict[int, _MarginalDistribution],
                    lengths: Array, flow: Array) -> Array:
        """Compute queue lengths and throughputs for all combinations with n customers in all.

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


class _MarginalDistribution:
    """The distribution of customers at a queueing station.

    There is one for every combination of customer numbers. The rate of the station depends on the
    number of customers present.
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
        """Return how long customers stay at the queueing station, by chain.

        A time is D sum_j j / a(j) p(j - 1), by the arrival theorem (Reiser and Lavenberg 1980). D
        is the chain's demand, and a(j) the station's rate with j customers. p(j) is the probability
        of j customers if the chain has one customer less.

        Args:
            length: Mean number of customers at the station with one customer less, in the shape of
                `before`.
            before: Row of the table with one customer less: a row for each combination of customer
                numbers, a column for each chain.

        Returns:
            The times in seconds, in the shape of `before`.
        """
        stretch: Array = (1.0 + length) / self.rates[-1] + self.table[before] @ self.extra
        return self.demand * stretch

    def advance(self, level: NDArray[np.int64], before: NDArray[np.int64],
                present: NDArray[np.bool_], flow: Array) -> None:
        """Compute the distributions for all combinations with n customers in all."""
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
    """Return the service rates of a station with several servers, by number of customers.

    The rates are a(j) = min(j, servers) for j = 1, 2, ... up to where they stay constant. There are
    at most `length` rates.
    """
    return np.minimum(np.arange(1, max(1, min(servers, length)) + 1), servers).astype(np.float64)


def plain_closed(demands: Demands) -> ClosedModel:
    """Return the arrays of a queueing network without open chains (kinds of transactions)."""
    total = int(demands.population.sum())
    rates = {row: server_rates(int(count), total) for row, count in enumerate(demands.servers)
             if count > 1 and not demands.delay[row]}
    return ClosedModel(demand_s=demands.demand_s, think_s=demands.think_s,
                       population=demands.population, delay=demands.delay, rates=rates)


def as_chain_solution(solution: ClosedSolution) -> ChainSolution:
    """Return only throughput and residence times from the means of a queueing network."""
    return ChainSolution(solution.throughput_per_s, solution.residence_s)


# --- Open and mixed networks ---
# Open chains take their share of each station first. Closed customers then see a slower station,
# and open customers see the closed customers present. Without closed chains a station is an M/M/1,
# M/M/c (Erlang C) or M/G/infinity queue. Reiser and Kobayashi (1975); Lazowska et al. (1984), 7.4;
# for several servers Bruell, Balbo and Afshari (1984).

def solve_exact(demands: Demands) -> ChainSolution:
    """Return the exact means of a queueing network by mean value analysis.

    It may have open chains (transactions from outside) and closed ones.

    Raises:
        QueueingError: Open traffic is above capacity, or there are too many states.
    """
    demands.check_stable()
    if not demands.rate_per_s.any():
        return as_chain_solution(solve_closed(plain_closed(demands)))
    closed = solve_closed(closed_model(demands))
    throughput = np.where(demands.rate_per_s > 0, demands.rate_per_s, closed.throughput_per_s)
    residence = closed.residence_s.copy()
    stretch = _open_stretch(demands, closed)
    is_open = demands.population == 0
    residence[:, is_open] = (demands.demand_s * stretch[:, None])[:, is_open]
    return ChainSolution(throughput, residence)


def closed_model(demands: Demands) -> ClosedModel:
    """Return a model of the closed chains, with queueing stations slowed down by open traffic.

    A closed chain is a kind of transaction with a fixed number of customers.
    """
    total = int(demands.population.sum())
    offered = demands.offered
    is_open = demands.population == 0
    demand = np.where(is_open, 0.0, demands.demand_s)
    rates: dict[int, Array] = {}
    for row in np.flatnonzero(~demands.delay):
        count = int(demands.servers[row])
        if count == 1:
            demand[row] /= 1.0 - offered[row]
        elif offered[row] > 0:
            rates[int(row)] = OpenTraffic(count, float(offered[row])).rates(total)
        else:
            rates[int(row)] = server_rates(count, total)
    return ClosedModel(demand_s=demand, think_s=demands.think_s,
                       population=demands.population, delay=demands.delay, rates=rates)


def _open_stretch(demands: Demands, closed: ClosedSolution) -> Array:
    """Return how many times longer open customers stay at a station than they are served.

    An open customer is a transaction that arrives from outside.
    """
    offered = demands.offered
    lengths = (closed.residence_s * closed.throughput_per_s).sum(axis=1)
    stretch = np.ones(len(offered))
    for row in np.flatnonzero(~demands.delay):
        count = int(demands.servers[row])
        if count == 1:
            stretch[row] = (1.0 + lengths[row]) / (1.0 - offered[row])
        elif offered[row] > 0:
            # The table has an entry for every number of closed customers up to the population.
            marginal = closed.marginals[int(row)]
            present = OpenTraffic(count, float(offered[row])).mean_present(len(marginal) - 1)
            stretch[row] = float(marginal @ present) / offered[row]
    return stretch


@dataclass(frozen=True)
class OpenTraffic:
    """Open customers at a queueing station with c servers, given the closed customers there.

    Open customers are transactions from outside, closed ones circulate. Let n closed and m open
    customers be present. The station's weight is C(n + m, m) offered^m divided by the product of
    the rates min(k, c), k = 1 to n + m. C(n + m, m) is the number of orders of the customers. All
    sums over m have positive terms. Those below c servers are added one by one, and the tail is an
    incomplete beta function. `offered` is in busy servers, below `servers`.
    """

    servers: int
    offered: float

    def rates(self, closed: int) -> Array:
        """Return the service rates of j closed customers, while open ones are served, too.

        Customers are transactions. The rate is a(j) = w(j - 1) / w(j), for j = 1 to closed + 1.
        """
        weights = self._log_sums(closed + 1, moment=0)
        return np.exp(weights[:-1] - weights[1:])

    def mean_present(self, closed: int) -> Array:
        """Return the mean number of open customers while 0 to `closed` closed ones are present.

        Customers are transactions, open ones from outside.
        """
        weights, firsts = (self._log_sums(closed, moment=moment) for moment in (0, 1))
        return np.exp(firsts - weights)

    def _log_sums(self, closed: int, moment: int) -> Array:
        """Return the logarithms of the sums over open customers, for n = 0 to `closed`.

        The sums are sum_m m^moment weight(n, m).
        """
        counts = np.arange(closed + 1)
        return np.array([special.logsumexp([self._log_head(int(n), moment),
                                            self._log_tail(int(n), moment)]) for n in counts])

    def _log_head(self, n: int, moment: int) -> float:
        """Return the logarithm of the terms with fewer than c customers, who all are served."""
        m = np.arange(moment, self.servers - n, dtype=np.int64)
        if not m.size:
            return -np.inf
        terms = (_log_orders(n, m) + m * np.log(self.offered) - special.gammaln(n + m + 1)
                 + (np.log(m) if moment else 0.0))
        return float(special.logsumexp(terms))

    def _log_tail(self, n: int, moment: int) -> float:
        """Return the logarithm of the terms with c or more customers (a negative binomial's tail).

        For the first moment, the tail is shifted by one.
        """
        x = self.offered / self.servers
        start, shape = max(self.servers - n, moment) - moment, n + 1 + moment
        tail = special.betainc(start, shape, x) if start else 1.0
        constant = (self.servers - n) * np.log(self.servers) - special.gammaln(self.servers + 1)
        first = np.log((n + 1) * x) if moment else 0.0
        with np.errstate(divide="ignore"):
            return float(constant + first - shape * np.log1p(-x) + np.log(tail))


def _log_orders(n: int, m: NDArray[np.int64]) -> Array:
    """Return log C(n + m, m), the logarithm of a binomial coefficient."""
    return np.asarray(special.gammaln(n + m + 1) - special.gammaln(n + 1)
                      - special.gammaln(m + 1), dtype=np.float64)
