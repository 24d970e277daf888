"""The possible cycles of a chain, each with its probability and its visits in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from analysis.queueing.network import Chain, CustomerClass, QueueingNetwork

#: Largest number of distinct cycles of one chain.
CYCLE_LIMIT = 64


class PlannedVisit(NamedTuple):
    """A future visit: the station's row, its service time and its priority.

    `mean_s` and `variation` are the mean and the squared coefficient of variation of the service
    time.
    """

    station: int
    mean_s: float
    variation: float
    is_urgent: bool


class PossibleCycle(NamedTuple):
    """A cycle that a chain makes with this probability."""

    probability: float
    visits: tuple[PlannedVisit, ...]


class PossibleVisit(NamedTuple):
    """A visit that cycles of a variant make with this probability.

    If the variant is None, the visit belongs to cycles of all variants.
    """

    variant: str | None
    chance: float
    visit: PlannedVisit


def shares_of(chain: Chain) -> list[tuple[str | None, float]]:
    """Return the variants of a chain's cycles with their shares.

    A chain without variants gives one variant None with the share 1.
    """
    return [(name, share) for name, share in chain.shares.items() if share] or [(None, 1.0)]


def list_visits(chain: Chain, network: QueueingNetwork) -> list[PossibleVisit]:
    """Return the visits of a chain in order.

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
    """Return every cycle of a chain, or None if there are more than CYCLE_LIMIT."""
    if sum(_count_turns(member) for member in chain.classes) > CYCLE_LIMIT:
        return None
    cycles = list(_make_cycles(chain, list_visits(chain, network)))
    return cycles if len(cycles) <= CYCLE_LIMIT else None


def _make_cycles(chain: Chain, visits: list[PossibleVisit]) -> Iterator[PossibleCycle]:
    for variant, share in shares_of(chain):
        cycles = [PossibleCycle(share, ())]
        for of_variant, chance, visit in visits:
            if of_variant is not None and of_variant != variant:
                continue
            made = [PossibleCycle(p * chance, (*done, visit)) for p, done in cycles]
            left_out = [PossibleCycle(p * (1 - chance), done) for p, done in cycles if chance < 1]
            cycles = made + left_out
            if len(cycles) > CYCLE_LIMIT:
                break
        yield from cycles
