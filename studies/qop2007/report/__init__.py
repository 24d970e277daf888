"""Build the report of qop2007: the paper's tables with measured values, figures, claims and advice.

`build_report` takes a results folder, and returns the report. Options select another one: the table
and figure of handoffs alone. `build_paper_report` shows the values that the paper printed. The
paper is Agarwal and Wang (2007), on the cost of security policies in wireless LANs.

Terms of the report (docs/glossary.md has more):

- basis: the values from which tables and claims are built (`ReportBasis`): measured or published
- place: a scenario of the report, at home or roaming
- sigma: the sum of a policy's weights. The *groups* low, middle and high are ranges of it.
- component: a negotiation that counts as authentication time
- overhead: goodput of the baseline policy P1 minus that of a policy
- band: the range in which a claim puts a number
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from analysis.cells import Cells
from analysis.present.report import Report
from analysis.results import Results
from policies import Weights, load_weights

__all__ = ["build_paper_report", "build_report"]


def build_report(results: Results, options: Mapping[str, Any]) -> Report:
    """Build the report that the command-line options select.

    Args:
        results: the results folder.
        options: values of the options of `./qop report`, by name.

    Raises:
        StudyError: an option has an unsuitable value. The message has one line.
        NothingToReport: the folder has no values for the report.
    """
    from studies.qop2007.report import assembly

    weights, applications = _scoring_options(options)
    cells = Cells(results, options.get("baseline") or "")
    if options.get("handoff"):
        return _handoff_report(cells)
    return assembly.build_run_report(cells, weights, applications)


def build_paper_report(options: Mapping[str, Any]) -> Report:
    """Build the report of the values that the paper printed.

    Args:
        options: values of the options of `./qop report`, by name.

    Raises:
        StudyError: an option has an unsuitable value. The message has one line.
    """
    from studies.qop2007.report import assembly

    return assembly.build_paper_report(*_scoring_options(options))


def _scoring_options(options: Mapping[str, Any]) -> tuple[Weights | None, tuple[str, ...]]:
    """Read the weights file that the options name, and the names of applications to advise on."""
    path = options.get("weights")
    return load_weights(path) if path else None, tuple(options.get("application") or ())


def _handoff_report(cells: Cells) -> Report:
    """Build a report with the table of handoffs, and their figure as SVG and PNG files."""
    from studies.qop2007.report import run_table, waterfall  # matplotlib takes its time

    return Report("Handoffs", "", run=run_table.handoff_table(cells), has_page=False,
                  drawings=(partial(waterfall.save_figure, cells),))
