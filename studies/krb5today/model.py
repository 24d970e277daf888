"""Predict by a queueing model how many logins per second a KDC can serve.

A fixed number of users log in again and again. The KDC's processor is the only queue, and
everything else is a delay. `measured_demand` reads both times from measurements of a single user.
`measured_loads` yields each measured number of users with its prediction, for the report of
krb5today.
"""

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
from studies.krb5today.cells import CUSTOMERS, cell_ids
from studies.krb5today.measurements import KDC, RATE, TIME
from studies.krb5today.mechanisms import LOADED

_KDC, _REST, _CHAIN = "KDC", "wires and clients", "logins"


@dataclass(frozen=True)
class LoginDemand:
    """The CPU time of the KDC for a login, and all other time of the login (s)."""

    kdc_s: float
    delay_s: float

    @property
    def capacity_per_s(self) -> float:
        """Return the largest rate of one processor, in logins per second."""
        return 1 / self.kdc_s

    def login_rate(self, customers: int) -> float:
        """Compute the rate of logins (1/s) for a number of users who log in again and again.

        The solution is exact mean value analysis (MVA) of a closed queueing network.
        """
        stations = (QueueingStation(_KDC), QueueingStation(_REST, "delay"))
        visits = (Visit(_KDC, self.kdc_s), Visit(_REST, self.delay_s))
        chain = Chain(_CHAIN, (CustomerClass("login", visits),), population=customers)
        return solve_network(QueueingNetwork(stations, (chain,)),
                             "exact").chain(_CHAIN).throughput_per_s


@dataclass(frozen=True)
class KdcLoad:
    """A measured number of users, with inputs of the queueing model.

    - `rate`, `response`: measured logins per second, and time of a login (None if unknown)
    - `demand`: CPU time of the KDC for a login, and other time, under this load
    - `alone`: these times for a single user
    """

    mechanism: str
    customers: int
    rate: Observation
    response: Observation | None
    demand: LoginDemand
    alone: LoginDemand

    @property
    def modelled_per_s(self) -> float:
        """Return the rate of logins (1/s) that the queueing model predicts."""
        return self.demand.login_rate(self.customers)


def measured_demand(cells: Cells, mechanism: str) -> LoginDemand | None:
    """Return the times of a login, measured with a single user and without a wire.

    The result is None if that was not measured.
    """
    cell = cell_ids(mechanism, "none")
    kdc, rate = (cells.find_value(metric.name, cell) for metric in (KDC, RATE))
    if kdc is None or rate is None or not kdc.estimate.mean:
        return None
    kdc_s = kdc.estimate.mean
    return LoginDemand(kdc_s, max(0.0, 1 / rate.estimate.mean - kdc_s))


def measured_loads(cells: Cells) -> Iterator[KdcLoad]:
    """Yield all measured numbers of users for which the model has inputs."""
    for mechanism in LOADED:
        alone = measured_demand(cells, mechanism)
        for customers in CUSTOMERS[1:] if alone else ():
            cell = cell_ids(mechanism, "none", customers=customers)
            rate, kdc = (cells.find_value(metric.name, cell) for metric in (RATE, KDC))
            if rate and kdc and alone:
                yield KdcLoad(mechanism, customers, rate, cells.find_value(TIME.name, cell),
                              LoginDemand(kdc.estimate.mean, alone.delay_s), alone)
