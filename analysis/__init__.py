"""Compute tables, figures and verdicts on a paper's claims from the records of a run.

A record is the JSON file of one repetition (one measurement). The steps are the same for every
study:

    manifest = studies.records.read_manifest(folder)
    study = studies.load_study(manifest.study.id)
    results = analysis.load(folder, study, manifest, studies.records.read_record)
    cells = analysis.Cells(results)                  # every number estimated once
    table = study.run_table(cells)                   # analysis.table.Table
    console.print(analysis.present.terminal.to_console(table))
    report = study.report(results, {})
    analysis.present.page.save_report(report, folder)

Importing this package is fast. numpy, pandas and matplotlib are loaded with the first name that
needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from analysis.measurements import NoResultsError

if TYPE_CHECKING:
    from analysis.cells import Cells
    from analysis.results import Results, from_records, load

__all__ = ["Cells", "NoResultsError", "Results", "from_records", "load"]

_HOMES = {"Results": "analysis.results", "load": "analysis.results",
          "from_records": "analysis.results", "Cells": "analysis.cells"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        home: object = getattr(importlib.import_module(_HOMES[name]), name)
        return home
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
