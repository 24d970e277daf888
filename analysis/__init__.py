"""From records to numbers with intervals, and to tables.

    results = analysis.load(folder)
    summary = analysis.summarize(results, baseline="P1")
    console.print(analysis.tables.terminal(summary, console.width))

Importing this package is quick: numpy and pandas are loaded with the first name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from analysis.errors import NothingToReport

if TYPE_CHECKING:
    from analysis import tables
    from analysis.frame import Results, load
    from analysis.summary import Summary, summarize

__all__ = ["NothingToReport", "Results", "Summary", "load", "summarize", "tables"]

_HOMES = {"Results": "analysis.frame", "load": "analysis.frame",
          "Summary": "analysis.summary", "summarize": "analysis.summary"}


def __getattr__(name: str) -> object:
    if name == "tables":
        return importlib.import_module("analysis.tables")
    if name in _HOMES:
        found: object = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
