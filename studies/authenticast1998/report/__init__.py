"""The report: figures 3 to 9, Table 1, what 1998 did not have, and the claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import standard_report
from analysis.cells import Cells
from analysis.present.report import Report


def report(results: Any, options: Mapping[str, Any], study: Any) -> Report:
    """The report of a results folder."""
    cells = Cells(results, options.get("baseline", ""))
    return standard_report.report(cells, study.run_table(cells))
