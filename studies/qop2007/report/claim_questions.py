"""Turn the claims Q1 to Q16 of the 2007 paper into questions about measured values.

A claim is a conclusion of the paper, such as "roaming is slower". A question is a number computed
from measured values (a difference, a ratio or an extreme value), with the range that confirms the
claim. Each `ask_` function returns the questions of one claim (for Q7, the answers).
`claim_verdicts.py` judges the answers. The paper is Agarwal and Wang (2007), on the cost of
security policies in wireless LANs. `studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from analysis import claims
from analysis.blocks import Function, mean_of
from analysis.cells import Key
from analysis.claims import (
    ABOUT_TOLERANCE,
    MORE,
    PERCENT,
    TIMES,
    Band,
    ClaimQuestion,
    DisplayUnit,
    ExtremeQuestion,
    Finding,
    Question,
    SpreadQuestion,
    band_around,
    unit_of,
)
from analysis.statistics import Estimate, Sample
from studies.qop2007 import published
from studies.qop2007.measurements import (
    AUTHENTICATION,
    OVERHEADS,
    STREAMS,
    TCP_OVERHEAD,
    UDP_OVERHEAD,
)
from studies.qop2007.report.basis import (
    KIND_TITLES,
    KINDS,
    Kind,
    ReportBasis,
    ReportScenario,
    ScoredPolicy,
)
from studies.qop2007.report.paper_tables import sample_variance
from studies.qop2007.report.recommendation import NO_COST

# --- Questions for several claims ---
# They are differences and ratios of policies over kinds of scenarios.

TIME = AUTHENTICATION.name
MILLISECONDS = unit_of(AUTHENTICATION)
KILOBITS = DisplayUnit("kbit/s", 1e-3)
PACKETS = DisplayUnit("packets")
VARIANCE = DisplayUnit("(kbit/s)\N{SUPERSCRIPT TWO}", 1e-6)


def papers_policies(basis: ReportBasis) -> tuple[ScoredPolicy, ...]:
    """Return the policies that are the 2007 paper's own. Its claims are about no others."""
    known = {policy for _, policy, _ in basis.published}
    return tuple(policy for policy in basis.policies if policy.id in known)


def papers_group(basis: ReportBasis, name: str) -> list[str]:
    """Return the paper's policies in one of its security groups, by the paper's own weights.

    The policy without protection is in no group.
    """
    members = published.load_values().groups[name]
    return [policy.id for policy in papers_policies(basis)
            if policy.id in members and policy.id != basis.baseline]


def kind_words(kind: Kind) -> str:
    """Return "at home" or "roaming" as text for use in a sentence."""
    return KIND_TITLES[kind].lower()


def cell_keys(basis: ReportBasis, metric: str, policies: Iterable[str],
              places: Iterable[ReportScenario]) -> list[Key]:
    """Return the keys (metric, policy, scenario) of all values that a question needs.

    Scenarios in which no policy has the metric are left out. If none is left, the keys refer to
    missing values, so that the question counts as not measured.
    """
    there = basis.measured_places(metric, places)
    names = [place.id for place in there] or ["?"]
    return [(metric, policy, name) for policy in policies for name in names]


def difference_question(basis: ReportBasis, metric: str, first: Sequence[str],
                        second: Sequence[str],
                        kind: Kind | None, unit: DisplayUnit) -> Question:
    """Ask whether the mean of some policies exceeds the mean of others.

    Args:
        basis: the measured or published values.
        metric: name of the compared metric.
        first: ids of the policies that should have the larger mean.
        second: ids of the policies that should have the smaller mean.
        kind: scenarios to average over, `home` or `roaming`. None means all.
        unit: unit and scale for display.
    """
    places = basis.places if kind is None else basis.of_kind(kind)
    left = cell_keys(basis, metric, first, places)
    right = cell_keys(basis, metric, second, places)
    label = f"{_join_names(first)} less {_join_names(second)}"
    return Question(f"{label}, {kind_words(kind)}" if kind else label, [*left, *right],
                    claims.positive_band(negligible_difference(basis, metric, places)), unit,
                    halves_difference(len(left)))


def negligible_difference(basis: ReportBasis, metric: str,
                          places: Sequence[ReportScenario]) -> float:
    """Return the difference of a metric that is too small to matter, in s or bit/s.

    For goodput and overhead the limit is a fraction of the goodput without protection. If that was
    not measured, the limit is 0.
    """
    stream = next((each for each in STREAMS.values()
                   if each.difference is not None and each.difference.name == metric), None)
    if stream is None:
        return AUTHENTICATION.negligible
    means = [value.estimate.mean for place in places
             if (value := basis.find_observation(stream.name, basis.baseline or "?", place.id))]
    return stream.negligible * sum(means) / len(means) if means else 0.0


def ratio_question(basis: ReportBasis, metric: str, first: Sequence[str], second: Sequence[str],
                   kind: Kind,
                   band: Band, unit: DisplayUnit) -> Question:
    """Ask whether the mean of some policies is a certain multiple of the mean of others.

    Args:
        basis: the measured or published values.
        metric: name of the compared metric.
        first: ids of the policies with the larger mean.
        second: ids of the policies with the smaller mean.
        kind: scenarios to average over, `home` or `roaming`.
        band: range in which the claim puts the ratio.
        unit: unit and scale for display.
    """
    places = basis.of_kind(kind)
    return Question(f"{_join_names(first)} / {_join_names(second)}, {kind_words(kind)}",
                    cell_keys(basis, metric, first, places), band, unit,
                    below=cell_keys(basis, metric, second, places))


def halves_difference(count: int) -> Function:
    """Return a function: mean of the first `count` values minus the mean of the other values."""
    def difference(means: Sample) -> Any:
        return means[..., :count].mean(axis=-1) - means[..., count:].mean(axis=-1)

    return difference


def policies_having(basis: ReportBasis, *, eap: str | None = None, ipsec: bool | None = None,
                    link: bool | None = None) -> Iterator[str]:
    """Yield the paper's policies with or without some layers, such as those with EAP-TLS.

    Args:
        basis: the measured or published values.
        eap: EAP method that the policies use. None means any.
        ipsec: whether the policies use IPsec. None means either.
        link: whether the policies encrypt the link. None means either.
    """
    for policy in papers_policies(basis):
        if policy.definition is None:
            continue
        layers = policy.definition.layers
        criteria = ((eap, policy.definition.eap_method), (ipsec, layers.ipsec is not None),
                 (link, layers.link is not None))
        if all(want in (None, has) for want, has in criteria):
            yield policy.id


def _join_names(policies: Sequence[str]) -> str:
    return " ".join(policies)


# --- Authentication time: Q1 to Q7 and Q16 ---

#: Control packets of a negotiation: title, phase, EAP method of the policy, and number.
_PACKETS = (("EAP-TLS", "dot1x", "TLS", 17.0), ("EAP-MD5", "dot1x", "MD5", 8.0),
            ("IPsec", "ike", None, 9.0))


def ask_q1(basis: ReportBasis) -> list[Question]:
    """Ask whether each policy with EAP-TLS authenticates slower than each without it (claim Q1)."""
    with_tls = list(policies_having(basis, eap="TLS"))
    others = [policy.id for policy in papers_policies(basis) if policy.id not in with_tls]
    return [difference_question(basis, TIME, [policy], [other], kind, MILLISECONDS)
            for kind in KINDS for policy in with_tls for other in others]


def ask_q2(basis: ReportBasis) -> list[Question]:
    """Ask whether IPsec alone (P3) authenticates slower than EAP-MD5 alone (P5): claim Q2."""
    return [difference_question(basis, TIME, ["P3"], ["P5"], kind, MILLISECONDS) for kind in KINDS]


def ask_q3(basis: ReportBasis, time: str = TIME) -> list[Question]:
    """Ask whether every policy authenticates slower when roaming than at home (claim Q3)."""
    return list(_roaming_less_home(basis, time))


def _roaming_less_home(basis: ReportBasis, time: str) -> Iterator[Question]:
    for policy in papers_policies(basis):
        away = cell_keys(basis, time, [policy.id], basis.of_kind("roaming"))
        home = cell_keys(basis, time, [policy.id], basis.of_kind("home"))
        yield Question(f"{policy.id}, roaming less non-roaming", [*away, *home],
                       claims.positive_band(AUTHENTICATION.negligible), MILLISECONDS,
                       halves_difference(len(away)))


def ask_q4(basis: ReportBasis) -> list[Question]:
    """Ask whether EAP-TLS is slower than IPsec, although IPsec has the higher sigma (claim Q4).

    The compared policies are P6 with P3, and P8 with P4. Sigma is the strength of protection.
    """
    return [difference_question(basis, TIME, [slow], [fast], kind, MILLISECONDS)
            for slow, fast in (("P6", "P3"), ("P8", "P4")) for kind in KINDS]


def ask_q5(basis: ReportBasis, time: str = TIME) -> list[Question]:
    """Ask whether P12 authenticates 7 times (roaming: 3 times) as long as P5 (claim Q5).

    P12 has EAP-TLS, WEP and IPsec. P5 has EAP-MD5 alone.
    """
    return [ratio_question(basis, time, ["P12"], ["P5"], "home", band_around(7), TIMES),
            ratio_question(basis, time, ["P12"], ["P5"], "roaming", band_around(3), TIMES)]


def ask_q6(basis: ReportBasis, time: str = TIME) -> list[Question]:
    """Ask whether the high security group authenticates for 1 to 2 times the middle group's time.

    This is claim Q6.
    """
    high, middle = (papers_group(basis, name) or [f"the {name} group"] for name
                    in ("high", "middle"))
    return [ratio_question(basis, time, high, middle, kind, Band(1.0, 2.0), TIMES) for kind
            in KINDS]


def ask_q7(basis: ReportBasis) -> list[Finding]:
    """Answer claim Q7, on the number of packets per negotiation, by the smallest and largest."""
    findings = []
    for title, phase, eap, claimed in _PACKETS:
        for policy in policies_having(basis, eap=eap, ipsec=True if eap is None else None):
            counts = basis.packets.get((phase, policy))
            if counts is None:
                continue
            low, high = map(float, counts)
            estimate = Estimate((low + high) / 2, low, high, 2)
            findings.append(Finding(f"{title} under {policy}", estimate, estimate,
                                    Band(claimed, claimed), PACKETS,
                                    cells=tuple(f"{policy}-{place.id}" for place in basis.places),
                                    records=tuple(
                                        basis.record_names(TIME, [policy], basis.places))))
    return findings


def ask_q16(basis: ReportBasis) -> list[ClaimQuestion]:
    """Ask whether the shortest and longest authentication times are 0.11 and 6.28 s (claim Q16)."""
    means = {(scored.id, kind): mean.estimate.mean for scored in papers_policies(basis) for kind
             in KINDS
             if (mean := basis.mean_observation(TIME, scored.id, basis.of_kind(kind))) is not None}
    if not means:
        return [Question("authentication times", [(TIME, "?", "?")], band_around(0.11),
                         MILLISECONDS,
                         mean_of)]
    return [_extreme_time(basis, means, "smallest", 0.11),
            _extreme_time(basis, means, "largest", 6.28)]


def _extreme_time(basis: ReportBasis, means: Mapping[tuple[str, Kind], float],
                  pick: Literal["smallest", "largest"], claimed: float) -> ExtremeQuestion:
    policy, kind = (min if pick == "smallest" else max)(means, key=lambda key: means[key])
    word = "shortest" if pick == "smallest" else "longest"
    return ExtremeQuestion(f"{word}: {policy}, {kind_words(kind)}",
                           [Question(f"{name}, {kind_words(where)}",
                                     cell_keys(basis, TIME, [name], basis.of_kind(where)),
                                     band_around(claimed),
                                     MILLISECONDS, mean_of) for name, where in means], pick)


# --- Cryptographic overhead and throughput: Q8 to Q15 ---

TCP, UDP = TCP_OVERHEAD.name, UDP_OVERHEAD.name
#: Q12: printed differences of throughput between policies.
_SPREADS: tuple[tuple[str, Kind, float, float], ...] = (
    ("tcp", "home", 0.12, 0.15), ("udp", "home", 0.06, 0.08),
    ("tcp", "roaming", 0.10, 0.16), ("udp", "roaming", 0.07, 0.12))
#: The paper gives these differences in whole percent.
_POINT = 0.01


def ask_q8(basis: ReportBasis) -> list[Question]:
    """Ask whether P5 and P6, which do not encrypt, cost under 1 % of the rate (claim Q8)."""
    return [Question(f"{policy}, {stream.upper()} overhead / rate under {basis.baseline}",
                     cell_keys(basis, OVERHEADS[stream].name, [policy], basis.places),
                     Band(-NO_COST, NO_COST), PERCENT,
                     below=cell_keys(basis, STREAMS[stream].name, [basis.baseline or "?"],
                                     basis.places))
            for stream in ("tcp", "udp") for policy in ("P5", "P6")]


def ask_q9(basis: ReportBasis) -> list[Question]:
    """Ask whether IPsec with WEP costs 1.16 times IPsec alone and 3.5 times WEP alone.

    This is claim Q9. Costs are overheads of TCP at home.
    """
    both = list(policies_having(basis, ipsec=True, link=True))
    more_by = 0.16 * ABOUT_TOLERANCE
    return [ratio_question(basis, TCP, both, ["P3"], "home", Band(1.16 - more_by, 1.16 + more_by),
                           TIMES),
            ratio_question(basis, TCP, both, ["P2", "P7", "P8"], "home", band_around(3.5), TIMES)]


def ask_q10(basis: ReportBasis) -> list[Question]:
    """Ask whether P8 (EAP-TLS with WEP) costs TCP less than the others of its group (claim Q10)."""
    return [difference_question(basis, TCP, [other], ["P8"], "home", KILOBITS)
            for other in papers_group(basis, "middle") if other != "P8"]


def ask_q11(basis: ReportBasis) -> list[Question]:
    """Ask whether UDP loses less rate than TCP on average, over all policies and scenarios.

    This is claim Q11.
    """
    policies = [policy.id for policy in papers_policies(basis) if policy.id != basis.baseline]
    tcp, udp = (cell_keys(basis, metric, policies, basis.places) for metric in (TCP, UDP))
    return [Question("TCP less UDP, all policies and scenarios", [*tcp, *udp],
                     claims.positive_band(negligible_difference(basis, TCP, basis.places)),
                     KILOBITS,
                     halves_difference(len(tcp)))]


def ask_q12(basis: ReportBasis) -> list[ClaimQuestion]:
    """Ask by how many percent the best policy's throughput exceeds the worst one's (claim Q12)."""
    return [_spread_question(basis, STREAMS[stream].name, place, Band(low - _POINT, high + _POINT))
            for stream, kind, low, high in _SPREADS for place in basis.of_kind(kind)]


def _spread_question(basis: ReportBasis, metric: str, place: ReportScenario,
                     band: Band) -> SpreadQuestion:
    means = {policy.id: observation.estimate.mean for policy in papers_policies(basis)
             if (observation := basis.find_observation(metric, policy.id, place.id)) is not None}
    best, worst = (pick(means, key=lambda key: means[key]) if means else "?"
                   for pick in (max, min))
    stream = metric.partition("_")[0].upper()
    return SpreadQuestion(f"{stream} in {place.id}, {best} over {worst}",
                          [(metric, policy, place.id) for policy in means], band, PERCENT)


def ask_q13(basis: ReportBasis) -> list[ClaimQuestion]:
    """Ask whether the fastest scenario at home has twice the TCP rate of roaming (claim Q13)."""
    return [_fastest_question(basis, basis.of_kind("roaming"))]


def on_several_channels(basis: ReportBasis, full_basis: ReportBasis) -> list[ClaimQuestion]:
    """Ask claim Q13 again, for scenarios whose access points use different channels.

    Args:
        basis: values of the paper's scenarios.
        full_basis: values of all scenarios of the run.

    Returns:
        The questions, or an empty list without such a scenario.
    """
    metric = STREAMS["tcp"].name
    apart = [place for place in full_basis.measured_places(metric, full_basis.of_kind("roaming"))
             if len(place.channels) > 1]
    return [_fastest_question(basis, apart)] if apart else []


def _fastest_question(basis: ReportBasis, roaming: Sequence[ReportScenario]) -> ExtremeQuestion:
    """Ask how much faster the fastest scenario at home is than roaming.

    Only policies that were measured in all roaming scenarios count.
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
    means = {place.id: sum(value.estimate.mean for policy in policies
                           if (value := basis.find_observation(metric, policy, place.id))) for place
             in home}
    best = max(means, key=lambda name: means[name], default="?")
    who = "all policies" if len(policies) > 1 else policies[0]
    where = " ".join(place.id for place in away) or "roaming"
    return ExtremeQuestion(f"{who}, {best} / {where}{_describe_channels(away)}", among, "largest")


def _describe_channels(places: Sequence[ReportScenario]) -> str:
    """Describe the radio channels of several scenarios, if they are known."""
    plans = {len(place.channels) > 1 for place in places if place.channels}
    if len(plans) != 1:
        return ""
    return ", access points on channels of their own" if plans.pop() \
        else ", access points on one channel"


def ask_q14(basis: ReportBasis) -> list[Question]:
    """Ask whether the overhead of P6 varies least over the scenarios (claim Q14).

    P6 has EAP-TLS without encryption. In the middle security group, IPsec alone (P3) must vary
    least.
    """
    ours = [policy.id for policy in papers_policies(basis) if policy.id != basis.baseline]
    pairs = [(policy, "P6") for policy in ours if policy != "P6"]
    pairs += [(policy, "P3") for policy in papers_group(basis, "middle") if policy != "P3"]
    return [_variance_question(basis, [other], [steady]) for other, steady in pairs]


def ask_q15(basis: ReportBasis) -> list[Question]:
    """Ask whether overheads of the low group vary less than in other groups (claim Q15).

    P8 is the exception: its overhead must vary more than that of its group.
    """
    low, middle, high = ([policy for policy in papers_group(basis, name) if policy != "P8"] or ["?"]
                         for name in ("low", "middle", "high"))
    return [_variance_question(basis, high, low), _variance_question(basis, middle, low),
            _variance_question(basis, ["P8"], middle)]


def _variance_question(basis: ReportBasis, larger: list[str], smaller: list[str]) -> Question:
    """Ask whether the mean variance of some policies over the scenarios exceeds that of others."""
    count = len(basis.measured_places(TCP, basis.places))
    wide, narrow = (cell_keys(basis, TCP, policies, basis.places) for policies in (larger, smaller))
    if count < 2:  # A variance needs two scenarios.
        wide = [(TCP, "?", "?")]

    names = [" ".join(policies).replace("?", "policies that were not measured")
             for policies in (larger, smaller)]
    return Question(f"variance of {names[0]} less that of {names[1]}",
                    [*wide, *narrow], MORE, VARIANCE, _VarianceDifference(count, len(larger)))


@dataclass(frozen=True)
class _VarianceDifference:
    """A function of measured means: variance of some policies minus that of others.

    Each variance is over the `count` scenarios of a policy.
    """

    count: int
    policies: int

    def __call__(self, means: Sample) -> Any:
        """Return the difference of mean variances. The last axis of `means` has the values."""
        by_policy = sample_variance(means.reshape(*means.shape[:-1], -1, self.count))
        return halves_difference(self.policies)(by_policy)
