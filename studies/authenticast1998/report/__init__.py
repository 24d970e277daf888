"""Report of the study: the paper's figures and table, later comparisons and claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis import standard_report
from analysis.cells import Cells
from analysis.present.report import Report
from studies.authenticast1998.report import claims, figures, tables

if TYPE_CHECKING:
    from analysis.results import Results
    from studies.study import Study

_BY_CONSTRUCTION = ("A7, and that a gap of 100 packets is the limit in A6, hold by construction: "
                    "what a signature takes the server, and the room at the client, were chosen "
                    "so.")


def build_report(results: Results, options: Mapping[str, Any], study: Study) -> Report:
    """Build the report of a results folder."""
    cells = Cells(results, options.get("baseline", ""))
    return standard_report.make_standard_report(cells, study.run_table(cells),
                                                standard_report.Extras(
        tables=[*tables.all_tables(cells)], figures=[*figures.all_figures(cells)],
        claims=claims.judge_claims(cells), warnings=[_BY_CONSTRUCTION]))
