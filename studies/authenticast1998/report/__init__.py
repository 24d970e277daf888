"""Build the report of authenticast1998: the 1998 paper's figures and table with measured values.

`build_report` takes a results folder (one record per measurement). It returns the report with
figures, tables and verdicts on the paper's claims. The paper is Schneck and Schwan (1998), on
signed video streams whose receivers cannot verify every packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.cells import Cells
from analysis.present.report import Report
from analysis.reporting import standard_report
from studies.authenticast1998.report import claims, figures, tables

if TYPE_CHECKING:
    from analysis.results import Results
    from studies.study import Study

_BY_CONSTRUCTION = ("A7 holds by construction, and so does the limit of 100 packets in A6: the "
                    "server's time for a signature and the client's buffer were chosen "
                    "accordingly.")


def build_report(results: Results, options: Mapping[str, Any], study: Study) -> Report:
    """Build the report of a results folder, with figures, tables and verdicts on claims."""
    cells = Cells(results, options.get("baseline", ""))
    return standard_report.make_standard_report(cells, study.run_table(cells),
                                                standard_report.ReportAdditions(
        tables=[*tables.build_tables(cells)], figures=[*figures.build_figures(cells)],
        claims=claims.judge_claims(cells), warnings=[_BY_CONSTRUCTION]))
