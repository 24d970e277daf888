"""Compute the exact distribution of response times in queueing networks where it is known.

Percentiles need the distribution, not only the mean. `find_response` takes a network and one of its
chains (kinds of transactions). It returns the distribution, or None in all cases but these:

- Open chain, one station with a queue, any number of delay stations (without a queue). The times of
  a cycle are independent, because Poisson arrivals stay Poisson after a delay and after stations
  with a product form (Burke 1956).
- Open chain, several queues. Each serves in order of arrival with exponential service, and no
  customer can overtake another on the way (Walrand and Varaiya 1980). Only the first and the last
  queue may have several servers.
- Closed chain, one station with a queue that no other chain visits (`_closed_response`).

The terms are those of `analysis.queueing.network`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from analysis.queueing.network import Chain, QueueingNetwork
from analysis.queueing.routing import PlannedVisit, PossibleCycle, list_cycles
from analysis.queueing.sojourn import (
    PoissonVisits,
    SojournTime,
    closed_sojourn,
    delay_sojourn,
    find_sojourn,
    is_markovian,
    tail_probability,
)


@dataclass(frozen=True)
class _CycleTime:
    """The response time of one transaction: the sum of its times at queueing stations."""

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

        return min(1.0, max(0.0, tail_probability(product, max(rest_s, 1e-9 * max(time_s, 1e-9)))))


@dataclass(frozen=True)
class ResponseTime:
    """The distribution of response times of a chain (kind of transaction)."""

    cycles: tuple[_CycleTime, ...]

    @property
    def mean_s(self) -> float:
        """Return the mean response time in seconds."""
        return sum(cycle.probability * sojourn.mean_s
                   for cycle in self.cycles for sojourn in cycle.sojourns)

    def tail(self, time_s: float) -> float:
        """Return the probability that a response time exceeds a time."""
        return sum(cycle.probability * cycle.tail(time_s) for cycle in self.cycles)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the response time in seconds."""
        above = 1.0 - percent / 100
        high = max(self.mean_s, 1e-12)
        while self.tail(high) > above:
            high *= 2.0
        low = 0.0
        if self.tail(low + 1e-9 * high) <= above:
            return low
        from scipy import optimize  # large, and left out of the container image

        found: float = optimize.brentq(lambda time_s: self.tail(time_s) - above, 1e-9 * high, high,
                                       rtol=1e-9)
        return found


def find_response(network: QueueingNetwork, chain: Chain) -> ResponseTime | None:
    """Return the exact distribution of a transaction's response times, or None if unknown."""
    cycles = list_cycles(chain, network)
    if cycles is None:
        return None
    if not chain.is_open:
        return _closed_response(network, chain, cycles)
    traffic = _OpenVisits(network)
    times = [traffic.cycle_time(cycle) for cycle in cycles]
    known = tuple(time for time in times if time is not None)
    return ResponseTime(known) if len(known) == len(times) else None


def find_means(network: QueueingNetwork) -> dict[tuple[int, str], float] | None:
    """Return the mean time (s) that a transaction spends at each station, by row and chain.

    None is returned if not all means are known. Means are known wherever each station has Poisson
    arrivals, unlike distributions.
    """
    traffic = _OpenVisits(network)
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


class _OpenVisits:
    """The visits of transactions to each queueing station, and the routes between stations."""

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
        """Return all queueing stations from which customers (transactions) can get to a station."""
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
        """Return whether customers leave a station as a Poisson process if they arrive as one.

        Stations with a product form have that. A cold one serves the first customer for longer.
        """
        station = self.stations[row]
        return not station.is_cold and (station.discipline == "ps" or (
            station.discipline == "fcfs" and self._is_markovian(row)))

    def _is_markovian(self, row: int) -> bool:
        return is_markovian(self.stations[row], [each.visit for each in self.arrivals[row]])

    def sojourn_time(self, visit: PlannedVisit) -> SojournTime | None:
        """Return the distribution of the time of a visit to a queueing station, None if unknown."""
        if self._is_queue_visit(visit) and not self._has_poisson_arrivals(visit.station):
            return None
        return find_sojourn(self.stations[visit.station], self.arrivals[visit.station], visit)

    def cycle_time(self, cycle: PossibleCycle) -> _CycleTime | None:
        """Return the distribution of a transaction's response time, None if unknown."""
        queues = [visit.station for visit in cycle.visits if self._is_queue_visit(visit)]
        if len(queues) > 1 and not self._are_independent(queues):
            return None
        sojourns = [self.sojourn_time(visit) for visit in cycle.visits]
        found = tuple(each for each in sojourns if each is not None)
        return _CycleTime(cycle.probability, found) if len(found) == len(sojourns) else None

    def _are_independent(self, queues: Sequence[int]) -> bool:
        """Return whether the times that a transaction spends in its queues are independent.

        They are if no customer overtakes another, on the way or in a queue.
        """
        # In a queue: customers overtake if service is not in order, or there are several servers.
        if any(self.stations[row].discipline != "fcfs" or not self._is_markovian(row)
               for row in queues) or any(self.stations[row].servers > 1 for row in queues[1:-1]):
            return False
        # On the way: all customers need the same constant time, and none comes back to a queue.
        delays = [self.delays[edge] for edge in pairwise(queues)]
        if any(len(each) > 1 or None in each for each in delays) or any(
                row in self._stations_before(row) for row in queues):
            return False
        # There is one route only: no other way is shorter.
        return sum(1 for _ in self._routes_between(queues[0], queues[-1])) == 1

    def _routes_between(self, first: int, last: int) -> Iterator[None]:
        """Yield once for each route from one queueing station to another."""
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
    """Return the response time distribution of transactions that circulate, with one queue.

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
    # With processor sharing, the pause between visits must be exponential. The think time is, the
    # sum with a delay is not. Also, every cycle must need the same work.
    is_sharing_unknown = station.discipline == "ps" and (delays_s or len(cycles) > 1)
    if is_shared or not is_single or station.discipline == "priority" or is_sharing_unknown:
        return None
    if not is_markovian(station, [visit for _, visit in at_queue]):
        return None
    sojourn = closed_sojourn(station, chain.population,
                             sum(share * visit.mean_s for share, visit in at_queue),
                             chain.think_s + delays_s)
    if sojourn is None:
        return None
    return ResponseTime(tuple(_CycleTime(cycle.probability, tuple(
        sojourn(visit) if visit.station == row else delay_sojourn(visit) for visit in cycle.visits))
        for cycle in cycles))
