"""What commands share to show tables: the terminal, and a report in a folder of the user's."""

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

#: Without COLUMNS, and the least of it that is heeded.
_PLAIN_WIDTH, _MIN_WIDTH = 180, 20


def console() -> Console:
    """Where tables are printed.

    A file or a pipe has no width of its own but what COLUMNS says; one that shows every column
    then serves best.
    """
    return Console(width=None if sys.stdout.isatty() else _plain_width(), highlight=False)


def _plain_width() -> int:
    """Return the width of COLUMNS, or that of every column where it says no width."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) >= _MIN_WIDTH else _PLAIN_WIDTH


def write_out(page: Report, out: Path) -> None:
    """Write a report into the folder that `--out` names, and say so. Raises UserError."""
    from analysis.present.writing import write

    try:
        paths = write(page, out)
    except OSError as error:
        raise UserError(f"{error.filename or out}: cannot be written ({error.strerror}); choose "
                        "another folder with --out") from None
    click.echo(f"Written: {', '.join(map(str, paths))}")
