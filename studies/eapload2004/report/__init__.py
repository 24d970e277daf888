"""The report: Table 1 and Fig. 5 with published, measured and modelled; the model; the claims."""

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


def report(results: Results, options: Mapping[str, Any], study: Study) -> Report:
    """The report of a results folder."""
    cells = Cells(results, options.get("baseline", ""))
    paper = published.load()
    try:
        service, predicted = modelled.service_times(cells), modelled.predictions(cells)
    except QueueingError as error:
        service, predicted = {}, []
        remark = [f"No model: {error}"]
    else:
        remark = []
    return standard_report.report(cells, study.run_table(cells), standard_report.Extras(
        tables=[*tables.all_of(cells, paper, service, predicted)],
        figures=[*figures.all_of(cells, paper, service)],
        claims=claims.verdicts(cells, predicted), warnings=remark))
