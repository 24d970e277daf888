"""Functions of several commands that print tables and write reports."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from harness.errors import UserError

if TYPE_CHECKING:
    from analysis.present.report import Report

#: Width in columns without COLUMNS, and the smallest value of COLUMNS that is used.
_PLAIN_WIDTH, _MIN_WIDTH = 180, 20


def make_console() -> Console:
    """Return the console on which tables are printed.

    A file or a pipe has only the width that COLUMNS gives. Without COLUMNS, a width that shows
    every column is used.
    """
    return Console(width=None if sys.stdout.isatty() else _plain_width(), highlight=False)


def _plain_width() -> int:
    """Return the width that COLUMNS gives, or else one that shows every column."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) >= _MIN_WIDTH else _PLAIN_WIDTH


def write_out(page: Report, out: Path) -> None:
    """Write a report into the folder of `--out`, and print its path. Raises UserError."""
    from analysis.present.writing import save_report

    try:
        paths = save_report(page, out)
    except OSError as error:
        raise UserError(f"{error.filename or out}: cannot be written ({error.strerror}); choose "
                        "another folder with --out") from None
    click.echo(f"Written: {', '.join(map(str, paths))}")
