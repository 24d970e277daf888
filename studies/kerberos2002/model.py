"""The paper's queueing model, built from classes, visits and service times in records.

A transaction is one chain whose customer switches classes from visit to visit. Processors are
shared. Everything else (wires, the client's own processor) is a delay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.cells import Cells, Ids
from analysis.queueing import (
    Chain,
    CustomerClass,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
    intervals,
    solve_network,
)
from analysis.queueing.solve import Method
from studies.kerberos2002.body import RESPONSES
from studies.kerberos2002.places import SERVERS

#: Parties whose processors customers share. Each client has a processor of its own.
SHARED = ("kdc-l", "kdc-r", "proxy", *SERVERS)
#: Classes of visits, by their names in records.
CLASSES = ("AS-REQ", "PKINIT AS-REQ", "PKCROSS AS-REQ", "TGS-REQ", "cross-realm TGS-REQ", "AP-REQ",
           "proxied AS-REQ", "proxied PKINIT AS-REQ", "proxied TGS-REQ", "proxied AP-REQ")
_DELAY, _CHAIN = "wires and client", "transaction"


def column_name(kind: str, party: str, name: str) -> str:
    """Return the column of a party's class: `visits` per transaction or `service` time (s)."""
    slug = f"{party}_{name}".replace("-", "_").replace(" ", "_").lower()
    return f"{kind}_{slug}" + ("_s" if kind == "service" else "")


@dataclass(frozen=True)
class Transaction:
    """Demands of one transaction on processors.

    `visits` has the number of visits and the service time of each (s), by party and class.
    `delay_s` is the part of a single customer's response time that no shared processor explains.
    """

    visits: Mapping[tuple[str, str], tuple[float, float]]
    delay_s: float

    def demand_s(self, party: str) -> float:
        """Return the processor seconds of a party."""
        return sum(count * each_s for (where, _), (count, each_s) in self.visits.items()
                   if where == party)

    @property
    def bottleneck(self) -> str:
        """Return the party that saturates first."""
        return max({party for party, _ in self.visits}, key=self.demand_s)

    @property
    def capacity_per_s(self) -> float:
        """Return the largest number of transactions per second."""
        return 1 / self.demand_s(self.bottleneck)

    def with_faster_processors(self, speed: float, *parties: str) -> Transaction:
        """Return the transaction with faster processors of the named parties, or of all."""
        return replace(self, visits={
            (party, name): (count, each_s / (speed if not parties or party in parties else 1))
            for (party, name), (count, each_s) in self.visits.items()})

    def to_network(self, customers: int) -> QueueingNetwork:
        """Return the closed queueing network with class switching."""
        parties = list(dict.fromkeys(party for party, _ in self.visits))
        classes = [CustomerClass(f"{name} at {party}", (Visit(party, each_s, count),))
                   for (party, name), (count, each_s) in self.visits.items()]
        classes.append(CustomerClass("under way", (Visit(_DELAY, self.delay_s),)))
        stations = [QueueingStation(party) for party in parties]
        return QueueingNetwork((*stations, QueueingStation(_DELAY, "delay")),
                               (Chain(_CHAIN, tuple(classes), population=customers),))

    def to_chain(self, name: str, customers: int) -> tuple[list[str], Chain]:
        """Return the parties that the transaction visits, and its chain."""
        network = self.to_network(customers)
        return [station.name for station in network.stations[:-1]], replace(
            network.chains[0], name=name)

    def mean_performance(self, customers: int, method: Method = "exact") -> tuple[float, float]:
        """Return throughput (1/s) and response time (s) with this number of customers."""
        solved = solve_network(self.to_network(customers), method).chain(_CHAIN)
        return solved.throughput_per_s, solved.response_s


def transaction_of(cells: Cells, cell: Ids) -> Transaction | None:
    """Build the transaction of a one-customer cell, or None if it was not measured."""
    visits = {place: pair for place, pair in _visits_of(cells, cell).items() if place[0] in SHARED}
    response = mean_of(cells, "transaction_s", cell)
    if not visits or response is None:
        return None
    asked = Transaction(visits, 0.0)
    own_s = sum(asked.demand_s(party) for party in {party for party, _ in visits})
    return replace(asked, delay_s=max(0.0, response - own_s))


def _visits_of(cells: Cells, cell: Ids) -> dict[tuple[str, str], tuple[float, float]]:
    pairs = {}
    for party in SHARED:
        for name in CLASSES:
            count = mean_of(cells, column_name("visits", party, name), cell)
            each_s = mean_of(cells, column_name("service", party, name), cell)
            if count and each_s:
                pairs[party, name] = (count, each_s)
    return pairs


def mean_of(cells: Cells, name: str, cell: Ids) -> float | None:
    """Return the mean of a value in a cell, or None if there is none."""
    value = cells.find_value(name, cell)
    return value.estimate.mean if value else None


def half_width(cells: Cells, cell: Ids) -> float | None:
    """Return the half-width of the mean response time's relative 95 % interval.

    It comes from batch means.
    """
    times = [value for row in cells.good_rows(cell)
             for value in cells.results.samples[row].get(RESPONSES.name, ())]
    try:
        interval = intervals.mean_interval(np.array(times))
    except QueueingError:
        return None
    return (interval.high - interval.low) / 2 / interval.value


def response_curve(demands: Transaction, customers: Sequence[int]) -> list[tuple[float, float]]:
    """Return throughput (1/s) and response time (s) for each number of customers."""
    return [demands.mean_performance(count) for count in customers]


def mixed_response_times(first: Transaction, second: Transaction, customers: tuple[int, int],
                         method: Method = "exact") -> tuple[float, float]:
    """Return the response times (s) of two kinds of customers who share processors."""
    parts = [asked.to_chain(name, count) for asked, name, count in
             zip((first, second), ("first", "second"), customers, strict=True)]
    parties = dict.fromkeys(party for names, _ in parts for party in names)
    stations = (*(QueueingStation(party) for party in parties), QueueingStation(_DELAY, "delay"))
    solved = solve_network(QueueingNetwork(stations, tuple(chain for _, chain in parts)), method)
    return solved.chain("first").response_s, solved.chain("second").response_s
