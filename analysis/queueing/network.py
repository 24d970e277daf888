"""Define the classes of a queueing network, and compute its service demands for the solvers.

A *customer* is a transaction, such as an authentication. It belongs to a *chain* (a kind of
transaction). Within the chain it switches from *class* to class (the steps of the protocol). A
class makes *visits* to *stations* (servers with their queues), and each visit needs a mean service
time. A *closed* chain has a fixed number of customers (its population), an *open* chain has
arrivals. A *delay* station has no queue.

`demands_of` converts a `QueueingNetwork` to `Demands`, which all solvers take: the *demand* is a
chain's service time at a station per cycle (complete transaction). Solvers return a
`ChainSolution`, whose throughput counts cycles. The terms are those of Harbitter and Menascé (2002,
section 4 and appendix B) and of Lazowska et al. (1984).
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

# --- Error of the package, as one line ---

class QueueingError(ValueError):
    """An error: a queueing network, file or question cannot be used.

    The message is one line: ``where: what; what to do``.
    """

    def __init__(self, where: str, what: str, advice: str) -> None:
        # Pass all arguments to the base class, so that the error can be pickled.
        super().__init__(where, what, advice)
        self.where, self.what, self.advice = where, what, advice

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}; {self.advice}"
        return "".join(char if char.isprintable() else "?" for char in text)


def suggest_word(word: str, known: Iterable[str]) -> str:
    """Return advice for an unknown name: the most similar known name, and a list of all."""
    names = list(known)
    near = difflib.get_close_matches(word[:64], names, n=1)
    listed = ", ".join(names) or "none"
    return f"did you mean {near[0]}? (known: {listed})" if near else f"known: {listed}"


# --- Stations, classes, chains and networks ---

Discipline = Literal["ps", "fcfs", "priority", "delay"]
#: Meaning of one visit to a delay station of a communication network.
Direction = Literal["round_trip", "one_way"]
#: Largest number of customers or servers; with more, solvers take minutes without new results.
MAX_COUNT = 1_000_000


@dataclass(frozen=True)
class QueueingStation:
    """A service station of a queueing network: one or more servers with a queue.

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
                                suggest_word(str(self.discipline), get_args(Discipline)))
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
        # Pauses ascend, all values are finite and not negative, and only one of the two is given.
        if sorted(set(pauses_s)) != pauses_s or any(
                not (seconds >= 0 and math.isfinite(seconds)) for pair in self.cooling
                for seconds in pair) or (self.cooling and self.warm_up_s):
            raise QueueingError(where, "cooling is not by ascending pauses, or beside warm_up_s",
                                "give pairs of seconds, 0 or more, by ascending pause")

    @property
    def is_cold(self) -> bool:
        """Return whether service takes longer for a customer that finds the station empty.

        A customer is a transaction in progress.
        """
        return bool(self.warm_up_s or self.cooling)

    def warm_up_after_s(self, pause_s: float) -> float:
        """Return the additional service time if the queueing station was empty before, in s.

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
        """Return the squared coefficient of variation of the queueing station's service times."""
        return self.scv if self.scv is not None else 0.0 if self.discipline == "delay" else 1.0


@dataclass(frozen=True)
class Visit:
    """A visit of a customer to a queueing station: `visits` per cycle, each with mean `service_s`.

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
    """A step of a transaction, with its visits to queueing stations in order.

    A step that belongs to only one variant names that variant.
    """

    name: str
    visits: tuple[Visit, ...]
    variant: str | None = None


@dataclass(frozen=True)
class Chain:
    """A kind of transaction, such as an authentication, with its steps (`classes`) in order.

    A closed chain has a fixed number of customers, an open chain has an arrival rate. `think_s` is
    a closed customer's mean pause between cycles, which is not part of any response time. `shares`
    is the fraction of cycles that follow each variant; they add up to 1. A class of a variant is
    visited in that fraction of the cycles, and a class without a variant in all cycles.
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
        """Return whether transactions arrive from outside and leave, instead of circulating."""
        return self.population is None

    def share(self, member: CustomerClass) -> float:
        """Return the fraction of transactions that contain a step."""
        return 1.0 if member.variant is None else self.shares[member.variant]


@dataclass(frozen=True)
class QueueingNetwork:
    """A queueing network: stations, and chains that visit them.

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
                            suggest_word(visit.station, self.index))
            if not any(visit.service_s * visit.visits for member in chain.classes
                       for visit in member.visits):
                raise QueueingError(f"chain {chain.name!r}", "has a demand of zero everywhere",
                                    "give a visit with service_s above 0")

    @cached_property
    def index(self) -> dict[str, int]:
        """Return the row number of each queueing station in the arrays of the solvers."""
        return {station.name: row for row, station in enumerate(self.stations)}

    def station(self, name: str) -> QueueingStation:
        """Return the queueing station with a name.

        Raises:
            QueueingError: There is no such station.
        """
        if name not in self.index:
            raise QueueingError(f"station {name!r}", "is not in this network",
                                suggest_word(name, self.index))
        return self.stations[self.index[name]]

    def chain(self, name: str | None = None) -> Chain:
        """Return the chain with a name, or the only chain.

        Raises:
            QueueingError: There is no such chain, or there are several and `name` is None.
        """
        if name is None:
            if len(self.chains) > 1:
                raise QueueingError("network", "has several chains",
                                    suggest_word("", (chain.name for chain in self.chains)))
            return self.chains[0]
        for chain in self.chains:
            if chain.name == name:
                return chain
        raise QueueingError(f"chain {name!r}", "is not in this network",
                            suggest_word(name, (chain.name for chain in self.chains)))


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


# --- Demands by station and chain, as arrays for the solvers ---
# In all solvers, M is the number of stations and Q the number of chains. Arrays over both have
# shape (M, Q). A demand is the service time of all visits in one cycle, D = v s, in seconds. A
# residence time R = v W also counts all visits of a cycle.

Array = NDArray[np.float64]
#: Rounding error of a utilization, as a share of 100 %.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Demands:
    """The service demands of a queueing network, as arrays for the solvers.

    `demand_s` has shape (M, Q), `delay` and `servers` have shape (M,), the other arrays shape (Q,).
    M is the number of stations, Q that of chains. `population` is
    0 for open chains, `rate_per_s` is 0 for closed chains. `think_s` is Z.
    """

    demand_s: Array
    delay: NDArray[np.bool_]
    servers: NDArray[np.int64]
    population: NDArray[np.int64]
    rate_per_s: Array
    think_s: Array
    names: tuple[str, ...] = ()
    chain_names: tuple[str, ...] = ()

    @property
    def offered(self) -> Array:
        """Return how many servers of each queueing station open chains keep busy, shape (M,).

        An open chain is a kind of transaction with arrivals from outside.
        """
        return self.demand_s @ self.rate_per_s

    def check_stable(self) -> None:
        """Check that transactions from outside (open chains) do not saturate a queueing station.

        Raises:
            QueueingError: A station is saturated.
        """
        saturated = self.find_saturated()
        if saturated:
            raise saturated[0][1]

    def find_saturated(self) -> list[tuple[int, QueueingError]]:
        """Return the queueing stations that transactions from outside (open chains) saturate.

        The most loaded comes first. Each has its row and the error that explains it.
        """
        busy = np.where(self.delay, 0.0, self.offered / self.servers)
        rows = [int(row) for row in np.argsort(-busy, kind="stable") if busy[row] >= 1 - _ROUNDING]
        return [(row, self._saturation_error(row, float(busy[row]))) for row in rows]

    def _saturation_error(self, row: int, busy: float) -> QueueingError:
        """Return the error that open chains bring a station more work than it can do."""
        name = repr(self.names[row]) if self.names else str(row)
        columns = np.flatnonzero((self.demand_s[row] > 0) & (self.rate_per_s > 0))
        chains = [self.chain_names[column] if self.chain_names else str(column)
                  for column in columns]
        if len(columns) == 1:
            rate = float(self.rate_per_s[columns[0]])
            advice = (f"lower rate_per_s of {chains[0]} from {rate:.6g} to less than "
                      f"{rate / busy:.6g}")
        else:
            advice = (f"lower rate_per_s of {', '.join(chains)} together to less than "
                      f"{1 / busy:.4g} of what they are")
        return QueueingError(
            f"station {name}", f"open chains bring {busy:.1%} of the work that it can do, so that "
            "its queue grows without limit", advice)


@dataclass(frozen=True)
class ChainSolution:
    """The means of each chain that a solver returns.

    `throughput_per_s` is in cycles per second, shape (Q,). `residence_s` is in seconds per cycle,
    shape (M, Q).
    """

    throughput_per_s: Array
    residence_s: Array

    @property
    def queue(self) -> Array:
        """Return the mean number of customers at each queueing station, by Little's law (B.4).

        The shape is (M, Q).
        """
        return self.residence_s * self.throughput_per_s


def demands_of(network: QueueingNetwork) -> Demands:
    """Return the service demands of a queueing network as arrays, summed over each chain's steps.

    The sum is D_iq = sum_r v_ir s_ir.
    """
    rows = network.index
    demand = np.zeros((len(network.stations), len(network.chains)))
    for column, chain in enumerate(network.chains):
        for member in chain.classes:
            share = chain.share(member)
            for visit in member.visits:
                demand[rows[visit.station], column] += share * visit.visits * visit.service_s
    stations, chains = network.stations, network.chains
    return Demands(
        demand_s=demand,
        delay=np.array([station.discipline == "delay" for station in stations], dtype=np.bool_),
        servers=np.array([station.servers for station in stations], dtype=np.int64),
        population=np.array([chain.population or 0 for chain in chains], dtype=np.int64),
        rate_per_s=np.array([chain.rate_per_s or 0.0 for chain in chains]),
        think_s=np.array([chain.think_s for chain in chains]),
        names=tuple(rows), chain_names=tuple(chain.name for chain in chains))


def has_product_form(network: QueueingNetwork) -> bool:
    """Return whether the exact means of a queueing network can be computed in principle."""
    try:
        check_product_form(network)
    except QueueingError:
        return False
    return True


def check_product_form(network: QueueingNetwork) -> None:
    """Check that a queueing network has a product form, which exact solutions require.

    First come first served has a product form only with exponential service of one mean for all
    customers. Processor sharing and delay have a product form with any service (Baskett, Chandy,
    Muntz and Palacios 1975; 2002 paper, appendix B). Priorities and a longer first service have
    none.

    Raises:
        QueueingError: A station has no product form.
    """
    for station in network.stations:
        if station.is_cold:
            raise QueueingError(f"station {station.name!r}", "a first customer who takes longer "
                                "has no exact mean values", "leave warm_up_s out, or simulate it")
        if station.discipline == "priority":
            raise QueueingError(f"station {station.name!r}", "priorities have no exact mean values",
                                "use discipline ps, or simulate it")
        if station.discipline != "fcfs":
            continue
        means = [visit.service_s for chain in network.chains for member in chain.classes
                 for visit in member.visits
                 if visit.station == station.name and visit.visits * chain.share(member) > 0]
        if means and (station.variation != 1 or max(means) - min(means) > 1e-9 * max(means)):
            raise QueueingError(
                f"station {station.name!r}",
                "first come first served with unequal or not exponential service has no exact "
                "mean values", "use discipline ps, or simulate it")
