"""Output of a report to a folder as a page and separate tables.

Tables are in LaTeX, CSV and Parquet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from analysis.present import export, latex, page
from analysis.present.report import Links, Report
from analysis.records import Frame

PAGE = "report.html"


def save_report(report: Report, folder: Path, frame: Frame | None = None) -> list[Path]:
    """Write `report.html` and `tables/`.

    The page links the records and captures in the folder. Each file is written to a temporary file
    and then renamed, so that no file is incomplete.

    Args:
        report: The report.
        folder: The folder to write to.
        frame: The repetitions, written to `tables/records.parquet`.

    Returns:
        The page, and the document that includes all tables.

    Raises:
        OSError: A file cannot be written.
    """
    report = replace(report, links=_find_links(folder))
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    for table in report.tables:
        _write_text(tables / f"{table.id}.tex", latex.to_latex(table))
        _write_text(tables / f"{table.id}.csv", export.to_csv(table))
        _write_parquet(tables / f"{table.id}.parquet", partial(export.write_parquet, table))
    if frame is not None:
        _write_parquet(tables / "records.parquet", frame.to_parquet)
    document = tables / "tables.tex"
    _write_text(document, latex.to_latex_document(list(report.tables), report.title))
    _write_text(folder / PAGE, page.render_page(report))
    return [folder / PAGE, document]


def _find_links(folder: Path) -> Links:
    """Return the paths of records and captures for the page's links."""
    captures = folder / "captures"
    captured = frozenset(path.name for path in captures.iterdir()) if captures.is_dir() \
        else frozenset()
    return Links("records/" if (folder / "records").is_dir() else "./", "captures/", captured)


def _write_text(path: Path, text: str) -> None:
    with _temporary_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _write_parquet(path: Path, put: Callable[[Path], None]) -> None:
    with _temporary_path(path) as temporary:
        put(temporary)


@contextmanager
def _temporary_path(path: Path) -> Iterator[Path]:
    """Provide a temporary name for a file until the file is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
