"""`qop report`: the tables of a results folder, and the figure of its handoffs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from harness import results
from harness.commands.run import RESULTS
from harness.errors import UserError

if TYPE_CHECKING:
    from analysis import Summary

FORMATS = ("terminal", "markdown", "csv")
_PLAIN_WIDTH = 180


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal",
              show_default=True)
@click.option("--baseline", default="P1", show_default=True,
              help="The policy that cryptographic overhead is the difference to.")
@click.option("--handoff", is_flag=True,
              help="Instead: draw the phases of the handoffs as handoff.svg and handoff.png into "
                   "FOLDER, and print their table.")
def command(folder: Path | None, form: str, baseline: str, handoff: bool) -> None:
    """Print the table of FOLDER, or of the newest in results/."""
    (show_handoff if handoff else show)(folder or results.latest(RESULTS), form, baseline)


def show(folder: Path, form: str = "terminal", baseline: str = "P1") -> None:
    """Print a results folder's table to standard output; raises UserError when it is empty."""
    from analysis import tables  # pandas takes its time; other commands need not wait for it

    summary = _summary(folder, baseline)
    _print(summary, form, {"terminal": tables.terminal, "markdown": tables.markdown,
                           "csv": tables.csv})


def show_handoff(folder: Path, form: str = "terminal", baseline: str = "P1") -> None:
    """Print the table of a results folder's handoffs and draw them into it.

    Raises UserError when there is none, or when the figure cannot be written.
    """
    from analysis import NothingToReport, tables, waterfall  # as above; matplotlib still more

    summary = _summary(folder, baseline)
    try:
        paths = waterfall.save(summary, folder)
    except NothingToReport as error:
        raise UserError(f"{folder}: {error}") from None
    except OSError as error:
        raise UserError(f"{error.filename or folder}: the figure cannot be written "
                        f"({error.strerror}); make the folder writable, or copy it") from None
    _print(summary, form, {"terminal": tables.handoff, "markdown": tables.handoff_markdown,
                           "csv": tables.handoff_csv})
    # What was written is no part of a table that another program reads.
    click.echo(f"Figure: {', '.join(map(str, paths))}", err=form != "terminal")


def _summary(folder: Path, baseline: str) -> Summary:
    import analysis

    try:
        return analysis.summarize(analysis.load(folder), baseline=baseline)
    except analysis.NothingToReport as error:
        raise UserError(str(error)) from None


def _print(summary: Summary, form: str, views: Mapping[str, Callable[..., Any]]) -> None:
    if form == "terminal":
        # A file or a pipe has no width of its own; one that shows every column then serves best.
        console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
        console.print(views[form](summary, console.width))
    else:
        click.echo(views[form](summary), nl=form == "markdown")
