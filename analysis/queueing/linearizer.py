"""The Linearizer: a fixed point that also estimates how queues change with one customer less.

Chandy and Neuse (1982), "Linearizer: a heuristic algorithm for queueing network models of computing
systems", Communications of the ACM 25(2), 126-134, with their two updates of the differences. For
where exact MVA has too many population vectors. Several servers and open chains are treated as in
`analysis.queueing.schweitzer`.
"""

from __future__ import annotations

import numpy as np

from analysis.queueing import schweitzer
from analysis.queueing.demands import Array, ChainSolution, Demands
from analysis.queueing.errors import QueueingError

UPDATES = 2


def solve(demands: Demands, epsilon: float = schweitzer.EPSILON) -> ChainSolution:
    """Approximate means; raises QueueingError for open traffic above capacity."""
    reduced, fixed_s, slow = schweitzer.single_servers(demands)
    core = _Core(reduced, reduced.think_s + fixed_s.sum(axis=0), epsilon)
    population = reduced.population.astype(np.float64)
    # change[i, q, k]: by how much chain q's fraction at station i grows when one of k leaves.
    change = np.zeros((*reduced.demand_s.shape, population.size))
    guess = schweitzer.spread(reduced.demand_s, population)
    for _ in range(UPDATES):
        length = core.solve(population, guess, change).queue
        change = core.changes(population, length, change)
        guess = length
    return schweitzer.with_open(demands, core.solve(population, guess, change), fixed_s, slow)


class _Core:
    """The inner fixed point, for given differences of fractions."""

    def __init__(self, reduced: Demands, pause: Array, epsilon: float) -> None:
        self.demand, self.queueing = reduced.demand_s, ~reduced.delay[:, None]
        self.pause, self.epsilon = pause, epsilon

    def solve(self, population: Array, guess: Array, change: Array) -> ChainSolution:
        """Means at a population vector (Q,), from a guess of the queue lengths (M, Q)."""
        length = guess
        # less[q, k]: customers of chain q that an arriving one of chain k may find.
        less = np.maximum(population[:, None] - np.eye(population.size), 0.0)
        for _ in range(schweitzer.ITERATIONS):
            fraction = _fractions(length, population)
            waiting = ((fraction[:, :, None] + change) * less).sum(axis=1)
            residence = self.demand * (1.0 + np.where(self.queueing, np.maximum(waiting, 0.0), 0.0))
            total = self.pause + residence.sum(axis=0)
            throughput = np.divide(population, total, out=np.zeros_like(total), where=total > 0)
            previous, length = length, throughput * residence
            if np.abs(length - previous).max() < self.epsilon:
                return ChainSolution(throughput, residence)
        raise QueueingError("network", f"no fixed point after {schweitzer.ITERATIONS} iterations",
                            "give fewer customers, or take the method schweitzer or a larger "
                            "epsilon")

    def changes(self, population: Array, length: Array, change: Array) -> Array:
        """The differences of fractions, from the networks with one customer less."""
        fraction = _fractions(length, population)
        updated = np.zeros_like(change)
        for k in np.flatnonzero(population > 0):
            fewer = population.copy()
            fewer[k] -= 1
            guess = fraction * fewer
            # Where a chain's last customer left it has no fraction, and does not change.
            smaller = _fractions(self.solve(fewer, guess, change).queue, fewer)
            updated[:, :, k] = np.where(fewer > 0, smaller - fraction, 0.0)
        return updated


def _fractions(length: Array, population: Array) -> Array:
    """Each chain's customers by station, as parts of one; 0 for a chain without customers."""
    return np.divide(length, population, out=np.zeros_like(length),
                     where=np.broadcast_to(population > 0, length.shape))
