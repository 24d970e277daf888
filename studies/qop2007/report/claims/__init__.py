"""The paper's conclusions with verdicts: confirmed, refuted or undecided."""

from __future__ import annotations

from studies.qop2007.report.claims.judge import judge, table

__all__ = ["judge", "table"]
