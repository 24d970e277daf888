"""Report of the study on login costs, timers and the load of a KDC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis import standard_report
from analysis.cells import Cells
from studies.krb5today.report import figures, tables

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from studies.study import Study


def build_report(study: Study, results: Results, options: Mapping[str, Any]) -> Report:
    """Return the report of a results folder."""
    cells = Cells(results, options.get("baseline", ""))
    return standard_report.make_standard_report(cells, study.run_table(cells),
                                                standard_report.Extras(
        tables=tuple(tables.build_tables(cells)), figures=tuple(figures.build_figures(cells))))
