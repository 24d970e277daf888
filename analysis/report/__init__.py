"""Reports: a study as one HTML page, LaTeX tables, CSV, Parquet, and tables on a terminal.

`of_run` and `of_paper` make a Report, `write` puts it into a folder. Presenters
know `analysis.table.Table` and `analysis.report.model`, and nothing of what a table is about.
"""

from __future__ import annotations

from analysis.report.assembling import of_paper, of_run
from analysis.report.model import Report
from analysis.report.writing import write

__all__ = ["Report", "of_paper", "of_run", "write"]
