"""From records to numbers with intervals, to tables, and to figures.

    results = analysis.load(folder)
    summary = analysis.summarize(results, baseline="P1")
    console.print(analysis.tables.terminal(summary, console.width))
    analysis.waterfall.save(summary, folder)

Importing this package is quick: numpy, pandas and matplotlib are loaded with the first name that
needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from analysis.errors import NothingToReport

if TYPE_CHECKING:
    from analysis import tables, waterfall
    from analysis.frame import Results, load
    from analysis.summary import Summary, summarize

__all__ = ["NothingToReport", "Results", "Summary", "load", "summarize", "tables",
           "waterfall"]

_HOMES = {"Results": "analysis.frame", "load": "analysis.frame",
          "Summary": "analysis.summary", "summarize": "analysis.summary"}


def __getattr__(name: str) -> object:
    if name in ("tables", "waterfall"):
        return importlib.import_module(f"analysis.{name}")
    if name in _HOMES:
        found: object = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
