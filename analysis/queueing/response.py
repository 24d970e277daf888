"""Response time distributions of chains for which they are known exactly.

There are two cases:

- A cycle visits one queue, and delays. Its times are independent, because Poisson arrivals stay
  Poisson after a delay and after stations with a product form (Burke 1956).
- A cycle visits several queues. Each serves in order of arrival with exponential service, and no
  customer can overtake another on the way (Walrand and Varaiya 1980). Only the first and the last
  queue may have several servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from analysis.queueing.network import Chain, QueueingNetwork
from analysis.queueing.routes import PlannedVisit, PossibleCycle, list_cycles
from analysis.queueing.sojourn import (
    PoissonVisits,
    SojournTime,
    closed_sojourn,
    delay_sojourn,
    find_sojourn,
    is_markovian,
)
from analysis.queueing.transforms import tail_of


@dataclass(frozen=True)
class _CycleTime:
    """The response time of a cycle: a sum of independent sojourn times."""

    probability: float
    sojourns: tuple[SojournTime, ...]

    @cached_property
    def constant_s(self) -> float:
        return sum(each.constant_s for each in self.sojourns)

    def tail(self, time_s: float) -> float:
        transforms = [each.transform for each in self.sojourns if each.transform is not None]
        rest_s = time_s - self.constant_s
        if rest_s < 0:
            return 1.0
        if not transforms:
            return 0.0

        def product(s: NDArray[np.complex128]) -> NDArray[np.complex128]:
            return reduce(np.multiply, (each(s) for each in transforms))

        return min(1.0, max(0.0, tail_of(product, max(rest_s, 1e-9 * max(time_s, 1e-9)))))


@dataclass(frozen=True)
class ResponseTime:
    """The distribution of a chain's response times."""

    cycles: tuple[_CycleTime, ...]

    @property
    def mean_s(self) -> float:
        """Return the mean response time in seconds."""
        return sum(cycle.probability * sojourn.mean_s
                   for cycle in self.cycles for sojourn in cycle.sojourns)

    def tail(self, time_s: float) -> float:
        """Return the probability of a longer response time."""
        return sum(cycle.probability * cycle.tail(time_s) for cycle in self.cycles)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the response time in seconds."""
        rest = 1.0 - percent / 100
        high = max(self.mean_s, 1e-12)
        while self.tail(high) > rest:
            high *= 2.0
        low = 0.0
        if self.tail(low + 1e-9 * high) <= rest:
            return low
        from scipy import optimize  # large, and left out of the container image

        found: float = optimize.brentq(lambda time_s: self.tail(time_s) - rest, 1e-9 * high, high,
                                       rtol=1e-9)
        return found


def find_response(network: QueueingNetwork, chain: Chain) -> ResponseTime | None:
    """Return the distribution of a chain's response times, or None if not known exactly."""
    cycles = list_cycles(chain, network)
    if cycles is None:
        return None
    if not chain.is_open:
        return _closed_response(network, chain, cycles)
    traffic = _Traffic(network)
    times = [traffic.cycle_time(cycle) for cycle in cycles]
    found = tuple(time for time in times if time is not None)
    return ResponseTime(found) if len(found) == len(times) else None


def find_means(network: QueueingNetwork) -> dict[tuple[int, str], float] | None:
    """Return mean residence times per cycle in seconds, by station's row and chain.

    The result is None where not all are known. Means are known wherever each station has Poisson
    arrivals, unlike distributions.
    """
    traffic = _Traffic(network)
    means: dict[tuple[int, str], float] = {}
    for chain in network.chains:
        cycles = traffic.cycles.get(chain.name)
        if cycles is None:
            return None
        for cycle in cycles:
            for visit in cycle.visits:
                sojourn = traffic.sojourn_time(visit)
                if sojourn is None:
                    return None
                place = visit.station, chain.name
                means[place] = means.get(place, 0.0) + cycle.probability * sojourn.mean_s
    return means


class _Traffic:
    """The visits of open chains to each station, and the routes between stations."""

    def __init__(self, network: QueueingNetwork) -> None:
        self.stations = network.stations
        self.cycles: dict[str, list[PossibleCycle]] = {}
        self.arrivals: dict[int, list[PoissonVisits]] = {}
        #: Stations of closed chains, and of chains with too many cycles.
        self.unknown: set[int] = set()
        #: Delays between two successive queues, by their rows; None for a random delay.
        self.delays: dict[tuple[int, int], set[float | None]] = {}
        for chain in network.chains:
            cycles = list_cycles(chain, network) if chain.is_open else None
            if cycles is None:
                self.unknown |= {network.index[visit.station] for member in chain.classes
                                 for visit in member.visits}
            else:
                self.cycles[chain.name] = cycles
                self._add_cycles(chain, cycles)

    def _add_cycles(self, chain: Chain, cycles: Sequence[PossibleCycle]) -> None:
        for cycle in cycles:
            for visit in cycle.visits:
                self.arrivals.setdefault(visit.station, []).append(
                    PoissonVisits((chain.rate_per_s or 0.0) * cycle.probability, visit))
            queues = [number for number, visit in enumerate(cycle.visits)
                      if self._is_queue_visit(visit)]
            for first, second in pairwise(queues):
                between = [delay_sojourn(visit) for visit in cycle.visits[first + 1:second]]
                edge = cycle.visits[first].station, cycle.visits[second].station
                self.delays.setdefault(edge, set()).add(
                    None if any(each.transform for each in between)
                    else sum(each.constant_s for each in between))

    def _is_queue_visit(self, visit: PlannedVisit) -> bool:
        return self.stations[visit.station].discipline != "delay"

    def _stations_before(self, row: int) -> set[int]:
        """Return all stations from which customers reach a station."""
        reached: set[int] = set()
        while True:
            further = {first for first, second in self.delays
                       if second == row or second in reached} - reached
            if not further:
                return reached
            reached |= further

    def _has_poisson_arrivals(self, row: int) -> bool:
        before = self._stations_before(row)
        return row not in before and not (before | {row}) & self.unknown and all(
            self._has_poisson_departures(each) for each in before)

    def _has_poisson_departures(self, row: int) -> bool:
        station = self.stations[row]
        return not station.is_cold and (station.discipline == "ps" or (
            station.discipline == "fcfs" and self._is_markovian(row)))

    def _is_markovian(self, row: int) -> bool:
        return is_markovian(self.stations[row], [each.visit for each in self.arrivals[row]])

    def sojourn_time(self, visit: PlannedVisit) -> SojournTime | None:
        """Return the sojourn time of a visit, or None if not known."""
        if self._is_queue_visit(visit) and not self._has_poisson_arrivals(visit.station):
            return None
        return find_sojourn(self.stations[visit.station], self.arrivals[visit.station], visit)

    def cycle_time(self, cycle: PossibleCycle) -> _CycleTime | None:
        """Return the response time of a cycle, or None if not known."""
        queues = [visit.station for visit in cycle.visits if self._is_queue_visit(visit)]
        if len(queues) > 1 and not self._are_independent(queues):
            return None
        sojourns = [self.sojourn_time(visit) for visit in cycle.visits]
        found = tuple(each for each in sojourns if each is not None)
        return _CycleTime(cycle.probability, found) if len(found) == len(sojourns) else None

    def _are_independent(self, queues: Sequence[int]) -> bool:
        """Return whether the sojourn times of a cycle's queues are independent.

        They are if no customer overtakes another, on the way or in a queue.
        """
        if any(self.stations[row].discipline != "fcfs" or not self._is_markovian(row)
               for row in queues) or any(self.stations[row].servers > 1 for row in queues[1:-1]):
            return False
        delays = [self.delays[edge] for edge in pairwise(queues)]
        if any(len(each) > 1 or None in each for each in delays) or any(
                row in self._stations_before(row) for row in queues):
            return False
        return sum(1 for _ in self._routes_between(queues[0], queues[-1])) == 1

    def _routes_between(self, first: int, last: int) -> Iterator[None]:
        """Yield once for each route from a station to another."""
        if first == last:
            yield None
            return
        for start, end in self.delays:
            if start == first and (end == last or last in self._stations_after(end)):
                yield from self._routes_between(end, last)

    def _stations_after(self, row: int) -> set[int]:
        return {second for _, second in self.delays if row in self._stations_before(second)}


def _closed_response(network: QueueingNetwork, chain: Chain,
                     cycles: Sequence[PossibleCycle]) -> ResponseTime | None:
    """Return the response time of a closed chain with one queue.

    The result is None where it is not known exactly, or another chain visits the queue.
    """
    visits = [(cycle.probability, visit) for cycle in cycles for visit in cycle.visits]
    queues = {visit.station for _, visit in visits
              if network.stations[visit.station].discipline != "delay"}
    if len(queues) != 1 or not chain.population:
        return None
    row, = queues
    station, name = network.stations[row], network.stations[row].name
    at_queue = [(share, visit) for share, visit in visits if visit.station == row]
    is_shared = any(visit.station == name for other in network.chains if other is not chain
                    for member in other.classes for visit in member.visits)
    is_single = all(sum(visit.station == row for visit in cycle.visits) <= 1 for cycle in cycles)
    delays_s = sum(share * visit.mean_s for share, visit in visits if visit.station != row)
    if is_shared or not is_single or station.discipline == "priority" or not is_markovian(
            station, [visit for _, visit in at_queue]) or (station.discipline == "ps" and (
                delays_s or len(cycles) > 1)):
        return None
    sojourn = closed_sojourn(station, chain.population,
                             sum(share * visit.mean_s for share, visit in at_queue),
                             chain.think_s + delays_s)
    if sojourn is None:
        return None
    return ResponseTime(tuple(_CycleTime(cycle.probability, tuple(
        sojourn(visit) if visit.station == row else delay_sojourn(visit) for visit in cycle.visits))
        for cycle in cycles))
