"""Report of the study: the paper's tables and figures with measured values, and its claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis import standard_report
from analysis.cells import Cells
from analysis.run_table import ReferenceValues
from studies.kerberos2002 import published
from studies.kerberos2002 import surface as computed
from studies.kerberos2002.report import claims, figures, paper_tables, questions, surface

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from studies.study import Study

_CAVEAT = ("Virtual time on modelled processors: operations take what the device's file says, "
           "packets what the wire says, and nothing else takes any.")
_SPLIT = ("The devices are derived from rows 1 to 4 of Table III, read as the paper's skeleton did "
          "its operations; rows 5 and 6, loads, other wires and speeds are predictions.")


def build_report(study: Study, results: Results, options: Mapping[str, Any]) -> Report:
    """Build the report: Tables I to III, the figures and the claims."""
    cells = Cells(results, options.get("baseline", ""))
    paper = published.load()
    points = tuple(computed.compute_points())
    turned = surface.measured_table(cells)
    tables = (*paper_tables.all_tables(cells, paper), *questions.question_tables(cells),
              surface.computed_table(points),
              *([turned] if turned.rows else []))
    drawn = surface.figure_b1(cells)
    extras = standard_report.Extras(
        tables=tables, figures=(*figures.all_figures(cells, paper), *([drawn] if drawn else []),
                                surface.surface_figure(points)),
        claims=claims.judge_claims(cells), beside=ReferenceValues(published=paper.table_3),
        caveat=_CAVEAT, claimant="the 2002 paper's", prints=True, curves=False,
        facts=[("Fit and prediction", _SPLIT),
               ("Inconsistent in print", " ".join(paper.inconsistent))])
    return standard_report.make_standard_report(cells, study.run_table(cells), extras)
