"""Judges every claim of the 2007 paper by a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analysis import published
from analysis.claims import timing, traffic
from analysis.claims.finding import Finding, Question, find
from analysis.claims.reasons import reason
from analysis.claims.verdict import Verdict, settle
from analysis.study.model import Study

Asker = Callable[[Study], Sequence[Question]]
QUESTIONS: Mapping[str, Asker] = {
    "Q1": timing.q1, "Q2": timing.q2, "Q3": timing.q3, "Q4": timing.q4, "Q5": timing.q5,
    "Q6": timing.q6, "Q8": traffic.q8, "Q9": traffic.q9, "Q10": traffic.q10, "Q11": traffic.q11,
    "Q12": traffic.q12, "Q13": traffic.q13, "Q14": traffic.q14, "Q15": traffic.q15,
    "Q16": timing.q16}
#: Claims on counts, which are what they are.
FINDINGS: Mapping[str, Callable[[Study], Sequence[Finding]]] = {"Q7": timing.q7}


def judge(study: Study) -> list[Verdict]:
    """A verdict on each claim, in order of their numbers. It never raises for lack of data."""
    verdicts = []
    for claim in published.claims():
        if claim.id in FINDINGS:
            findings = list(FINDINGS[claim.id](study))
            missing: list[str] = []
        else:
            findings, missing = find(study, QUESTIONS[claim.id](study))
        verdicts.append(settle(claim, findings, missing, reason(claim.id, study.clock)))
    return verdicts
