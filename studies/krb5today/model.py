"""Queueing model of a loaded KDC: its processor, and a delay for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from analysis.cells import Cells, Observation
from analysis.queueing import (
    Chain,
    CustomerClass,
    QueueingNetwork,
    QueueingStation,
    Visit,
    solve_network,
)
from studies.krb5today.body import KDC, RATE, TIME
from studies.krb5today.design import CUSTOMERS, cell_ids
from studies.krb5today.mechanisms import LOADED

_KDC, _REST, _CHAIN = "KDC", "wires and clients", "logins"


@dataclass(frozen=True)
class LoginDemand:
    """Demand of a login: processor time of the KDC, and other time (s)."""

    kdc_s: float
    delay_s: float

    @property
    def capacity_per_s(self) -> float:
        """Return the maximum rate of one processor, in logins per second."""
        return 1 / self.kdc_s

    def login_rate(self, customers: int) -> float:
        """Return the modelled login rate of a number of customers (1/s).

        Each customer logs in again and again. The solution is exact mean value analysis (MVA).
        """
        stations = (QueueingStation(_KDC), QueueingStation(_REST, "delay"))
        visits = (Visit(_KDC, self.kdc_s), Visit(_REST, self.delay_s))
        chain = Chain(_CHAIN, (CustomerClass("login", visits),), population=customers)
        return solve_network(QueueingNetwork(stations, (chain,)),
                             "exact").chain(_CHAIN).throughput_per_s


@dataclass(frozen=True)
class KdcLoad:
    """A measured load with inputs of the model.

    `measured_demand` has the KDC's processor time under this load, `alone` that of a single
    customer.
    """

    mechanism: str
    customers: int
    rate: Observation
    response: Observation | None
    demand: LoginDemand
    alone: LoginDemand

    @property
    def modelled_per_s(self) -> float:
        """Return the modelled login rate (1/s)."""
        return self.demand.login_rate(self.customers)


def measured_demand(cells: Cells, mechanism: str) -> LoginDemand | None:
    """Return the demand of a login from a single customer without a wire.

    Returns None if the cell or its processor time was not measured.
    """
    cell = cell_ids(mechanism, "none")
    kdc, rate = (cells.find_value(metric.name, cell) for metric in (KDC, RATE))
    if kdc is None or rate is None or not kdc.estimate.mean:
        return None
    kdc_s = kdc.estimate.mean
    return LoginDemand(kdc_s, max(0.0, 1 / rate.estimate.mean - kdc_s))


def measured_loads(cells: Cells) -> Iterator[KdcLoad]:
    """Generate all measured loads that can be modelled."""
    for mechanism in LOADED:
        asked = measured_demand(cells, mechanism)
        for customers in CUSTOMERS[1:] if asked else ():
            cell = cell_ids(mechanism, "none", customers=customers)
            rate, kdc = (cells.find_value(metric.name, cell) for metric in (RATE, KDC))
            if rate and kdc and asked:
                yield KdcLoad(mechanism, customers, rate, cells.find_value(TIME.name, cell),
                              LoginDemand(kdc.estimate.mean, asked.delay_s), asked)
