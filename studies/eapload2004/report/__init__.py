"""Build the report of eapload2004: authentication times at a loaded RADIUS server.

`build_report` takes a results folder (one record per measurement). It returns the report with Table
1 and Figure 5 of the 2004 paper, further tables and figures, and verdicts on claims. They compare
published, measured and modelled values. The paper is Kambourakis, Rouskas and Gritzalis (2004).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.cells import Cells
from analysis.present.report import Report
from analysis.queueing import QueueingError
from analysis.reporting import standard_report
from studies.eapload2004 import model, published
from studies.eapload2004.report import claims, figures, tables

if TYPE_CHECKING:
    from analysis.results import Results
    from studies.study import Study


def build_report(results: Results, options: Mapping[str, Any], study: Study) -> Report:
    """Build the report of a results folder.

    Args:
        results: records of the results folder.
        options: options of `./qop report`, of which `baseline` is used here.
        study: the study.
    """
    cells = Cells(results, options.get("baseline", ""))
    paper = published.load_values()
    try:
        service, predicted = model.modelled_service_times(cells), model.predict_background(
            cells)
    except QueueingError as error:
        service, predicted = {}, []
        remark = [f"No model: {error}"]
    else:
        remark = []
    return standard_report.make_standard_report(cells, study.run_table(cells),
                                                standard_report.ReportAdditions(
        tables=[*tables.build_tables(cells, paper, service, predicted)],
        figures=[*figures.build_figures(cells, paper, service)],
        claims=claims.judge_claims(cells, predicted), warnings=remark))
