"""The study as the 2007 paper printed it: values without intervals."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import published as paper
from analysis.names import scenario_title
from analysis.protection.score import score
from analysis.statistics import Estimate
from analysis.study.measured import in_order
from analysis.study.model import Kind, Observation, Place, Profile, Study
from policies import Weights, load_all, load_weights

_PLACES: tuple[tuple[str, Kind], ...] = (
    ("N1", "home"), ("N2", "home"), ("N3", "home"), ("R1", "roaming"), ("R2", "roaming"))


def published(weights: Weights | None = None) -> Study:
    """The study of the values that the paper printed; of P1 to P12 in its five scenarios.

    The paper gives authentication times for a kind of scenario; they stand in each of its kind.
    """
    used, found = weights or load_weights(), paper.load()
    profiles = in_order(Profile(policy.id, policy.name, policy, score(policy, used))
                        for policy in load_all())
    places = tuple(Place(name, scenario_title(name), kind) for name, kind in _PLACES)
    return Study("published", profiles, places, dict(_observations(found)), used, "P1",
                 published=found.cells)


def _observations(found: paper.Published) -> Iterator[tuple[tuple[str, str, str], Observation]]:
    for key, value in found.cells.items():
        yield key, Observation(Estimate(value, None, None, 0))
    for (policy, kind), seconds in found.authentication_time_s.items():
        for scenario, its_kind in _PLACES:
            if its_kind == kind:
                yield ("authentication_time_s", policy, scenario), Observation(
                    Estimate(seconds, None, None, 0))
