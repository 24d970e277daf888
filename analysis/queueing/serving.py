"""Stations of the event simulation, by queueing discipline.

Each station schedules the time at which its next customer leaves. Processor sharing uses attained
service: every present customer gains the same amount, so only the smallest finish matters
(Kleinrock 1976, 4.4). An event then costs O(log n).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from analysis.queueing.network import QueueingStation


class DrawnVisit(NamedTuple):
    """A future visit of a customer in the simulation.

    `station` is the station's row, and `work_s` the seconds of service by one server.
    """

    station: int
    work_s: float
    is_urgent: bool = False


@dataclass(slots=True)
class Customer:
    """A customer in the network.

    `since` is the time of its arrival in the network. `left` has its future visits in reverse
    order. `station` is where the customer is, and `came` is the time of its arrival there.
    """

    chain: int
    since: float
    left: list[DrawnVisit] = field(default_factory=list)
    station: int = -1
    came: float = 0.0


class Calendar:
    """Future events in order of time, and for equal times in order of entry."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, StationServer | None, int, Customer]] = []
        self.entered = 0

    def add_event(self, time: float, server: StationServer | None, token: int,
                  customer: Customer) -> None:
        """Add an event.

        `server` is None for an arrival from outside or after a pause.
        """
        self.entered += 1
        heapq.heappush(self.heap, (time, self.entered, server, token, customer))


class StationServer(Protocol):
    """A station that serves customers."""

    busy_s: float
    present_s: float

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer whose visit needs `work_s` seconds of one server."""

    def leave(self, now: float, token: int, customer: Customer) -> Customer | None:
        """Return the customer who leaves now, or None if the event is no longer valid."""

    def account(self, now: float) -> None:
        """Add the time since the last call to the busy and present times."""


class Delay:
    """A station that serves all customers at once."""

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self.present, self.last = 0, 0.0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer."""
        self.account(now)
        self.present += 1
        self.calendar.add_event(now + visit.work_s, self, 0, customer)

    def leave(self, now: float, _token: int, customer: Customer) -> Customer | None:
        """Return the customer of the event."""
        self.account(now)
        self.present -= 1
        return customer

    def account(self, now: float) -> None:
        """Add the time since the last call.

        Each customer present counts as busy.
        """
        self.present_s += self.present * (now - self.last)
        self.busy_s = self.present_s
        self.last = now


class Queue:
    """A station that serves customers in order of arrival, one per server."""

    def __init__(self, calendar: Calendar, station: QueueingStation) -> None:
        self.calendar, self.station, self.servers = calendar, station, station.servers
        self.left_s = -math.inf
        self.waiting: deque[tuple[Customer, float]] = deque()
        self.serving, self.last = 0, 0.0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer, and start the service if a server is free."""
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
        """Return the customer of the event, and start the service of the next customer."""
        self.account(now)
        if self.waiting:
            following, work_s = self.waiting.popleft()
            self.calendar.add_event(now + work_s, self, 0, following)
        else:
            self.serving -= 1
        self.left_s = now
        return customer

    def account(self, now: float) -> None:
        """Add the time since the last call to the busy and present times."""
        passed = now - self.last
        self.busy_s += self.serving * passed
        self.present_s += (self.serving + len(self.waiting)) * passed
        self.last = now


class Sharing:
    """A station that serves all customers at once, at the same rate.

    n customers share c servers, and each customer uses at most one server.
    """

    def __init__(self, calendar: Calendar, station: QueueingStation) -> None:
        self.calendar, self.station, self.servers = calendar, station, station.servers
        self.left_s = -math.inf
        self.present: list[tuple[float, int, Customer]] = []
        self.attained = self.last = 0.0
        self.token = 0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer, which slows down all other customers."""
        self.account(now)
        work_s = visit.work_s
        if not self.present:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        self.token += 1
        heapq.heappush(self.present, (self.attained + work_s, self.token, customer))
        self._schedule_departure(now)

    def leave(self, now: float, token: int, _customer: Customer) -> Customer | None:
        """Return the customer with the least remaining service.

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
        """Add the time since the last call, and the service that each customer attained."""
        n, passed = len(self.present), now - self.last
        if n:
            working = min(n, self.servers)
            self.attained += passed * working / n
            self.busy_s += working * passed
            self.present_s += n * passed
        self.last = now


@dataclass(slots=True)
class _Served:
    customer: Customer
    left_s: float


class Preemptive:
    """A station with one server that an urgent customer takes from another customer.

    Customers of the same kind are served in order of arrival.
    """

    def __init__(self, calendar: Calendar, station: QueueingStation) -> None:
        self.calendar, self.station = calendar, station
        self.urgent: deque[_Served] = deque()
        self.usual: deque[_Served] = deque()
        self.left_s, self.last = -math.inf, 0.0
        self.token = 0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Accept a customer.

        A customer whose service is interrupted resumes later.
        """
        self.account(now)
        before, work_s = self._first_customer(), visit.work_s
        if before is None:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        (self.urgent if visit.is_urgent else self.usual).append(_Served(customer, work_s))
        if self._first_customer() is not before:
            self._schedule_departure(now)

    def leave(self, now: float, token: int, _customer: Customer) -> Customer | None:
        """Return the customer in service, or None if the event is no longer valid.

        An event is no longer valid if the server was taken since it was scheduled.
        """
        if token != self.token:
            return None
        self.account(now)
        served = (self.urgent or self.usual).popleft()
        self.left_s = now
        self._schedule_departure(now)
        return served.customer

    def account(self, now: float) -> None:
        """Add the time since the last call, and the service of the first customer."""
        passed, first = now - self.last, self._first_customer()
        if first is not None:
            first.left_s -= passed
            self.busy_s += passed
            self.present_s += (len(self.urgent) + len(self.usual)) * passed
        self.last = now

    def _first_customer(self) -> _Served | None:
        return next(iter(self.urgent or self.usual), None)

    def _schedule_departure(self, now: float) -> None:
        self.token += 1
        if (first := self._first_customer()) is not None:
            self.calendar.add_event(now + max(first.left_s, 0.0), self, self.token, first.customer)
