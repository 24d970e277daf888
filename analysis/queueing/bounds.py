"""Compute bounds on the throughput and response time of a queueing network from service times.

`asymptotic_bounds` (Denning and Buzen 1978) and `balanced_job_bounds` (Zahorjan, Sevcik, Eager and
Galler 1982) take a network with one chain (kind of transaction) and return `Bounds`. The formulas
are those of tables 5.1 and 5.2 of Lazowska et al. (1984), "Quantitative System Performance".
`tail_limit` bounds the fraction of response times above a limit, for any chain. The terms are those
of `analysis.queueing.network`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.queueing.network import Demands, QueueingError, QueueingNetwork, demands_of
from analysis.queueing.routing import list_visits, variant_shares
from analysis.queueing.solution import solve_network


@dataclass(frozen=True)
class Bounds:
    """The bounds on a chain's throughput (transactions per second) and response time (s).

    `saturation_per_s` is the throughput that the busiest server allows. `knee` is the number of
    customers at which the asymptotes meet. Above it customers must wait for each other. It is
    infinite without a queue.
    """

    throughput_low_per_s: float
    throughput_high_per_s: float
    response_low_s: float
    response_high_s: float
    saturation_per_s: float
    knee: float


@dataclass(frozen=True)
class _DemandTotals:
    """Sums of the service times that one transaction needs.

    `queueing_s` is the sum over queues, `largest_s` the largest demand per server, and `average_s`
    the mean over visited queues. `pause_s` is the think time plus the delays, `inside_s` the delays
    alone.
    """

    queueing_s: float
    largest_s: float
    average_s: float
    pause_s: float
    inside_s: float
    population: int


def asymptotic_bounds(network: QueueingNetwork) -> Bounds:
    """Return the asymptotic bounds of a queueing network with one kind of transaction."""
    totals = _sum_demands(demands_of(network))
    if network.chains[0].is_open:
        return _open_bounds(totals, network.chains[0].rate_per_s or 0.0)
    n, pause, total = totals.population, totals.pause_s, totals.queueing_s
    high = min(n / (total + pause), _invert_bound(totals.largest_s))
    return _closed_bounds(totals, n / (n * total + pause) if n else 0.0, high)


def balanced_job_bounds(network: QueueingNetwork) -> Bounds:
    """Return the balanced job bounds of a queueing network with one kind of transaction.

    Raises:
        QueueingError: The chain is open, or a station has several servers.
    """
    demands = demands_of(network)
    totals = _sum_demands(demands)
    if network.chains[0].is_open or (demands.servers[~demands.delay] > 1).any():
        raise QueueingError("network", "balanced job bounds are for closed chains and one server "
                            "a station", "use the asymptotic bounds")
    n, pause, total = totals.population, totals.pause_s, totals.queueing_s
    if n == 0 or total == 0:
        return asymptotic_bounds(network)
    base = total + pause
    low = n / (base + (n - 1) * totals.largest_s / (1 + pause / (n * total)))
    high = min(_invert_bound(totals.largest_s),
               n / (base + (n - 1) * totals.average_s / (1 + pause / total)))
    return _closed_bounds(totals, low, high)


def _sum_demands(demands: Demands) -> _DemandTotals:
    if demands.demand_s.shape[1] != 1:
        raise QueueingError("network", "bounds are for one chain", "solve it, or leave one chain")
    column = demands.demand_s[:, 0]
    queueing, servers = column[~demands.delay], demands.servers[~demands.delay]
    visited = int((queueing > 0).sum())
    inside = float(column[demands.delay].sum())
    return _DemandTotals(
        queueing_s=float(queueing.sum()),
        largest_s=float((queueing / servers).max(initial=0.0)),
        average_s=float(queueing.sum()) / visited if visited else 0.0,
        pause_s=float(demands.think_s[0]) + inside, inside_s=inside,
        population=int(demands.population[0]))


def _closed_bounds(totals: _DemandTotals, low: float, high: float) -> Bounds:
    think = totals.pause_s - totals.inside_s
    n = totals.population
    return Bounds(
        throughput_low_per_s=low, throughput_high_per_s=high,
        response_low_s=n / high - think if n else 0.0,
        response_high_s=n / low - think if n else 0.0,
        saturation_per_s=_invert_bound(totals.largest_s),
        knee=(totals.queueing_s + totals.pause_s) * _invert_bound(totals.largest_s))


def _open_bounds(totals: _DemandTotals, rate_per_s: float) -> Bounds:
    """Return the bounds of transactions that arrive from outside (an open chain, table 5.1).

    Only the saturation rate and the smallest response time are bounded.
    """
    saturation = _invert_bound(totals.largest_s)
    return Bounds(throughput_low_per_s=min(rate_per_s, saturation),
                  throughput_high_per_s=min(rate_per_s, saturation),
                  response_low_s=totals.queueing_s + totals.inside_s, response_high_s=math.inf,
                  saturation_per_s=saturation, knee=math.inf)


def _invert_bound(value: float) -> float:
    return float(np.inf) if value == 0 else 1.0 / value


def tail_limit(network: QueueingNetwork, name: str, time_s: float) -> float:
    """Return an upper bound on the fraction of response times that exceed a time.

    It is Markov's inequality, for each variant, of what a cycle takes beyond its constant delays.
    """
    chain = network.chain(name)
    column, demands = network.chains.index(chain), demands_of(network)
    means_s = [station.residence_s[column] for station in solve_network(network).stations]
    limit = 0.0
    for variant, share in variant_shares(chain):
        constant_s = random_s = 0.0
        for of_variant, chance, visit in list_visits(chain, network):
            if of_variant not in (None, variant):
                continue
            if demands.delay[visit.station] and visit.variation == 0 and chance == 1:
                constant_s += visit.mean_s
            elif visit.mean_s:
                # All visits to a station are stretched alike.
                random_s += (chance * visit.mean_s * means_s[visit.station]
                             / float(demands.demand_s[visit.station, column]))
        rest_s = time_s - constant_s
        limit += share * (min(1.0, random_s / rest_s) if rest_s > 0 else 1.0)
    return limit
