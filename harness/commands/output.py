"""Print tables on the terminal, and write reports to the folder that the user gives by `--out`.

Commands such as `qop report` and `qop compare` use these functions. `make_console` returns a
console as wide as the terminal, or as a file needs. `write_out` writes a report as an HTML page
with its tables, and prints the path.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from guest.cache import cache_root
from harness.errors import UserError

if TYPE_CHECKING:
    from analysis.present.report import Report

#: Width in columns without COLUMNS, and the smallest value of COLUMNS that is used.
_PLAIN_WIDTH, _MIN_WIDTH = 180, 20
#: Size of a screen that the end of a run fills at most.
SCREEN_WIDTH, SCREEN_LINES = 100, 40


def make_console(max_width: int | None = None) -> Console:
    """Return the console on which tables are printed, not wider than `max_width`.

    A file or a pipe has only the width that COLUMNS gives. Without COLUMNS, a width that shows
    every column is used.
    """
    console = Console(width=None if sys.stdout.isatty() else _plain_width(), highlight=False)
    if max_width is not None and console.width > max_width:
        console.width = max_width
    return console


def _plain_width() -> int:
    """Return the width for tables in a file or pipe: COLUMNS, or enough for every column."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) >= _MIN_WIDTH else _PLAIN_WIDTH


def write_out(page: Report, out: Path) -> None:
    """Write a report into the folder of `--out`, and print its path. Raises UserError."""
    from analysis.present.page import save_report

    try:
        paths = save_report(page, out, cache_folder=cache_root() / "plotly")
    except OSError as error:
        raise UserError(f"{error.filename or out}: cannot be written ({error.strerror}); choose "
                        "another folder with --out") from None
    click.echo(f"Written: {', '.join(map(str, paths))}")
