"""Claims on cryptographic overhead and throughput: Q8 to Q15 of the 2007 paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.claims.finding import ABOUT, MORE, PERCENT, TIMES, Band, Question, about
from analysis.statistics import Sample
from studies.qop2007.metrics import OVERHEADS, STREAMS, TCP_OVERHEAD, UDP_OVERHEAD
from studies.qop2007.report.basis import Basis, Kind, Place
from studies.qop2007.report.claims.questions import (
    KILOBITS,
    VARIANCE,
    cells,
    group,
    halves,
    having,
    more,
    papers,
    times,
)
from studies.qop2007.report.recommendation import NO_COST
from studies.qop2007.report.robustness import sample_variance

TCP, UDP = TCP_OVERHEAD.name, UDP_OVERHEAD.name
#: Q12: how much throughput differs between policies, as printed.
_SPREADS: tuple[tuple[str, Kind, float, float], ...] = (
    ("tcp", "home", 0.12, 0.15), ("udp", "home", 0.06, 0.08),
    ("tcp", "roaming", 0.10, 0.16), ("udp", "roaming", 0.07, 0.12))
#: The paper gives these in whole percent.
_POINT = 0.01


def q8(basis: Basis) -> list[Question]:
    """P5 and P6 cost less than one percent of the rate without security, over all scenarios."""
    return [Question(f"{policy}, {stream.upper()} overhead / rate under {basis.baseline}",
                     cells(basis, OVERHEADS[stream].name, [policy], basis.places),
                     Band(-NO_COST, NO_COST), PERCENT,
                     below=cells(basis, STREAMS[stream].name, [basis.baseline or "?"],
                                 basis.places))
            for stream in ("tcp", "udp") for policy in ("P5", "P6")]


def q9(basis: Basis) -> list[Question]:
    """IPsec and WEP cost 1.16 times IPsec alone and 3.5 times WEP alone: TCP at home."""
    both = list(having(basis, ipsec=True, link=True))
    more_by = 0.16 * ABOUT
    return [times(basis, TCP, both, ["P3"], "home", Band(1.16 - more_by, 1.16 + more_by), TIMES),
            times(basis, TCP, both, ["P2", "P7", "P8"], "home", about(3.5), TIMES)]


def q10(basis: Basis) -> list[Question]:
    """P8 costs less than every other policy of its group."""
    return [more(basis, TCP, [other], ["P8"], "home", KILOBITS)
            for other in group(basis, "middle") if other != "P8"]


def q11(basis: Basis) -> list[Question]:
    """The mean overhead over all policies and scenarios is lower for UDP."""
    policies = [policy.id for policy in papers(basis) if policy.id != basis.baseline]
    tcp, udp = (cells(basis, metric, policies, basis.places) for metric in (TCP, UDP))
    return [Question("TCP less UDP, all policies and scenarios", [*tcp, *udp], MORE, KILOBITS,
                     halves(len(tcp)))]


def q12(basis: Basis) -> list[Question]:
    """The best throughput exceeds the worst of a scenario by so much of the worst."""
    questions = []
    for stream, kind, low, high in _SPREADS:
        metric, band = STREAMS[stream].name, Band(low - _POINT, high + _POINT)
        for place in basis.of_kind(kind):
            means = {policy.id: seen.estimate.mean for policy in papers(basis)
                     if (seen := basis.find(metric, policy.id, place.id)) is not None}
            best, worst = (pick(means, key=lambda key: means[key]) if means else "?"
                           for pick in (max, min))
            questions.append(_spread(metric, place, (best, worst), band))
    return questions


def _spread(metric: str, place: Place, ends: tuple[str, str], band: Band) -> Question:
    best, worst = ends
    stream = metric.partition("_")[0].upper()

    def excess(means: Sample) -> Any:
        return means[..., 0] / means[..., 1] - 1

    return Question(f"{stream} in {place.id}, {best} over {worst}",
                    [(metric, best, place.id), (metric, worst, place.id)], band, PERCENT, excess)


def q13(basis: Basis) -> list[Question]:
    """The fastest scenario at home has about twice the TCP throughput of those that roam."""
    metric = STREAMS["tcp"].name
    policies = [scored.id for scored in papers(basis)]
    totals = {place.id: basis.mean(metric, policy, [place]) for policy in policies[:1]
              for place in basis.of_kind("home")}
    known = {name: value for name, value in totals.items() if value is not None}
    best = max(known, key=lambda name: known[name], default="?")
    return [Question(f"all policies, {best} / roaming",
                     [(metric, policy, best) for policy in policies] or [(metric, "?", best)],
                     about(2), TIMES,
                     below=cells(basis, metric, policies or ["?"], basis.of_kind("roaming")))]


def q14(basis: Basis) -> list[Question]:
    """P6 has the smallest variance of all, P3 that of the middle group."""
    ours = [policy.id for policy in papers(basis) if policy.id != basis.baseline]
    pairs = [(policy, "P6") for policy in ours if policy != "P6"]
    pairs += [(policy, "P3") for policy in group(basis, "middle") if policy != "P3"]
    return [_variances(basis, [other], [steady]) for other, steady in pairs]


def q15(basis: Basis) -> list[Question]:
    """The low group varies less than the others without P8, and P8 more than its group."""
    low, middle, high = ([policy for policy in group(basis, name) if policy != "P8"] or ["?"]
                         for name in ("low", "middle", "high"))
    return [_variances(basis, high, low), _variances(basis, middle, low),
            _variances(basis, ["P8"], middle)]


def _variances(basis: Basis, larger: list[str], smaller: list[str]) -> Question:
    """Whether the mean variance over the scenarios of some policies exceeds that of others."""
    count = len(basis.measured_places(TCP, basis.places))
    wide, narrow = (cells(basis, TCP, policies, basis.places) for policies in (larger, smaller))
    if count < 2:  # a variance needs two scenarios
        wide = [(TCP, "?", "?")]

    return Question(f"variance of {' '.join(larger)} less that of {' '.join(smaller)}",
                    [*wide, *narrow], MORE, VARIANCE, _Excess(count, len(larger)))


@dataclass(frozen=True)
class _Excess:
    """Mean variance of the first policies less that of the rest; a policy has `count` cells."""

    count: int
    policies: int

    def __call__(self, means: Sample) -> Any:
        """The excess, over the last axis."""
        by_policy = sample_variance(means.reshape(*means.shape[:-1], -1, self.count))
        return halves(self.policies)(by_policy)
