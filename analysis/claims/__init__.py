"""Claims and their verdicts: confirmed, refuted or undecided."""

from __future__ import annotations

from analysis.claims.finding import MORE, Band, Question, band_around
from analysis.claims.verdict import Claim, Verdict, judge_claim, make_claims_table

__all__ = ["MORE", "Band", "Claim", "Question", "Verdict", "band_around", "judge_claim",
           "make_claims_table"]
