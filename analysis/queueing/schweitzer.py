"""Bard and Schweitzer's approximate solver, as the 2002 paper prints it.

Equation (B.11) of Harbitter and Menascé (2002) replaces (B.1). Equations (B.2) to (B.5) are
iterated until no queue length L_iq changes by more than epsilon or rounding. Our additions are:

- a think time in (B.2)
- Seidmann's approximation for several servers (Seidmann, Schweitzer and Shalev-Oren 1987): a server
  c times as fast, and a delay of (c - 1) / c of the demand
- open chains as in `analysis.queueing.mixed`
"""

from __future__ import annotations

import numpy as np

from analysis.queueing.demands import Array, ChainSolution, Demands
from analysis.queueing.errors import QueueingError

EPSILON = 1e-10  # customers
#: By how much rounding changes queue lengths, as a share of a chain's customers; 10^6 customers in
#: several chains never came within EPSILON.
_ROUNDING = 1e-14
ITERATIONS = 100_000


def solve_schweitzer(demands: Demands, epsilon: float = EPSILON) -> ChainSolution:
    """Return approximate means.

    Raises:
        QueueingError: Open traffic is above capacity, or no fixed point is found.
    """
    reduced, fixed_s, slow = single_servers(demands)
    closed = _fixed_point(reduced, fixed_s, epsilon)
    return with_open(demands, closed, fixed_s, slow)


def _fixed_point(reduced: Demands, fixed_s: Array, epsilon: float) -> ChainSolution:
    """Return throughput and residence times R = v W, without the fixed delays `fixed_s`.

    Residence times have shape (M, Q).
    """
    demand, population = reduced.demand_s, reduced.population.astype(np.float64)
    queueing = ~reduced.delay[:, None]
    pause = reduced.think_s + fixed_s.sum(axis=0)
    length = spread_customers(demand, population)
    # (n_q - 1) / n_q L_iq + sum of the other chains' L_is: all customers, less the share of one
    # customer of chain q.
    part = np.divide(1.0, population, out=np.zeros_like(population), where=population > 0)
    for _ in range(ITERATIONS):
        waiting = length.sum(axis=1, keepdims=True) - part * length
        residence = demand * (1.0 + np.where(queueing, waiting, 0.0))             # (B.11)
        total = pause + residence.sum(axis=0)
        throughput = np.divide(population, total, out=np.zeros_like(total), where=total > 0)
        previous, length = length, throughput * residence                          # (B.2) - (B.4)
        if is_settled(length, previous, population, epsilon):
            return ChainSolution(throughput, residence)
    raise unsettled(reduced)


def is_settled(length: Array, previous: Array, population: Array, epsilon: float) -> bool:
    """Return whether queue lengths (M, Q) changed by no more than epsilon, or than rounding."""
    allowed = np.maximum(epsilon, _ROUNDING * population)
    return bool((np.abs(length - previous) < allowed).all())


def unsettled(demands: Demands) -> QueueingError:
    """Return the error of a network whose queue lengths still change after all iterations."""
    column = int(demands.population.argmax())
    name = demands.chain_names[column] if demands.chain_names else str(column)
    return QueueingError(
        f"chain {name!r}", f"queue lengths of its {demands.population[column]} customers still "
        f"change after {ITERATIONS} approximations", "lower its population to a tenth, or make one "
        "chain of those with equal demands")


def spread_customers(demand: Array, population: Array) -> Array:
    """Return each chain's customers evenly spread over its stations, shape (M, Q).

    This is the first guess of the queue lengths.
    """
    visited = demand > 0
    return np.where(visited, population / np.maximum(visited.sum(axis=0), 1), 0.0)


def single_servers(demands: Demands) -> tuple[Demands, Array, Array]:
    """Return the closed chains at single servers, by Seidmann's approximation.

    Returns:
        The demands of the closed chains; fixed delays in seconds (M, Q); the share of each station
        that open chains leave (M,).
    """
    demands.check_stable()
    is_open = demands.population == 0
    servers = np.where(demands.delay, 1, demands.servers).astype(np.float64)[:, None]
    slow = np.where(demands.delay, 1.0, 1.0 - demands.offered / servers[:, 0])
    closed = np.where(is_open, 0.0, demands.demand_s)
    reduced = Demands(
        demand_s=closed / servers / slow[:, None], delay=demands.delay,
        servers=np.ones_like(demands.servers), population=demands.population,
        rate_per_s=np.zeros_like(demands.rate_per_s), think_s=demands.think_s,
        names=demands.names, chain_names=demands.chain_names)
    return reduced, closed * (servers - 1) / servers, slow


def with_open(demands: Demands, closed: ChainSolution, fixed_s: Array,
              slow: Array) -> ChainSolution:
    """Return the result for the whole network from the result for its closed chains."""
    is_open = demands.population == 0
    servers = np.where(demands.delay, 1, demands.servers).astype(np.float64)
    present = np.where(demands.delay, 0.0, closed.queue.sum(axis=1))
    stretch = (1.0 + present) / slow / servers + (servers - 1) / servers
    open_s = demands.demand_s * stretch[:, None]
    return ChainSolution(
        np.where(is_open, demands.rate_per_s, closed.throughput_per_s),
        np.where(is_open, open_s, closed.residence_s + fixed_s))
