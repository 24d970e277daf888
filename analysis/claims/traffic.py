"""Claims on cryptographic overhead and throughput: Q8 to Q15 of the 2007 paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.claims.ask import cells, group, halves, having, more, papers, times
from analysis.claims.finding import (
    ABOUT,
    KILOBITS,
    MORE,
    PERCENT,
    TIMES,
    VARIANCE,
    Band,
    Question,
    about,
)
from analysis.statistics import Sample
from analysis.study.blocks import measured_places
from analysis.study.model import Kind, Place, Study
from analysis.study.recommend import NO_COST
from analysis.study.robustness import sample_variance

TCP, UDP = "tcp_overhead_bps", "udp_overhead_bps"
#: Q12: how much throughput differs between policies, as printed.
_SPREADS: tuple[tuple[str, Kind, float, float], ...] = (
    ("tcp", "home", 0.12, 0.15), ("udp", "home", 0.06, 0.08),
    ("tcp", "roaming", 0.10, 0.16), ("udp", "roaming", 0.07, 0.12))
#: The paper gives these in whole percent.
_POINT = 0.01


def q8(study: Study) -> list[Question]:
    """P5 and P6 cost less than one percent of the rate without security, over all scenarios."""
    return [Question(f"{policy}, {stream.upper()} overhead / rate under {study.baseline}",
                     cells(study, f"{stream}_overhead_bps", [policy], study.places),
                     Band(-NO_COST, NO_COST), PERCENT,
                     below=cells(study, f"{stream}_goodput_bps", [study.baseline or "?"],
                                 study.places))
            for stream in ("tcp", "udp") for policy in ("P5", "P6")]


def q9(study: Study) -> list[Question]:
    """IPsec and WEP cost 1.16 times IPsec alone and 3.5 times WEP alone: TCP at home."""
    both = list(having(study, ipsec=True, link=True))
    more_by = 0.16 * ABOUT
    return [times(study, TCP, both, ["P3"], "home", Band(1.16 - more_by, 1.16 + more_by), TIMES),
            times(study, TCP, both, ["P2", "P7", "P8"], "home", about(3.5), TIMES)]


def q10(study: Study) -> list[Question]:
    """P8 costs less than every other policy of its group."""
    return [more(study, TCP, [other], ["P8"], "home", KILOBITS)
            for other in group(study, "middle") if other != "P8"]


def q11(study: Study) -> list[Question]:
    """The mean overhead over all policies and scenarios is lower for UDP."""
    policies = [one.id for one in papers(study) if one.id != study.baseline]
    tcp, udp = (cells(study, metric, policies, study.places) for metric in (TCP, UDP))
    return [Question("TCP less UDP, all policies and scenarios", [*tcp, *udp], MORE, KILOBITS,
                     halves(len(tcp)))]


def q12(study: Study) -> list[Question]:
    """The best throughput exceeds the worst of a scenario by so much of the worst."""
    questions = []
    for stream, kind, low, high in _SPREADS:
        metric, band = f"{stream}_goodput_bps", Band(low - _POINT, high + _POINT)
        for place in study.of_kind(kind):
            found = {one.id: seen.estimate.mean for one in papers(study)
                     if (seen := study.find(metric, one.id, place.id)) is not None}
            best, worst = (pick(found, key=lambda key: found[key]) if found else "?"
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


def q13(study: Study) -> list[Question]:
    """The fastest scenario at home has about twice the TCP throughput of those that roam."""
    metric = "tcp_goodput_bps"
    policies = [one.id for one in papers(study)]
    totals = {place.id: study.mean(metric, policy, [place]) for policy in policies[:1]
              for place in study.of_kind("home")}
    known = {name: value for name, value in totals.items() if value is not None}
    best = max(known, key=lambda name: known[name], default="?")
    return [Question(f"all policies, {best} / roaming",
                     [(metric, policy, best) for policy in policies] or [(metric, "?", best)],
                     about(2), TIMES,
                     below=cells(study, metric, policies or ["?"], study.of_kind("roaming")))]


def q14(study: Study) -> list[Question]:
    """P6 has the smallest variance of all, P3 that of the middle group."""
    ours = [one.id for one in papers(study) if one.id != study.baseline]
    pairs = [(one, "P6") for one in ours if one != "P6"]
    pairs += [(one, "P3") for one in group(study, "middle") if one != "P3"]
    return [_variances(study, [other], [steady]) for other, steady in pairs]


def q15(study: Study) -> list[Question]:
    """The low group varies less than the others without P8, and P8 more than its group."""
    low, middle, high = ([one for one in group(study, name) if one != "P8"] or ["?"]
                         for name in ("low", "middle", "high"))
    return [_variances(study, high, low), _variances(study, middle, low),
            _variances(study, ["P8"], middle)]


def _variances(study: Study, larger: list[str], smaller: list[str]) -> Question:
    """Whether the mean variance over the scenarios of some policies exceeds that of others."""
    count = len(measured_places(study, TCP, study.places))
    wide, narrow = (cells(study, TCP, policies, study.places) for policies in (larger, smaller))
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
