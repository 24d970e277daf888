"""From records to numbers with intervals, to tables, to verdicts, and to a report.

    results = analysis.load(folder)
    summary = analysis.summarize(results, baseline="P1")
    console.print(analysis.tables.terminal(summary, console.width))
    analysis.waterfall.save(summary, folder)

    study = analysis.study.measured(results)         # the 2007 paper's tables: study.tables(study)
    verdicts = analysis.claims.judge(study)
    analysis.report.write(analysis.report.of_run(folder, results), folder)

Importing this package is quick: numpy, pandas and matplotlib are loaded with the first name that
needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from analysis.errors import NothingToReport

if TYPE_CHECKING:
    from analysis import (
        advice,
        bounds,
        claims,
        clocks,
        compare,
        decisions,
        protection,
        report,
        study,
        tables,
        waterfall,
    )
    from analysis.diagnostics import warnings_of
    from analysis.frame import Results, load
    from analysis.summary import Summary, summarize

__all__ = ["NothingToReport", "Results", "Summary", "advice", "bounds", "claims", "clocks",
           "compare", "decisions", "load", "protection", "report", "study", "summarize", "tables",
           "warnings_of", "waterfall"]

_MODULES = ("advice", "bounds", "claims", "clocks", "compare", "decisions", "protection", "report",
            "study", "tables", "waterfall")
_HOMES = {"Results": "analysis.frame", "load": "analysis.frame",
          "Summary": "analysis.summary", "summarize": "analysis.summary",
          "warnings_of": "analysis.diagnostics"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"analysis.{name}")
    if name in _HOMES:
        found: object = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
