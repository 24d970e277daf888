"""Convert tables and reports to each output format, from terminal text to HTML and LaTeX.

Markdown, CSV and Parquet are formats as well. Each module takes analysis.table.Table or
analysis.present.report.Report and knows nothing of their subject.
"""
