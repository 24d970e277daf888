"""Claims on cryptographic overhead and throughput: Q8 to Q15 of the 2007 paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.claims import finding
from analysis.claims.extremes import Extreme, Spread
from analysis.claims.finding import ABOUT, MORE, PERCENT, TIMES, Asks, Band, Question, band_around
from analysis.statistics import Sample
from studies.qop2007.metrics import OVERHEADS, STREAMS, TCP_OVERHEAD, UDP_OVERHEAD
from studies.qop2007.report.basis import Basis, Kind, Place
from studies.qop2007.report.claims.questions import (
    KILOBITS,
    VARIANCE,
    cell_keys,
    difference_question,
    halves_difference,
    negligible_difference,
    papers_group,
    papers_policies,
    policies_having,
    ratio_question,
)
from studies.qop2007.report.recommendation import NO_COST
from studies.qop2007.report.robustness import sample_variance

TCP, UDP = TCP_OVERHEAD.name, UDP_OVERHEAD.name
#: Q12: printed differences of throughput between policies.
_SPREADS: tuple[tuple[str, Kind, float, float], ...] = (
    ("tcp", "home", 0.12, 0.15), ("udp", "home", 0.06, 0.08),
    ("tcp", "roaming", 0.10, 0.16), ("udp", "roaming", 0.07, 0.12))
#: The paper gives these differences in whole percent.
_POINT = 0.01


def q8(basis: Basis) -> list[Question]:
    """Ask whether P5 and P6 cost under one percent of the unsecured rate.

    All scenarios count.
    """
    return [Question(f"{policy}, {stream.upper()} overhead / rate under {basis.baseline}",
                     cell_keys(basis, OVERHEADS[stream].name, [policy], basis.places),
                     Band(-NO_COST, NO_COST), PERCENT,
                     below=cell_keys(basis, STREAMS[stream].name, [basis.baseline or "?"],
                                     basis.places))
            for stream in ("tcp", "udp") for policy in ("P5", "P6")]


def q9(basis: Basis) -> list[Question]:
    """Ask whether IPsec with WEP costs 1.16 times IPsec and 3.5 times WEP.

    Costs are those of TCP at home.
    """
    both = list(policies_having(basis, ipsec=True, link=True))
    more_by = 0.16 * ABOUT
    return [ratio_question(basis, TCP, both, ["P3"], "home", Band(1.16 - more_by, 1.16 + more_by),
                           TIMES),
            ratio_question(basis, TCP, both, ["P2", "P7", "P8"], "home", band_around(3.5), TIMES)]


def q10(basis: Basis) -> list[Question]:
    """Ask whether P8 costs less than every other policy of its group."""
    return [difference_question(basis, TCP, [other], ["P8"], "home", KILOBITS)
            for other in papers_group(basis, "middle") if other != "P8"]


def q11(basis: Basis) -> list[Question]:
    """Ask whether the mean overhead over all policies and scenarios is lower for UDP."""
    policies = [policy.id for policy in papers_policies(basis) if policy.id != basis.baseline]
    tcp, udp = (cell_keys(basis, metric, policies, basis.places) for metric in (TCP, UDP))
    return [Question("TCP less UDP, all policies and scenarios", [*tcp, *udp],
                     finding.positive_band(negligible_difference(basis, TCP, basis.places)),
                     KILOBITS,
                     halves_difference(len(tcp)))]


def q12(basis: Basis) -> list[Asks]:
    """Ask how much the best throughput of a scenario exceeds the worst one."""
    return [_spread_question(basis, STREAMS[stream].name, place, Band(low - _POINT, high + _POINT))
            for stream, kind, low, high in _SPREADS for place in basis.of_kind(kind)]


def _spread_question(basis: Basis, metric: str, place: Place, band: Band) -> Spread:
    means = {policy.id: seen.estimate.mean for policy in papers_policies(basis)
             if (seen := basis.find_observation(metric, policy.id, place.id)) is not None}
    best, worst = (pick(means, key=lambda key: means[key]) if means else "?"
                   for pick in (max, min))
    stream = metric.partition("_")[0].upper()
    return Spread(f"{stream} in {place.id}, {best} over {worst}",
                  [(metric, policy, place.id) for policy in means], band, PERCENT)


def q13(basis: Basis) -> list[Asks]:
    """Ask whether the fastest scenario at home has twice the TCP throughput of roaming ones."""
    return [_fastest_question(basis, basis.of_kind("roaming"))]


def on_several_channels(basis: Basis, full_basis: Basis) -> list[Asks]:
    """Ask Q13 where access points have several channels, with the policies measured there.

    The second basis also has scenarios that are not the paper's. Without such a scenario the
    list is empty.
    """
    metric = STREAMS["tcp"].name
    apart = [place for place in full_basis.measured_places(metric, full_basis.of_kind("roaming"))
             if len(place.channels) > 1]
    return [_fastest_question(basis, apart)] if apart else []


def _fastest_question(basis: Basis, roaming: Sequence[Place]) -> Extreme:
    """Ask how much faster than roaming the fastest scenario at home is.

    The policies are those that were measured in all the roaming scenarios.
    """
    metric = STREAMS["tcp"].name
    home, away = (basis.measured_places(metric, places)
                  for places in (basis.of_kind("home"), roaming))
    policies = [scored.id for scored in papers_policies(basis)
                if all(basis.find_observation(metric, scored.id, place.id) for place
                       in away)] or ["?"]
    below = cell_keys(basis, metric, policies, away)
    among = [Question(place.id, cell_keys(basis, metric, policies, [place]), band_around(2), TIMES,
                      below=below) for place in home] \
        or [Question("?", [(metric, "?", "?")], band_around(2), TIMES, below=below)]
    means = {place.id: sum(seen.estimate.mean for policy in policies
                           if (seen := basis.find_observation(metric, policy, place.id))) for place
             in home}
    best = max(means, key=lambda name: means[name], default="?")
    who = "all policies" if len(policies) > 1 else policies[0]
    where = " ".join(place.id for place in away) or "roaming"
    return Extreme(f"{who}, {best} / {where}{_describe_channels(away)}", among, "largest")


def _describe_channels(places: Sequence[Place]) -> str:
    """Describe the channels of access points, where they are known."""
    plans = {len(place.channels) > 1 for place in places if place.channels}
    if len(plans) != 1:
        return ""
    return ", access points on channels of their own" if plans.pop() \
        else ", access points on one channel"


def q14(basis: Basis) -> list[Question]:
    """Ask whether P6 has the smallest variance, and P3 that of the middle group."""
    ours = [policy.id for policy in papers_policies(basis) if policy.id != basis.baseline]
    pairs = [(policy, "P6") for policy in ours if policy != "P6"]
    pairs += [(policy, "P3") for policy in papers_group(basis, "middle") if policy != "P3"]
    return [_variance_question(basis, [other], [steady]) for other, steady in pairs]


def q15(basis: Basis) -> list[Question]:
    """Ask whether the low group varies less than others, and P8 more than its group."""
    low, middle, high = ([policy for policy in papers_group(basis, name) if policy != "P8"] or ["?"]
                         for name in ("low", "middle", "high"))
    return [_variance_question(basis, high, low), _variance_question(basis, middle, low),
            _variance_question(basis, ["P8"], middle)]


def _variance_question(basis: Basis, larger: list[str], smaller: list[str]) -> Question:
    """Ask whether some policies' mean variance over the scenarios exceeds that of others."""
    count = len(basis.measured_places(TCP, basis.places))
    wide, narrow = (cell_keys(basis, TCP, policies, basis.places) for policies in (larger, smaller))
    if count < 2:  # A variance needs two scenarios.
        wide = [(TCP, "?", "?")]

    return Question(f"variance of {' '.join(larger)} less that of {' '.join(smaller)}",
                    [*wide, *narrow], MORE, VARIANCE, _Excess(count, len(larger)))


@dataclass(frozen=True)
class _Excess:
    """Mean variance of the first policies minus that of the rest. A policy has `count` cells."""

    count: int
    policies: int

    def __call__(self, means: Sample) -> Any:
        """Return the excess over the last axis."""
        by_policy = sample_variance(means.reshape(*means.shape[:-1], -1, self.count))
        return halves_difference(self.policies)(by_policy)
