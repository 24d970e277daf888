"""The Linearizer, an approximate solver for closed networks.

This fixed point also estimates how queues change with one customer less. It makes two updates of
these differences. It is used where exact MVA has too many population vectors. Several servers and
open chains are treated as in `analysis.queueing.schweitzer`.

Chandy and Neuse (1982), "Linearizer: a heuristic algorithm for queueing network models of computing
systems", Communications of the ACM 25(2), 126-134.
"""

from __future__ import annotations

import numpy as np

from analysis.queueing import schweitzer
from analysis.queueing.demands import Array, ChainSolution, Demands

UPDATES = 2


def solve_linearizer(demands: Demands, epsilon: float = schweitzer.EPSILON) -> ChainSolution:
    """Return approximate means.

    Raises:
        QueueingError: Open traffic is above capacity, or no fixed point is found.
    """
    reduced, fixed_s, slow = schweitzer.single_servers(demands)
    core = _Core(reduced, reduced.think_s + fixed_s.sum(axis=0), epsilon)
    population = reduced.population.astype(np.float64)
    # change[i, q, k]: growth of chain q's fraction at station i when a customer of chain k leaves.
    change = np.zeros((*reduced.demand_s.shape, population.size))
    guess = schweitzer.spread_customers(reduced.demand_s, population)
    for _ in range(UPDATES):
        length = core.solve_fixed_point(population, guess, change).queue
        change = core.update_changes(population, length, change)
        guess = length
    return schweitzer.with_open(demands, core.solve_fixed_point(population, guess, change), fixed_s,
                                slow)


class _Core:
    """The inner fixed point, for given differences of fractions."""

    def __init__(self, reduced: Demands, pause: Array, epsilon: float) -> None:
        self.reduced = reduced
        self.demand, self.queueing = reduced.demand_s, ~reduced.delay[:, None]
        self.pause, self.epsilon = pause, epsilon

    def solve_fixed_point(self, population: Array, guess: Array, change: Array) -> ChainSolution:
        """Return the means at a population vector.

        `population` has shape (Q,). `guess` has the first queue lengths, shape (M, Q).
        """
        length = guess
        # less[q, k]: customers of chain q that an arriving customer of chain k may find.
        less = np.maximum(population[:, None] - np.eye(population.size), 0.0)
        for _ in range(schweitzer.ITERATIONS):
            fraction = _customer_fractions(length, population)
            waiting = ((fraction[:, :, None] + change) * less).sum(axis=1)
            residence = self.demand * (1.0 + np.where(self.queueing, np.maximum(waiting, 0.0), 0.0))
            total = self.pause + residence.sum(axis=0)
            throughput = np.divide(population, total, out=np.zeros_like(total), where=total > 0)
            previous, length = length, throughput * residence
            if schweitzer.is_settled(length, previous, population, self.epsilon):
                return ChainSolution(throughput, residence)
        raise schweitzer.unsettled(self.reduced)

    def update_changes(self, population: Array, length: Array, change: Array) -> Array:
        """Return the differences of fractions, from the networks with one customer less."""
        fraction = _customer_fractions(length, population)
        updated = np.zeros_like(change)
        for k in np.flatnonzero(population > 0):
            fewer = population.copy()
            fewer[k] -= 1
            guess = fraction * fewer
            # A chain whose last customer left has no fraction, so its difference is 0.
            smaller = _customer_fractions(self.solve_fixed_point(fewer, guess, change).queue, fewer)
            updated[:, :, k] = np.where(fewer > 0, smaller - fraction, 0.0)
        return updated


def _customer_fractions(length: Array, population: Array) -> Array:
    """Return the fraction of each chain's customers by station, 0 for an empty chain."""
    return np.divide(length, population, out=np.zeros_like(length),
                     where=np.broadcast_to(population > 0, length.shape))
