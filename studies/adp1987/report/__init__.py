"""Build the report of the study adp1987: the 1987 paper's tables and figures with measured values.

`build_report` takes a results folder (one record per measurement) and returns the report with
tables, figures and verdicts on the paper's claims. The paper is the report of Anderson, Ferrari,
Rangan and Sartirana (1987) on ADP, the Authenticated Datagram Protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.cells import Cells
from analysis.circumstances import VIRTUAL
from analysis.reporting import standard_report
from analysis.reporting.run_table import ReferenceValues
from studies.adp1987 import cells as adp1987_cells
from studies.adp1987 import published
from studies.adp1987.report import claims, figures, ranking
from studies.adp1987.report import tables as report_tables
from studies.adp1987.traces import TRACES

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from studies.study import Study

_CAVEAT = ("Virtual time on modelled processors: operations take the time in the device's file, "
           "packets take the time of the wire or the air, and nothing else takes time.")
_SPLIT = ("The costs of sun3-50 are fitted to the throughputs of Table 3 alone, that of its DES "
          "routine to ALL's in Table 5; the traces' burstiness and urgent shares are chosen by "
          "Tables 2 and 3. Predicted are Tables 4 and 6, ND in Table 5 and the utilisations, but "
          "for what Tables 2 and 3 have, too: ND's latency with its trailer encrypted and queueing "
          "(Tables 4 and 5), and U3 (Table 6).")


def build_report(study: Study, results: Results, options: Mapping[str, Any]) -> Report:
    """Build the report: Tables 2 to 6, Figures 3 to 7 and claims D1 to D8 of the paper.

    Args:
        study: the study.
        results: records of a results folder.
        options: options of `./qop report`, of which `baseline` is used here.
    """
    cells = Cells(results, options.get("baseline", ""))
    paper = published.load_values()
    air = report_tables.build_air_table(cells)
    has_papers = any(ids in results.cells for ids in adp1987_cells.design_cells(list(TRACES))
                     if adp1987_cells.REAL_TIME not in ids)
    tables = (*report_tables.build_paper_tables(cells, paper), *ranking.build_tables(cells, paper),
              *report_tables.build_comparison_tables(cells), *([air] if air else []))
    extras = standard_report.ReportAdditions(
        tables=tables, figures=tuple(figures.build_figures(cells, paper)),
        claims=claims.judge_claims(cells) if has_papers else (),
        beside=ReferenceValues(published=paper.all),
        caveat=_CAVEAT * (results.clock == VIRTUAL), claimant="the 1987 paper's", prints=True,
        facts=[("Fit and prediction", _SPLIT),
               ("Inconsistent in print", " ".join(paper.inconsistent))])
    return standard_report.make_standard_report(cells, study.run_table(cells), extras)
