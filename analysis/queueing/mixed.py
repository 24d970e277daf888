"""Exact solution of open, closed and mixed networks.

Open chains take their share of each station first. Closed customers then see a slower station, and
open customers see the closed customers present. Without closed chains a station is an M/M/1, M/M/c
(Erlang C) or M/G/infinity queue.

Reiser and Kobayashi (1975); Lazowska et al. (1984), 7.4; for several servers Bruell, Balbo and
Afshari (1984).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.queueing import exact
from analysis.queueing.demands import Array, ChainSolution, Demands


def solve_exact(demands: Demands) -> ChainSolution:
    """Return the exact means.

    Raises:
        QueueingError: Open traffic is above capacity, or there are too many states.
    """
    demands.check_stable()
    if not demands.rate_per_s.any():
        return exact.as_chain_solution(exact.solve_closed(exact.plain_closed(demands)))
    closed = exact.solve_closed(closed_model(demands))
    throughput = np.where(demands.rate_per_s > 0, demands.rate_per_s, closed.throughput_per_s)
    residence = closed.residence_s.copy()
    stretch = _open_stretch(demands, closed)
    is_open = demands.population == 0
    residence[:, is_open] = (demands.demand_s * stretch[:, None])[:, is_open]
    return ChainSolution(throughput, residence)


def closed_model(demands: Demands) -> exact.ClosedModel:
    """Return the model of the closed chains, with stations slowed down by open traffic."""
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
            rates[int(row)] = exact.server_rates(count, total)
    return exact.ClosedModel(demand_s=demand, think_s=demands.think_s,
                             population=demands.population, delay=demands.delay, rates=rates)


def _open_stretch(demands: Demands, closed: exact.ClosedSolution) -> Array:
    """Return the ratio of residence time to demand of open customers by station."""
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
    """Open customers at a station of c servers, given the number of closed customers there.

    Let n closed and m open customers be present. The station's weight is C(n + m, m) offered^m
    divided by the product of the rates min(k, c), k = 1 to n + m. C(n + m, m) is the number of
    orders of the customers. All sums over m have positive terms. Those below c servers are added
    one by one, and the tail is an incomplete beta function. `offered` is in busy servers, below
    `servers`.
    """

    servers: int
    offered: float

    def rates(self, closed: int) -> Array:
        """Return the rates a(j) that closed customers see.

        The rate is a(j) = w(j - 1) / w(j), for j = 1 to closed + 1.
        """
        weights = self._log_sums(closed + 1, moment=0)
        return np.exp(weights[:-1] - weights[1:])

    def mean_present(self, closed: int) -> Array:
        """Return the mean number of open customers for 0 to `closed` closed customers present."""
        weights, firsts = (self._log_sums(closed, moment=moment) for moment in (0, 1))
        return np.exp(firsts - weights)

    def _log_sums(self, closed: int, moment: int) -> Array:
        """Return the logarithms of the moments' sums for n = 0 to `closed`.

        The sums are sum_m m^moment weight(n, m).
        """
        counts = np.arange(closed + 1)
        return np.array([special.logsumexp([self._log_head(int(n), moment),
                                            self._log_tail(int(n), moment)]) for n in counts])

    def _log_head(self, n: int, moment: int) -> float:
        """Return the logarithm of the terms with fewer than c customers, each with a server."""
        m = np.arange(moment, self.servers - n, dtype=np.int64)
        if not m.size:
            return -np.inf
        terms = (_log_orders(n, m) + m * np.log(self.offered) - special.gammaln(n + m + 1)
                 + (np.log(m) if moment else 0.0))
        return float(special.logsumexp(terms))

    def _log_tail(self, n: int, moment: int) -> float:
        """Return the logarithm of the other terms, the tail of a negative binomial.

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
    """Return log C(n + m, m)."""
    return np.asarray(special.gammaln(n + m + 1) - special.gammaln(n + 1)
                      - special.gammaln(m + 1), dtype=np.float64)
