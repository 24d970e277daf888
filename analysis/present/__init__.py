"""Presenters: tables and reports on a terminal, as a page, as LaTeX, Markdown, CSV and Parquet.

Each takes analysis.table.Table or analysis.present.report.Report and knows nothing of what they
are about.
"""
