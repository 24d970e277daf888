"""The study's report: the paper's tables and figures, published beside measured, and its claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis import standard_report
from analysis.cells import Cells

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from studies.study import Study


def report(study: Study, results: Results | None, options: Mapping[str, Any]) -> Report:
    """Tables I to III, Figures 4 to 6 and 9 to 11, claims. Raises ValueError."""
    if results is None:
        raise ValueError(f"the study {study.id} has no report without results")
    cells = Cells(results, options.get("baseline", ""))
    return standard_report.report(cells, study.run_table(cells))
