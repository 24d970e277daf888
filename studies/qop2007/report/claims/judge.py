"""The paper's claims are judged, each by the questions that it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analysis.claims import verdict
from analysis.claims.finding import Finding, Question, find
from analysis.claims.verdict import Verdict, settle
from analysis.table import Table
from studies.qop2007 import published
from studies.qop2007.report.basis import Basis
from studies.qop2007.report.claims import timing, traffic
from studies.qop2007.report.claims.reasons import reason

_READ = ("'About' is read as within 20 percent; 'next to no overhead' as within one percent of the "
         "rate without security; ranges in percent as a point wider on both sides.")
Asker = Callable[[Basis], Sequence[Question]]
QUESTIONS: Mapping[str, Asker] = {
    "Q1": timing.q1, "Q2": timing.q2, "Q3": timing.q3, "Q4": timing.q4, "Q5": timing.q5,
    "Q6": timing.q6, "Q8": traffic.q8, "Q9": traffic.q9, "Q10": traffic.q10, "Q11": traffic.q11,
    "Q12": traffic.q12, "Q13": traffic.q13, "Q14": traffic.q14, "Q15": traffic.q15,
    "Q16": timing.q16}
#: Claims on counts, which are what they are.
FINDINGS: Mapping[str, Callable[[Basis], Sequence[Finding]]] = {"Q7": timing.q7}


def judge(basis: Basis) -> list[Verdict]:
    """A verdict on each claim, in order of their numbers. It never raises for lack of data."""
    verdicts = []
    for claim in published.claims():
        if claim.id in FINDINGS:
            findings = list(FINDINGS[claim.id](basis))
            missing: list[str] = []
        else:
            findings, missing = find(basis.observations, QUESTIONS[claim.id](basis))
        verdicts.append(settle(claim, findings, missing, reason(claim.id, basis.clock)))
    return verdicts


def table(verdicts: Sequence[Verdict]) -> Table:
    """The verdicts as a table, one row a claim."""
    return verdict.table(verdicts, "The paper's conclusions", "The paper says", (_READ,))
