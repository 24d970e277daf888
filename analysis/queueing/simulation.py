"""Simulate a queueing network event by event, with the response time of every transaction.

Mean value analysis gives only means, and none for first come first served with unequal service.
`simulate_network` takes a network and a random generator. The result has all response times, for
percentiles, and the utilization of each station (server). The stations come first in this file, by
queueing discipline, and then the run that sends customers (transactions) through them.

A customer passes its chain's classes (steps) in order. Within a class, the visits are repeated in
order until each has its number of visits. A fractional number means one more visit in that fraction
of the cycles. Service times are gamma distributed with the station's squared coefficient of
variation. In closed networks with constant service everywhere, customers synchronize. Mean value
analysis does not describe such networks. The terms are those of `analysis.queueing.network`.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from analysis.queueing import intervals
from analysis.queueing.intervals import Interval
from analysis.queueing.network import (
    Chain,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    demands_of,
    suggest_word,
)
from analysis.queueing.routing import list_visits

# --- Stations, by queueing discipline ---
# Each station schedules the time at which its next customer leaves. Processor sharing uses attained
# service: every present customer gains the same amount, so only the smallest finish matters
# (Kleinrock 1976, 4.4). An event then costs O(log n).

class DrawnVisit(NamedTuple):
    """A future visit of a simulated customer to a station.

    `station` is the station's row, and `work_s` the seconds of service by one server.
    """

    station: int
    work_s: float
    is_urgent: bool = False


@dataclass(slots=True)
class Customer:
    """A simulated customer (a transaction in progress).

    `since` is the time of its arrival in the network. `left` has its future visits in reverse
    order. `station` is where the customer is, and `came` is the time of its arrival there.
    """

    chain: int
    since: float
    left: list[DrawnVisit] = field(default_factory=list)
    station: int = -1
    came: float = 0.0


class EventCalendar:
    """The future events of a simulation in order of time, then in order of entry."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, StationServer | None, int, Customer]] = []
        self.entered = 0

    def add_event(self, time: float, server: StationServer | None, token: int,
                  customer: Customer) -> None:
        """Add an event to the simulation: a transaction arrives, or its service ends.

        `server` is None for an arrival from outside or after a pause.
        """
        self.entered += 1
        heapq.heappush(self.heap, (time, self.entered, server, token, customer))


class StationServer(Protocol):
    """A simulated service station (server with its queue)."""

    busy_s: float
    present_s: float

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer that needs `work_s` seconds of one server."""

    def leave(self, now: float, token: int, customer: Customer) -> Customer | None:
        """Return the customer that leaves now, or None if the event is outdated."""

    def account(self, now: float) -> None:
        """Add the time since the last call to the station's statistics.

        These are on busy servers and on customers present.
        """


class DelayStation:
    """A simulated station that serves all customers at once (a pure delay)."""

    def __init__(self, calendar: EventCalendar) -> None:
        self.calendar = calendar
        self.present, self.last = 0, 0.0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer, whose service starts at once."""
        self.account(now)
        self.present += 1
        self.calendar.add_event(now + visit.work_s, self, 0, customer)

    def leave(self, now: float, _token: int, customer: Customer) -> Customer | None:
        """Return the customer whose service ends now."""
        self.account(now)
        self.present -= 1
        return customer

    def account(self, now: float) -> None:
        """Add the time since the last call to the statistics.

        At this station, each customer is served at once.
        """
        self.present_s += self.present * (now - self.last)
        self.busy_s = self.present_s
        self.last = now


class QueueStation:
    """A simulated queueing station that serves in order of arrival, one customer per server.

    A customer is a transaction in progress.
    """

    def __init__(self, calendar: EventCalendar, station: QueueingStation) -> None:
        self.calendar, self.station, self.servers = calendar, station, station.servers
        self.left_s = -math.inf
        self.waiting: deque[tuple[Customer, float]] = deque()
        self.serving, self.last = 0, 0.0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer, and start its service if a server is free."""
        self.account(now)
        work_s = visit.work_s
        if not self.serving:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        if self.serving < self.servers:
            self.serving += 1
            self.calendar.add_event(now + work_s, self, 0, customer)
        else:
            self.waiting.append((customer, work_s))

    def leave(self, now: float, _token: int, customer: Customer) -> Customer | None:
        """Return the customer whose service ends now, and serve the next one."""
        self.account(now)
        if self.waiting:
            following, work_s = self.waiting.popleft()
            self.calendar.add_event(now + work_s, self, 0, following)
        else:
            self.serving -= 1
        self.left_s = now
        return customer

    def account(self, now: float) -> None:
        """Add the time since the last call to the station's statistics."""
        passed = now - self.last
        self.busy_s += self.serving * passed
        self.present_s += (self.serving + len(self.waiting)) * passed
        self.last = now


class SharingStation:
    """A simulated queueing station whose servers are divided equally among all present.

    n customers use c servers together, and each uses at most one server.
    """

    def __init__(self, calendar: EventCalendar, station: QueueingStation) -> None:
        self.calendar, self.station, self.servers = calendar, station, station.servers
        self.left_s = -math.inf
        self.present: list[tuple[float, int, Customer]] = []
        self.attained = self.last = 0.0
        self.token = 0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer, which slows down all others at the station."""
        self.account(now)
        work_s = visit.work_s
        if not self.present:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        self.token += 1
        heapq.heappush(self.present, (self.attained + work_s, self.token, customer))
        self._schedule_departure(now)

    def leave(self, now: float, token: int, _customer: Customer) -> Customer | None:
        """Return the customer with the shortest remaining service, which leaves now.

        The result is None if a customer came or left since the event was scheduled.
        """
        if token != self.token:
            return None
        self.account(now)
        # Set this value instead of adding to it, so that rounding errors do not delay a customer.
        self.attained, _, customer = heapq.heappop(self.present)
        self.token += 1
        self.left_s = now
        if self.present:
            self._schedule_departure(now)
        else:
            self.attained = 0.0
        return customer

    def _schedule_departure(self, now: float) -> None:
        finish, _, customer = self.present[0]
        n = len(self.present)
        rate = 1.0 if n <= self.servers else self.servers / n
        self.calendar.add_event(now + max(finish - self.attained, 0.0) / rate, self, self.token,
                                customer)

    def account(self, now: float) -> None:
        """Add the time since the last call to the station's statistics, and to the service done."""
        n, passed = len(self.present), now - self.last
        if n:
            working = min(n, self.servers)
            self.attained += passed * working / n
            self.busy_s += working * passed
            self.present_s += n * passed
        self.last = now


@dataclass(slots=True)
class _ServedCustomer:
    customer: Customer
    left_s: float


class PreemptiveStation:
    """A simulated station with one server, where urgent customers interrupt others.

    Customers of the same kind are served in order of arrival.
    """

    def __init__(self, calendar: EventCalendar, station: QueueingStation) -> None:
        self.calendar, self.station = calendar, station
        self.urgent: deque[_ServedCustomer] = deque()
        self.usual: deque[_ServedCustomer] = deque()
        self.left_s, self.last = -math.inf, 0.0
        self.token = 0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer.

        If urgent, it interrupts a service, which resumes later.
        """
        self.account(now)
        before, work_s = self._first_customer(), visit.work_s
        if before is None:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        (self.urgent if visit.is_urgent else self.usual).append(_ServedCustomer(customer, work_s))
        if self._first_customer() is not before:
            self._schedule_departure(now)

    def leave(self, now: float, token: int, _customer: Customer) -> Customer | None:
        """Return the customer whose service ends now.

        The result is None if the event is outdated, because the server was taken since it was
        scheduled.
        """
        if token != self.token:
            return None
        self.account(now)
        served = (self.urgent or self.usual).popleft()
        self.left_s = now
        self._schedule_departure(now)
        return served.customer

    def account(self, now: float) -> None:
        """Add the time since the last call to the statistics, and to the service in progress."""
        passed, first = now - self.last, self._first_customer()
        if first is not None:
            first.left_s -= passed
            self.busy_s += passed
            self.present_s += (len(self.urgent) + len(self.usual)) * passed
        self.last = now

    def _first_customer(self) -> _ServedCustomer | None:
        return next(iter(self.urgent or self.usual), None)

    def _schedule_departure(self, now: float) -> None:
        self.token += 1
        if (first := self._first_customer()) is not None:
            self.calendar.add_event(now + max(first.left_s, 0.0), self, self.token, first.customer)


# --- Simulation of all chains together, and its results ---

_RANDOM_BLOCK = 4096  # random numbers drawn at once


@dataclass(frozen=True)
class SimulatedChain:
    """The simulated response times of a chain in seconds, in order of completion.

    A chain is a kind of transaction. Think times are not included.
    """

    name: str
    responses_s: NDArray[np.float64]
    throughput_per_s: float

    def mean(self) -> Interval:
        """Return the mean response time in seconds."""
        return intervals.mean_interval(self.responses_s)

    def percentile(self, percent: float) -> Interval:
        """Return a percentile of the response time in seconds."""
        return intervals.percentile_interval(self.responses_s, percent)


@dataclass(frozen=True)
class SimulatedStation:
    """The simulated means of a queueing station: busy servers (fraction), and customers present.

    A customer is a transaction in progress.
    """

    name: str
    utilization: float
    queue: float


@dataclass(frozen=True)
class Simulation:
    """The results of a simulated queueing network after its warm-up."""

    chains: tuple[SimulatedChain, ...]
    stations: tuple[SimulatedStation, ...]

    def chain(self, name: str | None = None) -> SimulatedChain:
        """Return the simulated response times of a kind of transaction (chain) by its name.

        Without a name, the first chain is returned.

        Raises:
            QueueingError: There is no such chain.
        """
        for chain in self.chains:
            if name is None or chain.name == name:
                return chain
        raise QueueingError(f"chain {name!r}", "was not simulated",
                            suggest_word(str(name), (chain.name for chain in self.chains)))


def simulate_network(network: QueueingNetwork, rng: np.random.Generator, *,
                     completions: int = 20_000,
                     warmup: float = 0.1,
                     arrivals_s: Mapping[str, NDArray[np.float64]] | None = None) -> Simulation:
    """Simulate a queueing network until `completions` transactions have ended after a warm-up.

    The same state of the generator gives the same results.

    Args:
        network: The network.
        rng: The source of random numbers.
        completions: Number of cycles after the warm-up.
        warmup: Additional cycles of the warm-up, as a fraction of `completions`. The warm-up has at
            least two cycles of every closed customer, because all of them begin at the same time.
        arrivals_s: Arrival times in seconds (ascending) by the name of an open chain, instead of
            Poisson arrivals. Then all of these customers are simulated, `completions` is ignored,
            and there is no warm-up.

    Raises:
        QueueingError: Open traffic is above capacity and its arrivals are not given.
    """
    if arrivals_s:
        _check_arrivals(network, arrivals_s)
    else:
        demands_of(network).check_stable()
    run = SimulationRun(network, rng, dict(arrivals_s or {}))
    if arrivals_s:
        run.run_until(lambda: run.traced == 0)
    else:
        population = sum(chain.population or 0 for chain in network.chains)
        discarded = max(int(completions * warmup), 2 * population)
        run.run_until(lambda: run.done >= discarded)
        run.end_warm_up()
        run.run_until(lambda: run.done >= completions)
    return run.to_simulation()


def _check_arrivals(network: QueueingNetwork,
                    arrivals_s: Mapping[str, NDArray[np.float64]]) -> None:
    for name, times in arrivals_s.items():
        where = f"arrivals of chain {name!r}"
        if not network.chain(name).is_open:
            raise QueueingError(where, "the chain is closed", "give arrivals of open chains only")
        if not len(times) or (np.diff(times) < 0).any() or times[0] < 0:
            raise QueueingError(where, "are no ascending instants from 0 on", "sort them")


class SimulationRun:
    """A running simulation of a queueing network.

    `residence_s` is the total time in seconds that each chain's customers spent at each station, by
    row and chain. `visited` counts their visits.
    """

    def __init__(self, network: QueueingNetwork, rng: np.random.Generator,
                 arrivals_s: dict[str, NDArray[np.float64]]) -> None:
        self.network, self.calendar, self.now = network, EventCalendar(), 0.0
        self.draw = _RandomNumbers(rng)
        self.servers = [_make_server(station, self.calendar) for station in network.stations]
        self.routes = [_RouteSampler(chain, network, self.draw) for chain in network.chains]
        self.responses: list[list[float]] = [[] for _ in network.chains]
        self.residence_s = [[0.0] * len(network.chains) for _ in network.stations]
        self.done, self.visited, self.start = 0, 0, 0.0
        self.traced = sum(map(len, arrivals_s.values()))
        self.traces = {q: iter(arrivals_s[chain.name].tolist())
                       for q, chain in enumerate(network.chains) if chain.name in arrivals_s}
        for q, chain in enumerate(network.chains):
            for _ in range(1 if chain.is_open else chain.population or 0):
                self._next_arrival(q)
        if not self.calendar.heap:
            raise QueueingError("network", "nobody is in it", "give a population or rate above 0")

    def _next_arrival(self, q: int) -> None:
        chain = self.network.chains[q]
        if q in self.traces:
            time = next(self.traces[q], None)
            if time is None:
                return
        elif chain.is_open:
            if not chain.rate_per_s:
                return
            time = self.now + self.draw.draw_work(1.0 / chain.rate_per_s, 1.0)
        else:
            time = self.now + (self.draw.draw_work(chain.think_s, 1.0) if chain.think_s else 0.0)
        self.calendar.add_event(time, None, 0, Customer(q, time))

    def run_until(self, finished: Callable[[], bool]) -> None:
        """Process simulated events until `finished` returns true."""
        heap = self.calendar.heap
        while not finished():
            self.now, _, server, token, customer = heapq.heappop(heap)
            if server is None:
                self._admit_customer(customer)
                continue
            leaving = server.leave(self.now, token, customer)
            if leaving is None:
                continue
            self.residence_s[leaving.station][leaving.chain] += self.now - leaving.came
            if leaving.left:
                self._start_visit(leaving)
            else:
                self._finish_cycle(leaving)

    def _admit_customer(self, customer: Customer) -> None:
        if self.network.chains[customer.chain].is_open:
            self._next_arrival(customer.chain)
        customer.left = self.routes[customer.chain].draw_cycle()
        if customer.left:
            self._start_visit(customer)
        else:
            self._finish_cycle(customer)

    def _start_visit(self, customer: Customer) -> None:
        visit = customer.left.pop()
        customer.station, customer.came = visit.station, self.now
        self.visited += 1
        self.servers[visit.station].arrive(self.now, customer, visit)

    def _finish_cycle(self, customer: Customer) -> None:
        self.done += 1
        self.responses[customer.chain].append(self.now - customer.since)
        if customer.chain in self.traces:
            self.traced -= 1
        elif not self.network.chains[customer.chain].is_open:
            self._next_arrival(customer.chain)

    def end_warm_up(self) -> None:
        """End the warm-up of the simulation and discard its statistics."""
        self.done, self.start = 0, self.now
        self.responses = [[] for _ in self.responses]
        self.residence_s = [[0.0] * len(row) for row in self.residence_s]
        for server in self.servers:
            server.account(self.now)
            server.busy_s = server.present_s = 0.0

    def to_simulation(self) -> Simulation:
        """Return the results of the simulation since its warm-up."""
        passed = self.now - self.start
        for server in self.servers:
            server.account(self.now)
        return Simulation(
            chains=tuple(SimulatedChain(chain.name, np.array(times), len(times) / passed)
                         for chain, times in zip(self.network.chains, self.responses, strict=True)),
            stations=tuple(
                SimulatedStation(station.name, server.present_s / passed
                                 if station.discipline == "delay"
                                 else server.busy_s / passed / station.servers,
                                 server.present_s / passed)
                for station, server in zip(self.network.stations, self.servers, strict=True)))


def _make_server(station: QueueingStation, calendar: EventCalendar) -> StationServer:
    if station.discipline == "delay":
        return DelayStation(calendar)
    if station.discipline == "priority":
        return PreemptiveStation(calendar, station)
    kind = SharingStation if station.discipline == "ps" else QueueStation
    return kind(calendar, station)


class _RandomNumbers:
    """A source of random numbers that draws them in blocks, because single ones are slow.

    Single numbers cost a microsecond each.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.blocks: dict[float, list[float]] = {-1.0: []}

    def draw_work(self, mean: float, variation: float) -> float:
        """Return a random service time with this mean and squared coefficient of variation."""
        if variation == 0:
            return mean
        block = self.blocks.setdefault(variation, [])
        if not block:
            draws = (self.rng.standard_exponential(_RANDOM_BLOCK) if variation == 1 else
                     self.rng.standard_gamma(1 / variation, _RANDOM_BLOCK) * variation)
            block.extend(draws.tolist())
        return mean * block.pop()

    def draw_uniform(self) -> float:
        """Return a random number from 0 to 1."""
        block = self.blocks[-1.0]
        if not block:
            block.extend(self.rng.random(_RANDOM_BLOCK).tolist())
        return block.pop()


class _RouteSampler:
    """A source of random visits to queueing stations, for the transactions of a chain."""

    def __init__(self, chain: Chain, network: QueueingNetwork, draw: _RandomNumbers) -> None:
        self.draw = draw
        self.shares = list(chain.shares.items())
        #: Variant, probability of the visit, station, mean, squared coefficient of variation and
        #: urgency.
        self.steps = [(of_variant, chance, *visit)
                      for of_variant, chance, visit in list_visits(chain, network)]
        self.steps.reverse()

    def draw_cycle(self) -> list[DrawnVisit]:
        """Return the visits to queueing stations of one random transaction, the last visit first.

        The transaction has a random variant. It makes the visits of this variant, and the visits
        that belong to all variants. A visit whose probability is below 1 may be left out.
        """
        variant = self._draw_variant()
        draw = self.draw
        return [DrawnVisit(station, draw.draw_work(mean, variation), is_urgent)
                for of_variant, chance, station, mean, variation, is_urgent in self.steps
                if (of_variant is None or of_variant == variant)
                and (chance == 1 or draw.draw_uniform() < chance)]

    def _draw_variant(self) -> str | None:
        if not self.shares:
            return None
        point = self.draw.draw_uniform()
        for name, share in self.shares:
            point -= share
            if point < 0:
                return name
        return self.shares[-1][0]
