"""Build the report of krb5today: costs of Kerberos logins, timers, and load of a KDC.

`build_report` takes a results folder (one record per measurement of MIT krb5). It returns the
report with tables and figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.cells import Cells
from analysis.reporting import standard_report
from studies.krb5today.report import figures, tables

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from studies.study import Study


def build_report(study: Study, results: Results, options: Mapping[str, Any]) -> Report:
    """Build the report of a results folder."""
    cells = Cells(results, options.get("baseline", ""))
    return standard_report.make_standard_report(cells, study.run_table(cells),
                                                standard_report.ReportAdditions(
        tables=tuple(tables.build_tables(cells)), figures=tuple(figures.build_figures(cells))))
