"""Claims on authentication time: Q1 to Q7 and Q16 of the 2007 paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from analysis.blocks import mean_of
from analysis.claims import finding
from analysis.claims.extremes import Extreme
from analysis.claims.finding import TIMES, Asks, Band, Finding, Question, band_around
from analysis.statistics import Estimate
from studies.qop2007.metrics import AUTHENTICATION
from studies.qop2007.report.basis import KINDS, Basis, Kind
from studies.qop2007.report.claims.questions import (
    MILLISECONDS,
    PACKETS,
    TIME,
    cell_keys,
    difference_question,
    halves_difference,
    kind_words,
    papers_group,
    papers_policies,
    policies_having,
    ratio_question,
)

#: Control packets of a negotiation: title, phase, EAP method of the policy, and number.
_PACKETS = (("EAP-TLS", "dot1x", "TLS", 17.0), ("EAP-MD5", "dot1x", "MD5", 8.0),
            ("IPsec", "ike", None, 9.0))


def q1(basis: Basis) -> list[Question]:
    """Ask whether every policy with EAP-TLS is slower than every policy without."""
    with_tls = list(policies_having(basis, eap="TLS"))
    others = [policy.id for policy in papers_policies(basis) if policy.id not in with_tls]
    return [difference_question(basis, TIME, [policy], [other], kind, MILLISECONDS)
            for kind in KINDS for policy in with_tls for other in others]


def q2(basis: Basis) -> list[Question]:
    """Ask whether P3 is slower than P5."""
    return [difference_question(basis, TIME, ["P3"], ["P5"], kind, MILLISECONDS) for kind in KINDS]


def q3(basis: Basis, time: str = TIME) -> list[Question]:
    """Ask whether every policy is slower roaming than at home."""
    return list(_roaming_less_home(basis, time))


def _roaming_less_home(basis: Basis, time: str) -> Iterator[Question]:
    for policy in papers_policies(basis):
        away = cell_keys(basis, time, [policy.id], basis.of_kind("roaming"))
        home = cell_keys(basis, time, [policy.id], basis.of_kind("home"))
        yield Question(f"{policy.id}, roaming less non-roaming", [*away, *home],
                       finding.positive_band(AUTHENTICATION.negligible), MILLISECONDS,
                       halves_difference(len(away)))


def q4(basis: Basis) -> list[Question]:
    """Ask whether P6 is slower than P3, and P8 than P4.

    The slower policies have the smaller sigma.
    """
    return [difference_question(basis, TIME, [slow], [fast], kind, MILLISECONDS)
            for slow, fast in (("P6", "P3"), ("P8", "P4")) for kind in KINDS]


def q5(basis: Basis, time: str = TIME) -> list[Question]:
    """Ask whether P12 takes about 7 times (roaming: 3 times) as long as P5."""
    return [ratio_question(basis, time, ["P12"], ["P5"], "home", band_around(7), TIMES),
            ratio_question(basis, time, ["P12"], ["P5"], "roaming", band_around(3), TIMES)]


def q6(basis: Basis, time: str = TIME) -> list[Question]:
    """Ask whether the high group takes 1 to 2 times as long as the middle group."""
    high, middle = (papers_group(basis, name) or [f"the {name} group"] for name
                    in ("high", "middle"))
    return [ratio_question(basis, time, high, middle, kind, Band(1.0, 2.0), TIMES) for kind
            in KINDS]


def q7(basis: Basis) -> list[Finding]:
    """Count the packets of the negotiations.

    The fewest and most packets of any repetition take the place of an interval.
    """
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


def q16(basis: Basis) -> list[Asks]:
    """Ask whether the shortest and longest times are 0.11 s and 6.28 s."""
    means = {(scored.id, kind): mean.estimate.mean for scored in papers_policies(basis) for kind
             in KINDS
             if (mean := basis.mean_observation(TIME, scored.id, basis.of_kind(kind))) is not None}
    if not means:
        return [Question("authentication times", [(TIME, "?", "?")], band_around(0.11),
                         MILLISECONDS,
                         mean_of)]
    return [_extreme_time(basis, means, "smallest", 0.11),
            _extreme_time(basis, means, "largest", 6.28)]


def _extreme_time(basis: Basis, means: Mapping[tuple[str, Kind], float],
                  pick: Literal["smallest", "largest"], claimed: float) -> Extreme:
    policy, kind = (min if pick == "smallest" else max)(means, key=lambda key: means[key])
    word = "shortest" if pick == "smallest" else "longest"
    return Extreme(f"{word}: {policy}, {kind_words(kind)}",
                   [Question(f"{name}, {kind_words(where)}",
                             cell_keys(basis, TIME, [name], basis.of_kind(where)),
                             band_around(claimed),
                             MILLISECONDS, mean_of) for name, where in means], pick)
