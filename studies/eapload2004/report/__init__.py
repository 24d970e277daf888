"""Report of the study: Table 1 and Figure 5, the queueing model, and the claims.

Published, measured and modelled values are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis import standard_report
from analysis.cells import Cells
from analysis.present.report import Report
from analysis.queueing import QueueingError
from studies.eapload2004 import modelled, published
from studies.eapload2004.report import claims, figures, tables

if TYPE_CHECKING:
    from analysis.results import Results
    from studies.study import Study


def build_report(results: Results, options: Mapping[str, Any], study: Study) -> Report:
    """Return the report of a results folder.

    Args:
        results: Records of the results folder.
        options: The report's options; `baseline` is used here.
        study: The study.
    """
    cells = Cells(results, options.get("baseline", ""))
    paper = published.load_values()
    try:
        service, predicted = modelled.service_times(cells), modelled.predict_background(cells)
    except QueueingError as error:
        service, predicted = {}, []
        remark = [f"No model: {error}"]
    else:
        remark = []
    return standard_report.make_standard_report(cells, study.run_table(cells),
                                                standard_report.Extras(
        tables=[*tables.build_tables(cells, paper, service, predicted)],
        figures=[*figures.build_figures(cells, paper, service)],
        claims=claims.judge_claims(cells, predicted), warnings=remark))
