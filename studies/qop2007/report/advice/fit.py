"""Fit of a policy to an application in one kind of scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from analysis.blocks import ratio_of_means
from analysis.cells import Observation
from analysis.statistics import Estimate
from studies.qop2007.metrics import AUTHENTICATION, HANDOFF, OVERHEADS, STREAMS
from studies.qop2007.report.advice.applications import Limits
from studies.qop2007.report.basis import Basis, Kind, ScoredPolicy

Answer = Literal["yes", "no", "undecided", "not measured"]


@dataclass(frozen=True)
class Worst:
    """A policy's worst value in the scenarios of a kind, and its scenario."""

    place: str
    value: Observation


@dataclass(frozen=True)
class Fit:
    """Verdict on a policy for an application, and its numbers (None: not measured).

    Each number is of the scenario where it is worst:

    - `interruptions`: the authentication time and, roaming, the handoff
    - `loss`: share of packets lost to handoffs
    - `throughput`: that of the slowest scenario
    - `calls`: largest number of calls on the air of the scenario `calls_place`
    - `cost`: share of the rate without security that is lost, in the scenario `cost_place`
    - `fails`: limits that are not met or undecided
    """

    policy: ScoredPolicy
    answer: Answer
    fails: tuple[str, ...]
    interruptions: tuple[Worst | None, ...]
    loss: Estimate | None
    throughput: Worst | None
    calls: int | None
    calls_place: str
    cost: Estimate | None
    cost_place: str


def fit_of(basis: Basis, policy: ScoredPolicy, limits: Limits, kind: Kind) -> Fit:
    """Return the fit of a policy.

    The answer is undecided where the interval of a value holds a limit.
    """
    names = [AUTHENTICATION.name, *([HANDOFF.name] if kind == "roaming" else [])]
    there = {name: _find_observations(basis, name, policy, kind) for name in names}
    interruptions = tuple(_find_largest(values) for values in there.values())
    gap = interruptions[-1] or interruptions[0]
    loss = scale_estimate(gap.value.estimate if gap else None, 1 / limits.between_moves_s) \
        if kind == "roaming" else Estimate(0, 0, 0, 0)
    rates = _find_observations(basis, STREAMS[limits.stream].name, policy, kind)
    throughput = min((Worst(place, seen) for place, seen in rates.items() if seen),
                     key=lambda worst: worst.value.estimate.mean, default=None)
    calls, calls_place = _fewest_calls(basis, policy, limits,
                                       [place for place in rates if rates[place]])
    sigma = policy.score.sigma_normalized if policy.score else None
    asked = [value for values in there.values() for value in values.values()]
    checks = {
        "interruption": _combine_answers(_is_below(seen.estimate if seen else None, limits.delay_s)
                                         for seen in asked) if asked
                                         else _is_below(None, limits.delay_s),
        "loss": _is_below(loss, limits.loss),
        "rate": "no" if calls == 0 else _is_above(
            throughput.value.estimate if throughput else None, limits.rate_bps),
        "protection": _is_above(None if sigma is None else Estimate(sigma, sigma, sigma, 0),
                                limits.sigma)}
    fails = tuple(name if answer == "no" else f"{name}?" for name, answer in checks.items()
                  if answer != "yes")
    answer = _combine_answers(checks.values())
    if answer == "undecided" and not any(interruptions) and throughput is None:
        answer = "not measured"
    cost, place = _largest_cost(basis, policy, limits, kind)
    return Fit(policy, answer, fails, interruptions, loss, throughput, calls, calls_place,
               cost, place)


def scale_estimate(estimate: Estimate | None, factor: float) -> Estimate | None:
    """Multiply an estimate by a factor."""
    if estimate is None:
        return None
    low, high = (None if side is None else side * factor
                 for side in (estimate.low, estimate.high))
    return Estimate(estimate.mean * factor, low, high, estimate.n)


def _find_observations(basis: Basis, metric: str, policy: ScoredPolicy,
                       kind: Kind) -> dict[str, Observation | None]:
    """Return a policy's values by scenario, where any policy has a value."""
    return {place.id: basis.find_observation(metric, policy.id, place.id)
            for place in basis.measured_places(metric, basis.of_kind(kind))}


def _find_largest(values: Mapping[str, Observation | None]) -> Worst | None:
    """Return the largest value.

    The result is None where a value is missing, because it could be the largest.
    """
    there = [Worst(place, seen) for place, seen in values.items() if seen]
    if len(there) < len(values):
        return None
    return max(there, key=lambda worst: worst.value.estimate.mean, default=None)


def _fewest_calls(basis: Basis, policy: ScoredPolicy, limits: Limits,
                  places: Iterable[str]) -> tuple[int | None, str]:
    """Return the smallest number of calls that a scenario's air carries, and the scenario.

    The number is None where the packets of a call or the air of a scenario are unknown.
    """
    if limits.packets is None:
        return None, ""
    counts = {place: basis.calls.get((limits.packets, policy.id, place)) for place in places}
    known = {place: count for place, count in counts.items() if count is not None}
    if not known or len(known) < len(counts):
        return None, ""
    fewest = min(known, key=lambda place: known[place])
    return known[fewest], fewest


def _largest_cost(basis: Basis, policy: ScoredPolicy, limits: Limits,
                  kind: Kind) -> tuple[Estimate | None, str]:
    """Return the largest lost share of the rate without security, and its scenario."""
    if policy.id == basis.baseline:
        return Estimate(0.0, None, None, 0), ""
    lost, rate = OVERHEADS[limits.stream].name, STREAMS[limits.stream].name
    shares = {place.id: share for place in basis.of_kind(kind) if (share := ratio_of_means(
        basis.observations, [(lost, policy.id, place.id)],
        [(rate, basis.baseline or "", place.id)])) is not None}
    worst = max(shares, key=lambda place: shares[place].mean, default="")
    return shares.get(worst), worst


def _is_below(estimate: Estimate | None, limit: float | None) -> Answer:
    """Answer whether a value is surely below a limit. Printed values are taken as they are."""
    if limit is None:
        return "yes"
    if estimate is None:
        return "undecided"
    low = estimate.mean if estimate.low is None else estimate.low
    high = estimate.mean if estimate.high is None else estimate.high
    if high <= limit:
        return "yes"
    return "no" if low > limit else "undecided"


def _is_above(estimate: Estimate | None, limit: float | None) -> Answer:
    if estimate is None or limit is None:
        return _is_below(estimate, limit)
    mirrored = Estimate(estimate.mean, estimate.high, estimate.low, estimate.n)
    return _is_below(scale_estimate(mirrored, -1.0), -limit)


def _combine_answers(answers: Iterable[Answer]) -> Answer:
    given = set(answers)
    return "no" if "no" in given else "undecided" if "undecided" in given else "yes"
