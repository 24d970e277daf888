"""How well a policy fits an application in one kind of scenario."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from analysis.blocks import ratio
from analysis.cells import Observation
from analysis.statistics import Estimate
from studies.qop2007.metrics import AUTHENTICATION, HANDOFF, OVERHEADS, STREAMS
from studies.qop2007.report.advice.applications import Limits
from studies.qop2007.report.basis import Basis, Kind, ScoredPolicy

Answer = Literal["yes", "no", "undecided", "not measured"]


@dataclass(frozen=True)
class Fit:
    """Whether a policy qualifies, and the numbers behind it; None where they were not measured.

    `interruptions` are the authentication time and, roaming, the handoff; `loss` the share of
    packets lost to handoffs; `throughput` that of the slowest scenario, `calls` as many as fit in
    it; `cost` the share of the rate without security that is lost; `fails` what is not met or open.
    """

    policy: ScoredPolicy
    answer: Answer
    fails: tuple[str, ...]
    interruptions: tuple[Observation, ...]
    loss: Estimate | None
    throughput: Observation | None
    calls: Estimate | None
    cost: Estimate | None


def fit_of(basis: Basis, policy: ScoredPolicy, limits: Limits, kind: Kind) -> Fit:
    """The fit of a policy; a limit that an interval does not decide leaves the answer undecided."""
    interruptions = _interruptions(basis, policy, kind)
    gap = interruptions[-1].estimate if interruptions else None
    loss = scaled(gap, 1 / limits.between_moves_s) if kind == "roaming" else Estimate(0, 0, 0, 0)
    throughput = _slowest(basis, policy, limits, kind)
    sigma = policy.score.sigma_normalized if policy.score else None
    checks = {
        "interruption": _all(_below(average.estimate, limits.delay_s) for average in interruptions)
        if interruptions else _below(None, limits.delay_s),
        "loss": _below(loss, limits.loss),
        "rate": _above(throughput.estimate if throughput else None, limits.rate_bps),
        "protection": _above(None if sigma is None else Estimate(sigma, sigma, sigma, 0),
                             limits.sigma)}
    fails = tuple(name if answer == "no" else f"{name}?" for name, answer in checks.items()
                  if answer != "yes")
    calls = None
    if limits.rate_bps and throughput:
        calls = scaled(throughput.estimate, 1 / limits.rate_bps, whole=True)
    answer = _all(checks.values())
    if answer == "undecided" and not interruptions and throughput is None:
        answer = "not measured"
    return Fit(policy, answer, fails,
               interruptions, loss, throughput, calls, _cost(basis, policy, limits, kind))


def scaled(estimate: Estimate | None, factor: float, *, whole: bool = False) -> Estimate | None:
    """An estimate times a factor; whole numbers are those that fit completely."""
    if estimate is None:
        return None
    cut = math.floor if whole else float
    low, high = (None if side is None else float(cut(side * factor))
                 for side in (estimate.low, estimate.high))
    return Estimate(float(cut(estimate.mean * factor)), low, high, estimate.n)


def _interruptions(basis: Basis, policy: ScoredPolicy, kind: Kind) -> tuple[Observation, ...]:
    """Authentication time, to which the paper applies its thresholds; and the whole handoff."""
    names = [AUTHENTICATION.name, *([HANDOFF.name] if kind == "roaming" else [])]
    observations = (basis.over(name, policy.id, basis.of_kind(kind)) for name in names)
    return tuple(seen for seen in observations if seen is not None)


def _slowest(basis: Basis, policy: ScoredPolicy, limits: Limits, kind: Kind) -> Observation | None:
    metric = STREAMS[limits.stream].name
    observations = [seen for place in basis.of_kind(kind)
                    if (seen := basis.find(metric, policy.id, place.id)) is not None]
    return min(observations, key=lambda seen: seen.estimate.mean, default=None)


def _cost(basis: Basis, policy: ScoredPolicy, limits: Limits, kind: Kind) -> Estimate | None:
    if policy.id == basis.baseline:
        return Estimate(0.0, None, None, 0)
    lost, rate = OVERHEADS[limits.stream].name, STREAMS[limits.stream].name
    there = [place.id for place in basis.of_kind(kind) if basis.find(lost, policy.id, place.id)]
    return ratio(basis.observations, [(lost, policy.id, name) for name in there],
                 [(rate, basis.baseline or "", name) for name in there])


def _below(estimate: Estimate | None, limit: float | None) -> Answer:
    """Whether a value stays below a limit for sure; printed values count as they are."""
    if limit is None:
        return "yes"
    if estimate is None:
        return "undecided"
    low = estimate.mean if estimate.low is None else estimate.low
    high = estimate.mean if estimate.high is None else estimate.high
    if high <= limit:
        return "yes"
    return "no" if low > limit else "undecided"


def _above(estimate: Estimate | None, limit: float | None) -> Answer:
    if estimate is None or limit is None:
        return _below(estimate, limit)
    mirrored = Estimate(estimate.mean, estimate.high, estimate.low, estimate.n)
    return _below(scaled(mirrored, -1.0), -limit)


def _all(answers: Iterable[Answer]) -> Answer:
    given = set(answers)
    return "no" if "no" in given else "undecided" if "undecided" in given else "yes"
