"""Build the report of kerberos2002: the 2002 paper's tables and figures with measured values.

`build_report` takes a results folder (one record per measurement). It returns the report with
tables, figures and verdicts on the paper's claims. The paper is Harbitter and Menascé (2002) on
Kerberos with public keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.cells import Cells
from analysis.reporting import standard_report
from analysis.reporting.run_table import ReferenceValues
from studies.kerberos2002 import model as computed
from studies.kerberos2002 import published
from studies.kerberos2002.report import claims, figures
from studies.kerberos2002.report import tables as report_tables

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from studies.study import Study

_CAVEAT = ("Virtual time on modelled processors: operations take the time in the device's file, "
           "packets take the time of the wire, and nothing else takes time.")
_SPLIT = ("The devices are derived from rows 1 to 4 of Table III, read as the paper's skeleton did "
          "its operations; rows 5 and 6, loads, other wires and speeds are predictions.")


def build_report(study: Study, results: Results, options: Mapping[str, Any]) -> Report:
    """Build the report of a results folder: Tables I to III, figures and verdicts on claims."""
    cells = Cells(results, options.get("baseline", ""))
    paper = published.load_values()
    points = tuple(computed.compute_surface_points())
    turned = figures.build_measured_table(cells)
    tables = (*report_tables.build_paper_tables(cells, paper),
              *report_tables.build_question_tables(cells),
              figures.build_computed_table(points),
              *([turned] if turned.rows else []))
    drawn = figures.build_figure_b1(cells)
    extras = standard_report.ReportAdditions(
        tables=tables, figures=(*figures.build_figures(cells, paper), *([drawn] if drawn else []),
                                figures.build_surface_figure(points)),
        claims=claims.judge_claims(cells), beside=ReferenceValues(published=paper.table_3),
        caveat=_CAVEAT, claimant="the 2002 paper's", prints=True, curves=False,
        facts=[("Fit and prediction", _SPLIT),
               ("Inconsistent in print", " ".join(paper.inconsistent))])
    return standard_report.make_standard_report(cells, study.run_table(cells), extras)
