"""Demands of a network by station and chain, as arrays for the solvers.

In all solvers, M is the number of stations and Q the number of chains. Arrays over both have shape
(M, Q). A demand is the service time of all visits in one cycle, D = v s, in seconds. A residence
time R = v W also counts all visits of a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.queueing.errors import QueueingError
from analysis.queueing.network import QueueingNetwork

Array = NDArray[np.float64]
#: Rounding error of a utilization, as a share of 100 %.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Demands:
    """Arrays of a network for the solvers.

    `demand_s` has shape (M, Q), `delay` and `servers` have shape (M,), the other arrays shape (Q,).
    `population` is 0 for open chains, `rate_per_s` is 0 for closed chains. `think_s` is Z.
    """

    demand_s: Array
    delay: NDArray[np.bool_]
    servers: NDArray[np.int64]
    population: NDArray[np.int64]
    rate_per_s: Array
    think_s: Array
    names: tuple[str, ...] = ()
    chain_names: tuple[str, ...] = ()

    @property
    def offered(self) -> Array:
        """Return the work that open chains bring to each station.

        It is in busy servers and has shape (M,).
        """
        return self.demand_s @ self.rate_per_s

    def check_stable(self) -> None:
        """Check that open chains alone do not saturate a station.

        Raises:
            QueueingError: A station is saturated.
        """
        saturated = self.find_saturated()
        if saturated:
            raise saturated[0][1]

    def find_saturated(self) -> list[tuple[int, QueueingError]]:
        """Return the stations that open chains saturate, the most loaded first.

        Each has its row and the error that explains it.
        """
        busy = np.where(self.delay, 0.0, self.offered / self.servers)
        rows = [int(row) for row in np.argsort(-busy, kind="stable") if busy[row] >= 1 - _ROUNDING]
        return [(row, self._saturation_error(row, float(busy[row]))) for row in rows]

    def _saturation_error(self, row: int, busy: float) -> QueueingError:
        name = repr(self.names[row]) if self.names else str(row)
        columns = np.flatnonzero((self.demand_s[row] > 0) & (self.rate_per_s > 0))
        chains = [self.chain_names[column] if self.chain_names else str(column)
                  for column in columns]
        if len(columns) == 1:
            rate = float(self.rate_per_s[columns[0]])
            advice = (f"lower rate_per_s of {chains[0]} from {rate:.6g} to less than "
                      f"{rate / busy:.6g}")
        else:
            advice = (f"lower rate_per_s of {', '.join(chains)} together to less than "
                      f"{1 / busy:.4g} of what they are")
        return QueueingError(
            f"station {name}", f"open chains bring {busy:.1%} of the work that it can do, so that "
            "its queue grows without limit", advice)


@dataclass(frozen=True)
class ChainSolution:
    """The result of a solver.

    `throughput_per_s` is in cycles per second, shape (Q,). `residence_s` is in seconds per cycle,
    shape (M, Q).
    """

    throughput_per_s: Array
    residence_s: Array

    @property
    def queue(self) -> Array:
        """Return the mean number of customers present, by Little's law.

        This is (B.4). The shape is (M, Q).
        """
        return self.residence_s * self.throughput_per_s


def demands_of(network: QueueingNetwork) -> Demands:
    """Return the arrays of a network, with classes summed by chain.

    The sum is D_iq = sum_r v_ir s_ir.
    """
    rows = network.index
    demand = np.zeros((len(network.stations), len(network.chains)))
    for column, chain in enumerate(network.chains):
        for member in chain.classes:
            share = chain.share(member)
            for visit in member.visits:
                demand[rows[visit.station], column] += share * visit.visits * visit.service_s
    stations, chains = network.stations, network.chains
    return Demands(
        demand_s=demand,
        delay=np.array([station.discipline == "delay" for station in stations], dtype=np.bool_),
        servers=np.array([station.servers for station in stations], dtype=np.int64),
        population=np.array([chain.population or 0 for chain in chains], dtype=np.int64),
        rate_per_s=np.array([chain.rate_per_s or 0.0 for chain in chains]),
        think_s=np.array([chain.think_s for chain in chains]),
        names=tuple(rows), chain_names=tuple(chain.name for chain in chains))


def has_product_form(network: QueueingNetwork) -> bool:
    """Return whether exact means of the network can be computed in principle."""
    try:
        check_product_form(network)
    except QueueingError:
        return False
    return True


def check_product_form(network: QueueingNetwork) -> None:
    """Check that every station has a product form (BCMP 1975).

    First come first served has a product form only with exponential service of one mean for all
    customers. Processor sharing and delay have a product form with any service (Baskett, Chandy,
    Muntz and Palacios 1975; 2002 paper, appendix B). Priorities and a longer first service have
    none.

    Raises:
        QueueingError: A station has no product form.
    """
    for station in network.stations:
        if station.is_cold:
            raise QueueingError(f"station {station.name!r}", "a first customer who takes longer "
                                "has no exact mean values", "leave warm_up_s out, or simulate it")
        if station.discipline == "priority":
            raise QueueingError(f"station {station.name!r}", "priorities have no exact mean values",
                                "use discipline ps, or simulate it")
        if station.discipline != "fcfs":
            continue
        means = [visit.service_s for chain in network.chains for member in chain.classes
                 for visit in member.visits
                 if visit.station == station.name and visit.visits * chain.share(member) > 0]
        if means and (station.variation != 1 or max(means) - min(means) > 1e-9 * max(means)):
            raise QueueingError(
                f"station {station.name!r}",
                "first come first served with unequal or not exponential service has no exact "
                "mean values", "use discipline ps, or simulate it")
