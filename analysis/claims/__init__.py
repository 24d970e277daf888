"""The paper's conclusions, each with a verdict: confirmed, refuted or undecided."""

from __future__ import annotations

from analysis.claims.judge import judge
from analysis.claims.verdict import Verdict, table

__all__ = ["Verdict", "judge", "table"]
