"""Compute approximate mean response times of closed queueing networks, for large populations.

A closed network has a fixed number of customers (transactions) that circulate among its stations
(servers). Exact MVA (mean value analysis) may need too much memory and time there.
`solve_schweitzer` and `solve_linearizer` take the service `Demands` of a network and return the
means of each chain (kind of transaction). The Linearizer is more precise. Both iterate queue
lengths until no length changes by more than epsilon or rounding.

Bard and Schweitzer's method is as Harbitter and Menascé (2002) print it: (B.11) replaces (B.1),
with (B.2) to (B.5). Additions to the paper, in both methods, are:

- a think time in (B.2)
- Seidmann's approximation for several servers (Seidmann, Schweitzer and Shalev-Oren 1987): a server
  c times as fast, and a delay of (c - 1) / c of the demand
- open chains as in `analysis.queueing.mean_value_analysis`

The terms are those of `analysis.queueing.network`.
"""

from __future__ import annotations

import numpy as np

from analysis.queueing.network import Array, ChainSolution, Demands, QueueingError

# --- Bard and Schweitzer's fixed point, and the functions of both solvers ---

SCHWEITZER_EPSILON = 1e-10  # customers
#: By how much rounding changes queue lengths, as a share of a chain's customers; 10^6 customers in
#: several chains never came within SCHWEITZER_EPSILON.
_ROUNDING = 1e-14
ITERATIONS = 100_000


def solve_schweitzer(demands: Demands, epsilon: float = SCHWEITZER_EPSILON) -> ChainSolution:
    """Return approximate means of a queueing network by Bard and Schweitzer's iteration.

    Raises:
        QueueingError: Open traffic is above capacity, or no fixed point is found.
    """
    reduced, fixed_s, left_share = single_servers(demands)
    closed = _fixed_point(reduced, fixed_s, epsilon)
    return with_open(demands, closed, fixed_s, left_share)


def _fixed_point(reduced: Demands, fixed_s: Array, epsilon: float) -> ChainSolution:
    """Return throughput and residence times by iteration, without the fixed delays `fixed_s`.

    Residence times R = v W have shape (M, Q): M stations (servers), Q chains (kinds of
    transactions).
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
    raise no_convergence_error(reduced)


def is_settled(length: Array, previous: Array, population: Array, epsilon: float) -> bool:
    """Return whether queue lengths (M, Q) changed by no more than epsilon, or than rounding.

    M is the number of stations (servers), Q that of chains (kinds of transactions).
    """
    allowed = np.maximum(epsilon, _ROUNDING * population)
    return bool((np.abs(length - previous) < allowed).all())


def no_convergence_error(demands: Demands) -> QueueingError:
    """Return the error of a queueing network whose iteration does not converge."""
    column = int(demands.population.argmax())
    name = demands.chain_names[column] if demands.chain_names else str(column)
    return QueueingError(
        f"chain {name!r}", f"queue lengths of its {demands.population[column]} customers still "
        f"change after {ITERATIONS} approximations", "lower its population to a tenth, or make one "
        "chain of those with equal demands")


def spread_customers(demand: Array, population: Array) -> Array:
    """Return the first guess of queue lengths: customers spread evenly over the stations.

    The shape is (M, Q): M stations (servers), Q chains (kinds of transactions).
    """
    visited = demand > 0
    return np.where(visited, population / np.maximum(visited.sum(axis=0), 1), 0.0)


def single_servers(demands: Demands) -> tuple[Demands, Array, Array]:
    """Return a model with single servers in place of several, by Seidmann's approximation.

    Only closed chains (transactions that circulate) are included.

    Returns:
        The demands of the closed chains; fixed delays in seconds (M, Q); the fraction of each
        station that open chains leave (M,).
    """
    demands.check_stable()
    is_open = demands.population == 0
    servers = np.where(demands.delay, 1, demands.servers).astype(np.float64)[:, None]
    left_share = np.where(demands.delay, 1.0, 1.0 - demands.offered / servers[:, 0])
    closed = np.where(is_open, 0.0, demands.demand_s)
    reduced = Demands(
        demand_s=closed / servers / left_share[:, None], delay=demands.delay,
        servers=np.ones_like(demands.servers), population=demands.population,
        rate_per_s=np.zeros_like(demands.rate_per_s), think_s=demands.think_s,
        names=demands.names, chain_names=demands.chain_names)
    return reduced, closed * (servers - 1) / servers, left_share


def with_open(demands: Demands, closed: ChainSolution, fixed_s: Array,
              left_share: Array) -> ChainSolution:
    """Return the means of a whole queueing network from the means of its closed chains.

    A closed chain is a kind of transaction with a fixed number of customers.
    """
    is_open = demands.population == 0
    servers = np.where(demands.delay, 1, demands.servers).astype(np.float64)
    present = np.where(demands.delay, 0.0, closed.queue.sum(axis=1))
    stretch = (1.0 + present) / left_share / servers + (servers - 1) / servers
    open_s = demands.demand_s * stretch[:, None]
    return ChainSolution(
        np.where(is_open, demands.rate_per_s, closed.throughput_per_s),
        np.where(is_open, open_s, closed.residence_s + fixed_s))


# --- The Linearizer ---
# This fixed point also estimates how queues change with one customer less. It makes two updates of
# these differences. Chandy and Neuse (1982), "Linearizer: a heuristic algorithm for queueing
# network models of computing systems", Communications of the ACM 25(2), 126-134.

LINEARIZER_UPDATES = 2


def solve_linearizer(demands: Demands,
                     epsilon: float = SCHWEITZER_EPSILON) -> ChainSolution:
    """Return approximate means of a queueing network by the Linearizer method.

    Raises:
        QueueingError: Open traffic is above capacity, or no fixed point is found.
    """
    reduced, fixed_s, left_share = single_servers(demands)
    core = _FixedPoint(reduced, reduced.think_s + fixed_s.sum(axis=0), epsilon)
    population = reduced.population.astype(np.float64)
    # change[i, q, k]: growth of chain q's fraction at station i when a customer of chain k leaves.
    change = np.zeros((*reduced.demand_s.shape, population.size))
    guess = spread_customers(reduced.demand_s, population)
    for _ in range(LINEARIZER_UPDATES):
        length = core.solve_fixed_point(population, guess, change).queue
        change = core.update_changes(population, length, change)
        guess = length
    return with_open(demands, core.solve_fixed_point(population, guess, change), fixed_s,
                     left_share)


class _FixedPoint:
    """The inner iteration of the Linearizer, for given differences of queue fractions."""

    def __init__(self, reduced: Demands, pause: Array, epsilon: float) -> None:
        self.reduced = reduced
        self.demand, self.queueing = reduced.demand_s, ~reduced.delay[:, None]
        self.pause, self.epsilon = pause, epsilon

    def solve_fixed_point(self, population: Array, guess: Array, change: Array) -> ChainSolution:
        """Return the means for given numbers of customers, by iteration.

        `population` has shape (Q,). `guess` has the first queue lengths, shape (M, Q).
        """
        length = guess
        # less[q, k]: customers of chain q that an arriving customer of chain k may find.
        less = np.maximum(population[:, None] - np.eye(population.size), 0.0)
        for _ in range(ITERATIONS):
            fraction = _customer_fractions(length, population)
            waiting = ((fraction[:, :, None] + change) * less).sum(axis=1)
            residence = self.demand * (1.0 + np.where(self.queueing, np.maximum(waiting, 0.0), 0.0))
            total = self.pause + residence.sum(axis=0)
            throughput = np.divide(population, total, out=np.zeros_like(total), where=total > 0)
            previous, length = length, throughput * residence
            if is_settled(length, previous, population, self.epsilon):
                return ChainSolution(throughput, residence)
        raise no_convergence_error(self.reduced)

    def update_changes(self, population: Array, length: Array, change: Array) -> Array:
        """Return how queue fractions change if the network has one customer less."""
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
    """Return which fraction of each chain's customers is at each queueing station.

    A chain is a kind of transaction. The fraction is 0 for a chain without customers.
    """
    return np.divide(length, population, out=np.zeros_like(length),
                     where=np.broadcast_to(population > 0, length.shape))
