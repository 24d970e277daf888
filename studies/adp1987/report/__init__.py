"""Report of the study: the paper's tables, figures and claims with measured values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis import standard_report
from analysis.cells import Cells
from analysis.clock import VIRTUAL
from analysis.run_table import ReferenceValues
from studies.adp1987 import design, published
from studies.adp1987.report import (
    claims,
    figures,
    on_air,
    paper_tables,
    ranking,
    side_by_side,
)
from studies.adp1987.traces import TRACES

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from studies.study import Study

_CAVEAT = ("Virtual time on modelled processors: operations take what the device's file says, "
           "packets what the wire or the air says, and nothing else takes any.")
_SPLIT = ("The costs of sun3-50 are fitted to the throughputs of Table 3 alone, that of its DES "
          "routine to ALL's in Table 5; the traces' burstiness and urgent shares are chosen by "
          "Tables 2 and 3. Predicted are Tables 4 and 6, ND in Table 5 and the utilisations, but "
          "for what Tables 2 and 3 have, too: ND's latency with its trailer encrypted and queueing "
          "(Tables 4 and 5), and U3 (Table 6).")


def build_report(study: Study, results: Results, options: Mapping[str, Any]) -> Report:
    """Return the report with the paper's tables, figures and claims.

    These are Tables 2 to 6, Figures 3 to 7, and D1 to D8.

    Args:
        study: The study.
        results: Records of a results folder.
        options: The report's options; `baseline` is used here.
    """
    cells = Cells(results, options.get("baseline", ""))
    paper = published.load_values()
    air = on_air.build_table(cells)
    has_papers = any(ids in results.cells for ids in design.design_cells(list(TRACES))
                     if design.REAL_TIME not in ids)
    tables = (*paper_tables.build_tables(cells, paper), *ranking.build_tables(cells, paper),
              *side_by_side.build_tables(cells), *([air] if air else []))
    extras = standard_report.Extras(
        tables=tables, figures=tuple(figures.build_figures(cells, paper)),
        claims=claims.judge_claims(cells) if has_papers else (),
        beside=ReferenceValues(published=paper.all),
        caveat=_CAVEAT * (results.clock == VIRTUAL), claimant="the 1987 paper's", prints=True,
        facts=[("Fit and prediction", _SPLIT),
               ("Inconsistent in print", " ".join(paper.inconsistent))])
    return standard_report.make_standard_report(cells, study.run_table(cells), extras)
