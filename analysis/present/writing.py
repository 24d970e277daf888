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


def write(report: Report, folder: Path, frame: Frame | None = None) -> list[Path]:
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
    report = replace(report, links=_links(folder))
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    for table in report.tables:
        _put(tables / f"{table.id}.tex", latex.table(table))
        _put(tables / f"{table.id}.csv", export.to_csv(table))
        _parquet(tables / f"{table.id}.parquet", partial(export.write_parquet, table))
    if frame is not None:
        _parquet(tables / "records.parquet", frame.to_parquet)
    document = tables / "tables.tex"
    _put(document, latex.document(list(report.tables), report.title))
    _put(folder / PAGE, page.render(report))
    return [folder / PAGE, document]


def _links(folder: Path) -> Links:
    """Return the paths of records and captures for the page's links."""
    captures = folder / "captures"
    captured = frozenset(path.name for path in captures.iterdir()) if captures.is_dir() \
        else frozenset()
    return Links("records/" if (folder / "records").is_dir() else "./", "captures/", captured)


def _put(path: Path, text: str) -> None:
    with _beside(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _parquet(path: Path, put: Callable[[Path], None]) -> None:
    with _beside(path) as temporary:
        put(temporary)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Provide a temporary name for a file until the file is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
