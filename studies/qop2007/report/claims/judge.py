"""Judge of the paper's claims, each by questions to the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.claims import verdict
from analysis.claims.finding import Asks, Finding, answer_questions
from analysis.claims.verdict import Claim, Verdict, settle_claim
from analysis.table import Table
from studies.qop2007 import published
from studies.qop2007.report.basis import IN_BOTH_NETWORKS, Basis
from studies.qop2007.report.claims import timing, traffic
from studies.qop2007.report.claims.questions import papers_policies
from studies.qop2007.report.claims.reasons import refutation_reason
from studies.qop2007.report.claims.slow import describe_devices

_READ = ("'About' is read as within 20 percent; 'next to no overhead' as within one percent of the "
         "rate without security; ranges in percent as a point wider on both sides.")
Asker = Callable[[Basis], Sequence[Asks]]
QUESTIONS: Mapping[str, Asker] = {
    "Q1": timing.q1, "Q2": timing.q2, "Q3": timing.q3, "Q4": timing.q4, "Q5": timing.q5,
    "Q6": timing.q6, "Q8": traffic.q8, "Q9": traffic.q9, "Q10": traffic.q10, "Q11": traffic.q11,
    "Q12": traffic.q12, "Q13": traffic.q13, "Q14": traffic.q14, "Q15": traffic.q15,
    "Q16": timing.q16}
#: Claims on counts, which have no confidence interval.
FINDINGS: Mapping[str, Callable[[Basis], Sequence[Finding]]] = {"Q7": timing.q7}
#: Claims on all policies of the paper. Policies that a run lacks could refute them.
OF_ALL_POLICIES = frozenset({"Q1", "Q3", "Q6", "Q7", "Q11", "Q12", "Q14", "Q15"})

#: Section 5.1 says that roaming takes longer "due to the re-authentication in a foreign network for
#: all policies". Table 4 does not add that up where there is 802.1X.
_NEGOTIATED = "With all that the visited network negotiates"
#: Other readings of a claim: their title, and their questions to the paper's scenarios and to all.
READINGS: Mapping[str, tuple[str, Callable[[Basis, Basis], Sequence[Asks]]]] = {
    "Q3": (_NEGOTIATED, lambda basis, _: timing.q3(basis, IN_BOTH_NETWORKS)),
    "Q5": (_NEGOTIATED, lambda basis, _: timing.q5(basis, IN_BOTH_NETWORKS)),
    "Q6": (_NEGOTIATED, lambda basis, _: timing.q6(basis, IN_BOTH_NETWORKS)),
    "Q13": ("With the subnets on channels of their own", traffic.on_several_channels)}


def judge(full_basis: Basis) -> list[Verdict]:
    """Return a verdict on each claim, in order of their numbers.

    Claims are about the paper's own scenarios. Some have a second reading that uses others. Missing
    data raises no exception.
    """
    basis = of_the_papers_scenarios(full_basis)
    verdicts, devices = [], describe_devices(basis)
    for claim in published.claims():
        if claim.id in FINDINGS:
            findings = list(FINDINGS[claim.id](basis))
            missing: list[str] = []
        else:
            findings, missing = answer_questions(basis.observations, QUESTIONS[claim.id](basis))
        if claim.id in OF_ALL_POLICIES:
            missing = [*missing, *_lacking_policies(basis)]
        verdict = settle_claim(claim, findings, missing,
                               refutation_reason(claim.id, basis.clock, devices))
        verdicts.append(replace(verdict,
                                otherwise=tuple(_other_readings(claim, basis, full_basis))))
    return verdicts


def _lacking_policies(basis: Basis) -> list[str]:
    """Return the paper's policies that were not measured, in one text if any."""
    there = {policy.id for policy in papers_policies(basis)}
    lacking = [policy.id for policy in published.policies() if policy.id not in there]
    return [", ".join(lacking)] if lacking else []


def of_the_papers_scenarios(basis: Basis) -> Basis:
    """Return the basis with the paper's scenarios only."""
    paper = published.load().scenarios
    return replace(basis, places=tuple(place for place in basis.places if place.id in paper))


def _other_readings(claim: Claim, basis: Basis, full_basis: Basis) -> Iterator[str]:
    """Yield the verdicts under other readings in words, if they were measured."""
    if claim.id not in READINGS or basis.origin != "measured":
        return
    title, ask = READINGS[claim.id]
    findings, missing = answer_questions(basis.observations, ask(basis, full_basis))
    if claim.id in OF_ALL_POLICIES:
        missing = [*missing, *_lacking_policies(basis)]
    if findings:
        verdict = settle_claim(claim, findings, missing, "")
        yield f"{title}: {verdict.verdict}; {verdict.figure}"


def table(verdicts: Sequence[Verdict]) -> Table:
    """Build the table of verdicts, with one row for each claim."""
    return verdict.make_claims_table(verdicts, "The paper's conclusions", "The paper says",
                                     (_READ,))
