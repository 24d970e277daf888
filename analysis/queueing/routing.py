"""Compute how often transactions visit each server of a queueing network, and in which order.

A station is a server with its queue, a class is a step of a transaction, and a chain is a kind of
transaction. `visit_ratios` takes the probabilities of going from one station and class to another
(routing matrix). It returns the mean number of visits to each station per transaction.
`aggregate_classes` joins classes to chains. The equations are (B.6) to (B.10) of Harbitter and
Menascé (2002), after Bruell and Balbo (1980). Arrays over classes have shape (M, R): M stations, R
classes of one chain. `list_cycles` enumerates the possible sequences of visits, for response time
distributions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.queueing.network import Chain, CustomerClass, QueueingError, QueueingNetwork

# --- Visit ratios, and aggregation of classes to chains ---

Array = NDArray[np.float64]


def visit_ratios(routing: ArrayLike, reference: tuple[int, int]) -> Array:
    """Return how often a customer visits each queueing station per cycle, as visit ratios (M, R).

    The function solves the traffic equations v = v P with v = 1 at the reference. See Lazowska et
    al. (1984), 7.4; Bruell and Balbo (1980).

    Args:
        routing: Shape (M, R, M, R): the probability that a customer who leaves station i as class r
            joins station j as class s.
        reference: A (station, class) pair that every customer returns to. One visit to it is a
            cycle.

    Raises:
        QueueingError: A row is not a set of probabilities, or customers do not return to the
            reference.
    """
    matrix = np.asarray(routing, dtype=np.float64)
    stations, classes = matrix.shape[:2]
    size = stations * classes
    if matrix.shape != (stations, classes, stations, classes):
        raise QueueingError("routing", f"has the shape {matrix.shape}", "give (M, R, M, R)")
    flat = matrix.reshape(size, size)
    home = reference[0] * classes + reference[1]
    used = _find_reachable(flat, home)
    sums = flat.sum(axis=1)
    if (flat < 0).any() or not np.allclose(sums[used], 1, atol=1e-9):
        raise QueueingError("routing", "a row is not a set of probabilities",
                            "make each row that customers reach add up to 1")
    if not all(_find_reachable(flat, int(start))[home] for start in np.flatnonzero(used)):
        raise QueueingError("routing", "customers do not return to the reference",
                            "name a (station, class) that every cycle passes")
    # Solve v = v P without the column of the reference, where v is 1.
    others = np.flatnonzero(used & (np.arange(size) != home))
    ratios = np.zeros(size)
    ratios[home] = 1.0
    ratios[others] = np.linalg.solve(np.eye(others.size) - flat[np.ix_(others, others)].T,
                                     flat[home, others])
    return ratios.reshape(stations, classes)


def _find_reachable(flat: Array, start: int) -> NDArray[np.bool_]:
    """Return which states of a routing matrix can be reached from a state, itself included."""
    reached = np.zeros(flat.shape[0], dtype=np.bool_)
    reached[start] = True
    while True:
        further = reached | (flat[reached] > 0).any(axis=0)
        if (further == reached).all():
            return reached
        reached = further


@dataclass(frozen=True)
class ChainParameters:
    """Visit ratios and service times of a chain (kind of transaction), by queueing station.

    They are inputs of the equations (B.1) to (B.5) of the 2002 paper (see the module's docstring).

    - `visits`: visit ratios, shape (M,) for M stations
    - `service_s`: mean service times in seconds, shape (M,)
    - `alpha`: fraction of a station's visits by each of the R classes (steps), shape (M, R)
    """

    visits: Array
    service_s: Array
    alpha: Array


def aggregate_classes(visits: ArrayLike, service_s: ArrayLike, reference: int | None = None,
                      ) -> ChainParameters:
    """Return visit ratios and service times of a chain, combined from its steps (classes).

    With `reference` this is (B.6) as printed: v_iq = sum_r v_ir / sum_r v_0r. Throughput then
    counts visits to that station. Without a reference, visits are per cycle already. The fractions
    alpha_ir = v_ir / sum_s v_is are (B.7). The service time is s_iq = sum_r alpha_ir s_ir.

    Args:
        visits: Visit ratios of the classes, shape (M, R).
        service_s: Mean service times of the classes in seconds, shape (M, R).
        reference: The reference station's row.

    Raises:
        QueueingError: No class visits the reference.
    """
    by_class = np.asarray(visits, dtype=np.float64)
    total = by_class.sum(axis=1)
    scale = 1.0 if reference is None else float(total[reference])
    if scale <= 0:
        raise QueueingError(f"reference station {reference}", "is never visited",
                            "name a station that every cycle passes")
    alpha = np.divide(by_class, total[:, None], out=np.zeros_like(by_class),
                      where=total[:, None] > 0)
    service = (alpha * np.asarray(service_s, dtype=np.float64)).sum(axis=1)
    return ChainParameters(visits=total / scale, service_s=service, alpha=alpha)


# --- Possible cycles of a chain, each with its probability and its visits in order ---

#: Largest number of distinct cycles of one chain.
CYCLE_LIMIT = 64


class PlannedVisit(NamedTuple):
    """A visit to a queueing station: the station's row, service time and priority.

    `mean_s` and `variation` are the mean and the squared coefficient of variation of the service
    time.
    """

    station: int
    mean_s: float
    variation: float
    is_urgent: bool


class PossibleCycle(NamedTuple):
    """A transaction's sequence of visits, with the probability that it occurs."""

    probability: float
    visits: tuple[PlannedVisit, ...]


class PossibleVisit(NamedTuple):
    """A visit to a queueing station that transactions of a variant make with this probability.

    If the variant is None, the visit belongs to transactions of all variants.
    """

    variant: str | None
    chance: float
    visit: PlannedVisit


def variant_shares(chain: Chain) -> list[tuple[str | None, float]]:
    """Return the variants of a chain's transactions, with the fraction of each.

    A chain without variants gives one variant None with the fraction 1.
    """
    return [(name, share) for name, share in chain.shares.items() if share] or [(None, 1.0)]


def list_visits(chain: Chain, network: QueueingNetwork) -> list[PossibleVisit]:
    """Return the visits to queueing stations that transactions of a chain make, in order.

    Within a class, its visits are repeated until each has its number of visits.
    """
    return [PossibleVisit(member.variant, chance, PlannedVisit(
        network.index[visit.station], visit.service_s,
        network.station(visit.station).variation, visit.is_urgent))
        for member in chain.classes for turn in range(_count_turns(member)) for visit
            in member.visits
        if (chance := min(1.0, visit.visits - turn)) > 0]


def _count_turns(member: CustomerClass) -> int:
    return math.ceil(max((visit.visits for visit in member.visits), default=0.0))


def list_cycles(chain: Chain, network: QueueingNetwork) -> list[PossibleCycle] | None:
    """Return every possible sequence of a transaction's visits, None if more than CYCLE_LIMIT."""
    if sum(_count_turns(member) for member in chain.classes) > CYCLE_LIMIT:
        return None
    cycles = list(_make_cycles(chain, list_visits(chain, network)))
    return cycles if len(cycles) <= CYCLE_LIMIT else None


def _make_cycles(chain: Chain, visits: list[PossibleVisit]) -> Iterator[PossibleCycle]:
    for variant, share in variant_shares(chain):
        cycles = [PossibleCycle(share, ())]
        for of_variant, chance, visit in visits:
            if of_variant is not None and of_variant != variant:
                continue
            with_visit = [PossibleCycle(p * chance, (*done, visit)) for p, done in cycles]
            without = [PossibleCycle(p * (1 - chance), done) for p, done in cycles if chance < 1]
            cycles = with_visit + without
            if len(cycles) > CYCLE_LIMIT:
                break
        yield from cycles
