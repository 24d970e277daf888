"""Stations of the event simulation: processor sharing, first come first served, priority, delay.

Each tells the calendar when its next customer leaves. Sharing is kept in attained service: every
customer present gains as much, so only the one with the smallest finish matters (Kleinrock 1976,
4.4), and an event costs O(log n).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from analysis.queueing.network import QueueingStation


class DrawnVisit(NamedTuple):
    """A visit to come: the station's number, seconds of one server, and whether it goes first."""

    station: int
    work_s: float
    is_urgent: bool = False


@dataclass(slots=True)
class Customer:
    """Someone in the network: which chain, since when, what is still to be visited (reversed).

    `station` and `came` say where the customer is, and since when.
    """

    chain: int
    since: float
    left: list[DrawnVisit] = field(default_factory=list)
    station: int = -1
    came: float = 0.0


class Calendar:
    """Events to come, the earliest first; of equal times the one entered first."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, StationServer | None, int, Customer]] = []
        self.entered = 0

    def enter(self, time: float, server: StationServer | None, token: int,
              customer: Customer) -> None:
        """Adds an event; `server` None stands for an arrival from outside or from a pause."""
        self.entered += 1
        heapq.heappush(self.heap, (time, self.entered, server, token, customer))


class StationServer(Protocol):
    """A station in service."""

    busy_s: float
    present_s: float

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Takes a customer in, who wants so many seconds of one server."""

    def leave(self, now: float, token: int, customer: Customer) -> Customer | None:
        """Who leaves now; None if the event no longer holds."""

    def account(self, now: float) -> None:
        """Counts servers' and customers' time up to now."""


class Delay:
    """Serves everybody at once."""

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self.present, self.last = 0, 0.0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Takes a customer in."""
        self.account(now)
        self.present += 1
        self.calendar.enter(now + visit.work_s, self, 0, customer)

    def leave(self, now: float, _token: int, customer: Customer) -> Customer | None:
        """The event's own customer."""
        self.account(now)
        self.present -= 1
        return customer

    def account(self, now: float) -> None:
        """Counts time; a delay is as busy as it has customers."""
        self.present_s += self.present * (now - self.last)
        self.busy_s = self.present_s
        self.last = now


class Queue:
    """Serves in order of arrival, each of its servers one customer at a time."""

    def __init__(self, calendar: Calendar, station: QueueingStation) -> None:
        self.calendar, self.station, self.servers = calendar, station, station.servers
        self.left_s = -math.inf
        self.waiting: deque[tuple[Customer, float]] = deque()
        self.serving, self.last = 0, 0.0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Serves at once if a server is free."""
        self.account(now)
        work_s = visit.work_s
        if not self.serving:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        if self.serving < self.servers:
            self.serving += 1
            self.calendar.enter(now + work_s, self, 0, customer)
        else:
            self.waiting.append((customer, work_s))

    def leave(self, now: float, _token: int, customer: Customer) -> Customer | None:
        """The event's own customer; the next one's service begins."""
        self.account(now)
        if self.waiting:
            following, work_s = self.waiting.popleft()
            self.calendar.enter(now + work_s, self, 0, following)
        else:
            self.serving -= 1
        self.left_s = now
        return customer

    def account(self, now: float) -> None:
        """Counts time."""
        passed = now - self.last
        self.busy_s += self.serving * passed
        self.present_s += (self.serving + len(self.waiting)) * passed
        self.last = now


class Sharing:
    """Serves all at once, at the same rate: n customers share c servers, each at most one."""

    def __init__(self, calendar: Calendar, station: QueueingStation) -> None:
        self.calendar, self.station, self.servers = calendar, station, station.servers
        self.left_s = -math.inf
        self.present: list[tuple[float, int, Customer]] = []
        self.attained = self.last = 0.0
        self.token = 0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Takes a customer in; everybody else slows down."""
        self.account(now)
        work_s = visit.work_s
        if not self.present:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        self.token += 1
        heapq.heappush(self.present, (self.attained + work_s, self.token, customer))
        self._announce(now)

    def leave(self, now: float, token: int, _customer: Customer) -> Customer | None:
        """The customer with the least left, if nobody has come or gone since the announcement."""
        if token != self.token:
            return None
        self.account(now)
        # Set rather than summed up, so that rounding does not keep anybody.
        self.attained, _, customer = heapq.heappop(self.present)
        self.token += 1
        self.left_s = now
        if self.present:
            self._announce(now)
        else:
            self.attained = 0.0
        return customer

    def _announce(self, now: float) -> None:
        finish, _, customer = self.present[0]
        n = len(self.present)
        rate = 1.0 if n <= self.servers else self.servers / n
        self.calendar.enter(now + max(finish - self.attained, 0.0) / rate, self, self.token,
                            customer)

    def account(self, now: float) -> None:
        """Counts time, and what everybody has attained in it."""
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
    """One server, which whoever is urgent takes at once from whoever is not; else in order."""

    def __init__(self, calendar: Calendar, station: QueueingStation) -> None:
        self.calendar, self.station = calendar, station
        self.urgent: deque[_Served] = deque()
        self.usual: deque[_Served] = deque()
        self.left_s, self.last = -math.inf, 0.0
        self.token = 0
        self.busy_s = self.present_s = 0.0

    def arrive(self, now: float, customer: Customer, visit: DrawnVisit) -> None:
        """Takes a customer in; one who is interrupted goes on later where it was."""
        self.account(now)
        before, work_s = self._first(), visit.work_s
        if before is None:
            work_s += self.station.warm_up_after_s(now - self.left_s)
        (self.urgent if visit.is_urgent else self.usual).append(_Served(customer, work_s))
        if self._first() is not before:
            self._announce(now)

    def leave(self, now: float, token: int, _customer: Customer) -> Customer | None:
        """Who is first, if nobody has taken the server since the announcement."""
        if token != self.token:
            return None
        self.account(now)
        served = (self.urgent or self.usual).popleft()
        self.left_s = now
        self._announce(now)
        return served.customer

    def account(self, now: float) -> None:
        """Counts time, and what the first one has had of it."""
        passed, first = now - self.last, self._first()
        if first is not None:
            first.left_s -= passed
            self.busy_s += passed
            self.present_s += (len(self.urgent) + len(self.usual)) * passed
        self.last = now

    def _first(self) -> _Served | None:
        return next(iter(self.urgent or self.usual), None)

    def _announce(self, now: float) -> None:
        self.token += 1
        if (first := self._first()) is not None:
            self.calendar.enter(now + max(first.left_s, 0.0), self, self.token, first.customer)
