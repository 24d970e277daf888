"""A queueing network as data: stations, and chains of classes that visit them.

The terms are those of Harbitter and Menascé (2002, section 4 and appendix B) and of Lazowska et al.
(1984). A *customer* (an authentication) belongs to a *chain* (their "equivalence class"). Within
the chain it switches from *class* to class (the steps of the protocol). A class makes *visits* to
*stations*, and each visit needs a mean service time. Visit ratios count visits per cycle of the
chain, that is, per complete transaction. A chain's throughput counts cycles.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from analysis.queueing.errors import QueueingError, choose_from

Discipline = Literal["ps", "fcfs", "priority", "delay"]
#: Meaning of one visit to a delay station of a communication network.
Direction = Literal["round_trip", "one_way"]
#: Largest number of customers or servers; with more, solvers take minutes without new results.
MAX_COUNT = 1_000_000


@dataclass(frozen=True)
class QueueingStation:
    """A station that serves customers.

    The discipline is processor sharing, first come first served, preemptive priority or pure delay.
    `servers` counts equal processors (ignored for delay). `scv` is the squared coefficient of
    variation of service times, which only simulation and the check for a product form use. None
    means 1 (exponential), and 0 (constant) for delay. `direction` is the meaning of a visit to a
    communication network, which a round-trip time needs.

    `warm_up_s` is additional work in seconds for a customer that finds the station empty, for
    example because caches are cold. This exceptional first service (Welch 1964) works only in
    simulation. Instead, `cooling` can give the additional work by the length of the empty period.
    It has pairs of seconds, with interpolation between them. With `priority`, urgent visits
    interrupt other visits, which resume later. Visits of the same kind are served in order of
    arrival.
    """

    name: str
    discipline: Discipline = "ps"
    servers: int = 1
    scv: float | None = None
    direction: Direction | None = None
    warm_up_s: float = 0.0
    cooling: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        where = f"station {self.name!r}"
        if self.discipline not in get_args(Discipline):
            raise QueueingError(where, f"discipline {self.discipline!r} is unknown",
                                choose_from(str(self.discipline), get_args(Discipline)))
        if self.servers < 1:
            raise QueueingError(where, f"{self.servers} servers serve nobody", "give 1 or more")
        if self.servers > MAX_COUNT:
            raise QueueingError(where, f"{self.servers:.4g} servers are more than can be computed",
                                f"give {MAX_COUNT} or fewer")
        if self.scv is not None and not (self.scv >= 0 and math.isfinite(self.scv)):
            raise QueueingError(where, f"scv {self.scv} is not a squared coefficient of variation",
                                "give 0 for constant, 1 for exponential service")
        if not (self.warm_up_s >= 0 and math.isfinite(self.warm_up_s)):
            raise QueueingError(where, f"warm_up_s is {self.warm_up_s}",
                                "give a finite number, 0 or more")
        self._check_cold(where)
        if self.discipline == "priority" and self.servers > 1:
            raise QueueingError(where, "several servers have no order by priority",
                                "give 1 server, or another discipline")

    def _check_cold(self, where: str) -> None:
        if self.is_cold and self.discipline == "delay":
            raise QueueingError(where, "a delay is never cold", "leave warm_up_s and cooling out")
        pauses_s = [pause_s for pause_s, _ in self.cooling]
        if sorted(set(pauses_s)) != pauses_s or any(
                not (seconds >= 0 and math.isfinite(seconds)) for pair in self.cooling
                for seconds in pair) or (self.cooling and self.warm_up_s):
            raise QueueingError(where, "cooling is not by ascending pauses, or beside warm_up_s",
                                "give pairs of seconds, 0 or more, by ascending pause")

    @property
    def is_cold(self) -> bool:
        """Return whether a customer that finds the station empty takes longer."""
        return bool(self.warm_up_s or self.cooling)

    def warm_up_after_s(self, pause_s: float) -> float:
        """Return the additional work in seconds for a customer after an empty period.

        `pause_s` is the length of that period in seconds.
        """
        before_s, before_more_s = 0.0, 0.0
        for after_s, more_s in self.cooling:
            if pause_s < after_s:
                part = (pause_s - before_s) / (after_s - before_s)
                return before_more_s + part * (more_s - before_more_s)
            before_s, before_more_s = after_s, more_s
        return before_more_s if self.cooling else self.warm_up_s

    @property
    def variation(self) -> float:
        """Return the squared coefficient of variation of service times."""
        return self.scv if self.scv is not None else 0.0 if self.discipline == "delay" else 1.0


@dataclass(frozen=True)
class Visit:
    """The demand of a class at a station: `visits` per cycle, each with mean `service_s`.

    At a station with discipline `priority`, an urgent visit is served first.
    """

    station: str
    service_s: float
    visits: float = 1.0
    is_urgent: bool = False

    def __post_init__(self) -> None:
        for name, value in (("service_s", self.service_s), ("visits", self.visits)):
            if not (value >= 0 and math.isfinite(value)):
                raise QueueingError(f"visit to station {self.station!r}", f"{name} is {value}",
                                    "give a finite number, 0 or more")


@dataclass(frozen=True)
class CustomerClass:
    """A step of a protocol with its visits in order.

    A step that belongs to only one variant names that variant.
    """

    name: str
    visits: tuple[Visit, ...]
    variant: str | None = None


@dataclass(frozen=True)
class Chain:
    """Customers that switch among `classes` in order.

    A closed chain has a population, an open chain has an arrival rate. `think_s` is a closed
    customer's mean pause between cycles, which is not part of any response time. `shares` is the
    share of cycles that follow each variant; the shares add up to 1. A class of a variant is
    visited in that share of the cycles, and a class without a variant in all cycles.
    """

    name: str
    classes: tuple[CustomerClass, ...]
    population: int | None = None
    rate_per_s: float | None = None
    think_s: float = 0.0
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"chain {self.name!r}"
        if (self.population is None) == (self.rate_per_s is None):
            raise QueueingError(where, "is neither closed nor open, or both",
                                "give either population or rate_per_s")
        if self.population is not None and self.population < 0:
            raise QueueingError(where, f"population {self.population} is negative",
                                "give 0 or more")
        if self.population is not None and self.population > MAX_COUNT:
            raise QueueingError(where, f"a population of {self.population:.4g} is more than can be "
                                "computed", f"give {MAX_COUNT} or fewer")
        for name, value in (("rate_per_s", self.rate_per_s or 0.0), ("think_s", self.think_s)):
            if not (value >= 0 and math.isfinite(value)):
                raise QueueingError(where, f"{name} is {value}", "give a finite number, 0 or more")
        if self.think_s and self.is_open:
            raise QueueingError(where, "is open, and think_s is for closed chains",
                                "remove think_s")
        _check_shares(where, self.shares, {c.variant for c in self.classes if c.variant})

    @property
    def is_open(self) -> bool:
        """Return whether customers arrive from outside and leave."""
        return self.population is None

    def share(self, member: CustomerClass) -> float:
        """Return the share of cycles that pass through a class."""
        return 1.0 if member.variant is None else self.shares[member.variant]


@dataclass(frozen=True)
class QueueingNetwork:
    """Stations and the chains that visit them.

    Raises:
        QueueingError: The stations and chains do not fit together.
    """

    stations: tuple[QueueingStation, ...]
    chains: tuple[Chain, ...]

    def __post_init__(self) -> None:
        _check_unique("station", (station.name for station in self.stations))
        _check_unique("chain", (chain.name for chain in self.chains))
        if not self.chains:
            raise QueueingError("network", "has no chain", "give one or more")
        for chain in self.chains:
            _check_unique(f"class of chain {chain.name!r}", (c.name for c in chain.classes))
            for member in chain.classes:
                for visit in member.visits:
                    if visit.station not in self.index:
                        raise QueueingError(
                            f"chain {chain.name!r}, class {member.name!r}",
                            f"visits station {visit.station!r}, which is not there",
                            choose_from(visit.station, self.index))
            if not any(visit.service_s * visit.visits for member in chain.classes
                       for visit in member.visits):
                raise QueueingError(f"chain {chain.name!r}", "has a demand of zero everywhere",
                                    "give a visit with service_s above 0")

    @cached_property
    def index(self) -> dict[str, int]:
        """Return each station's row in the arrays of the solvers."""
        return {station.name: row for row, station in enumerate(self.stations)}

    def station(self, name: str) -> QueueingStation:
        """Return the station of that name.

        Raises:
            QueueingError: There is no such station.
        """
        if name not in self.index:
            raise QueueingError(f"station {name!r}", "is not in this network",
                                choose_from(name, self.index))
        return self.stations[self.index[name]]

    def chain(self, name: str | None = None) -> Chain:
        """Return the chain of that name, or the only chain.

        Raises:
            QueueingError: There is no such chain, or there are several and `name` is None.
        """
        if name is None:
            if len(self.chains) > 1:
                raise QueueingError("network", "has several chains",
                                    choose_from("", (chain.name for chain in self.chains)))
            return self.chains[0]
        for chain in self.chains:
            if chain.name == name:
                return chain
        raise QueueingError(f"chain {name!r}", "is not in this network",
                            choose_from(name, (chain.name for chain in self.chains)))


def _check_unique(kind: str, names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise QueueingError(f"{kind} {name!r}", "is given twice", "rename one of them")


def _check_shares(where: str, shares: Mapping[str, float], variants: set[str]) -> None:
    for variant in sorted(variants ^ set(shares)):
        what = "has no share" if variant in variants else "is not a class's variant"
        raise QueueingError(where, f"variant {variant!r} {what}",
                            "give each variant of the chain's classes one share")
    for variant, share in shares.items():
        if not 0 <= share <= 1:
            raise QueueingError(where, f"share {share} of variant {variant!r} is not a share",
                                "give a number from 0 to 1")
    if shares and not math.isclose(sum(shares.values()), 1, abs_tol=1e-9):
        raise QueueingError(where, f"shares add up to {sum(shares.values()):g}",
                            "make them add up to 1")
