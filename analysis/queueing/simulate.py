"""Event simulation of a network, with the response time of every customer.

Mean value analysis gives only means, and none for first come first served with unequal service. The
response times of the simulation also give percentiles.

A customer passes its chain's classes in order. Within a class, the visits are repeated in order
until each has its number of visits. A fractional number means one more visit in that share of the
cycles. Service times are gamma distributed with the station's squared coefficient of variation. In
closed networks with constant service everywhere, customers synchronize. Mean value analysis does
not describe such networks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.queueing import intervals
from analysis.queueing.demands import demands_of
from analysis.queueing.errors import QueueingError, choose_from
from analysis.queueing.intervals import Interval
from analysis.queueing.network import Chain, QueueingNetwork, QueueingStation
from analysis.queueing.routes import list_visits
from analysis.queueing.serving import (
    Calendar,
    Customer,
    Delay,
    DrawnVisit,
    Preemptive,
    Queue,
    Sharing,
    StationServer,
)

_BLOCK = 4096  # random numbers drawn at once


@dataclass(frozen=True)
class SimulatedChain:
    """A chain's response times in seconds (without think times), in order of completion."""

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
    """Means of a station over the measured time: share of busy servers, customers present."""

    name: str
    utilization: float
    queue: float


@dataclass(frozen=True)
class Simulation:
    """The results of a simulation after its warm-up."""

    chains: tuple[SimulatedChain, ...]
    stations: tuple[SimulatedStation, ...]

    def chain(self, name: str | None = None) -> SimulatedChain:
        """Return a chain by its name, or the first chain.

        Raises:
            QueueingError: There is no such chain.
        """
        for chain in self.chains:
            if name is None or chain.name == name:
                return chain
        raise QueueingError(f"chain {name!r}", "was not simulated",
                            choose_from(str(name), (chain.name for chain in self.chains)))


def simulate_network(network: QueueingNetwork, rng: np.random.Generator, *,
                     completions: int = 20_000,
                     warmup: float = 0.1,
                     arrivals_s: Mapping[str, NDArray[np.float64]] | None = None) -> Simulation:
    """Simulate `completions` cycles of all chains together after a warm-up.

    The same state of the generator gives the same results.

    Args:
        network: The network.
        rng: The source of random numbers.
        completions: Number of cycles after the warm-up.
        warmup: Additional cycles of the warm-up, as a share of `completions`. The warm-up has at
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
    """A simulation in progress.

    `residence_s` is the total time in seconds that each chain's customers spent at each station, by
    row and chain. `visited` counts their visits.
    """

    def __init__(self, network: QueueingNetwork, rng: np.random.Generator,
                 arrivals_s: dict[str, NDArray[np.float64]]) -> None:
        self.network, self.calendar, self.now = network, Calendar(), 0.0
        self.draw = _Numbers(rng)
        self.servers = [_make_server(station, self.calendar) for station in network.stations]
        self.routes = [_Route(chain, network, self.draw) for chain in network.chains]
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
        """Process events until `finished` returns true."""
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
        """End the warm-up and discard its statistics."""
        self.done, self.start = 0, self.now
        self.responses = [[] for _ in self.responses]
        self.residence_s = [[0.0] * len(row) for row in self.residence_s]
        for server in self.servers:
            server.account(self.now)
            server.busy_s = server.present_s = 0.0

    def to_simulation(self) -> Simulation:
        """Return the results since the warm-up."""
        passed = self.now - self.start
        for server in self.servers:
            server.account(self.now)
        return Simulation(
            chains=tuple(SimulatedChain(chain.name, np.array(seen), len(seen) / passed)
                         for chain, seen in zip(self.network.chains, self.responses, strict=True)),
            stations=tuple(
                SimulatedStation(station.name, server.present_s / passed
                                 if station.discipline == "delay"
                                 else server.busy_s / passed / station.servers,
                                 server.present_s / passed)
                for station, server in zip(self.network.stations, self.servers, strict=True)))


def _make_server(station: QueueingStation, calendar: Calendar) -> StationServer:
    if station.discipline == "delay":
        return Delay(calendar)
    if station.discipline == "priority":
        return Preemptive(calendar, station)
    kind = Sharing if station.discipline == "ps" else Queue
    return kind(calendar, station)


class _Numbers:
    """Random numbers, drawn in blocks.

    Single numbers cost a microsecond each.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.blocks: dict[float, list[float]] = {-1.0: []}

    def draw_work(self, mean: float, variation: float) -> float:
        """Return a service time with this mean and squared coefficient of variation."""
        if variation == 0:
            return mean
        block = self.blocks.setdefault(variation, [])
        if not block:
            draws = (self.rng.standard_exponential(_BLOCK) if variation == 1 else
                     self.rng.standard_gamma(1 / variation, _BLOCK) * variation)
            block.extend(draws.tolist())
        return mean * block.pop()

    def draw_uniform(self) -> float:
        """Return a random number from 0 to 1."""
        block = self.blocks[-1.0]
        if not block:
            block.extend(self.rng.random(_BLOCK).tolist())
        return block.pop()


class _Route:
    """The visits of a chain's cycles, drawn for each cycle."""

    def __init__(self, chain: Chain, network: QueueingNetwork, draw: _Numbers) -> None:
        self.draw = draw
        self.shares = list(chain.shares.items())
        #: Variant, probability of the visit, station, mean, squared coefficient of variation and
        #: urgency.
        self.steps = [(of_variant, chance, *visit)
                      for of_variant, chance, visit in list_visits(chain, network)]
        self.steps.reverse()

    def draw_cycle(self) -> list[DrawnVisit]:
        """Return the visits of one cycle in reverse order."""
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
