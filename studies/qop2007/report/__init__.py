"""Report of the study: tables and figures, claims and advice.

`report` builds it from a results folder. Options replace it by the handoffs' table and figure, or
by the report of the paper's printed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from analysis.cells import Cells
from analysis.present.report import Report
from analysis.results import Results
from policies import Weights, load_weights

__all__ = ["of_paper", "report"]


def report(results: Results, options: Mapping[str, Any]) -> Report:
    """Build the report that the options select.

    Raises StudyError or NothingToReport, each with a message of one line.
    """
    from studies.qop2007.report import assembling

    weights, applications = _scoring_options(options)
    cells = Cells(results, options.get("baseline") or "")
    if options.get("handoff"):
        return _handoff_report(cells)
    return assembling.of_run(cells, weights, applications)


def of_paper(options: Mapping[str, Any]) -> Report:
    """Build the report of the published values alone.

    Raises StudyError with a message of one line.
    """
    from studies.qop2007.report import assembling

    return assembling.of_paper(*_scoring_options(options))


def _scoring_options(options: Mapping[str, Any]) -> tuple[Weights | None, tuple[str, ...]]:
    """Return the weights and the applications that the options name."""
    path = options.get("weights")
    return load_weights(path) if path else None, tuple(options.get("application") or ())


def _handoff_report(cells: Cells) -> Report:
    """Build the report of the handoffs: their table, and their figure as files."""
    from studies.qop2007.report import handoff, waterfall  # matplotlib takes its time

    return Report("Handoffs", "", run=handoff.handoff_table(cells), has_page=False,
                  drawings=(partial(waterfall.save_figure, cells),))
