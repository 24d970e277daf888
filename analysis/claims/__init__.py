"""Claims and their verdicts: confirmed, refuted or undecided."""

from __future__ import annotations

from analysis.claims.finding import MORE, Band, Question, about
from analysis.claims.verdict import Claim, Verdict, judge, table

__all__ = ["MORE", "Band", "Claim", "Question", "Verdict", "about", "judge", "table"]
