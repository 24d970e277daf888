"""Presenters of tables and reports for each output format.

The formats are terminal, HTML page, LaTeX, Markdown, CSV and Parquet. Each presenter takes
analysis.table.Table or analysis.present.report.Report and knows nothing of their subject.
"""
