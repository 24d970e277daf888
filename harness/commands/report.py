"""`qop report`: the table of a results folder, from its records alone."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from harness import results
from harness.commands.run import RESULTS
from harness.errors import UserError

FORMATS = ("terminal", "markdown", "csv")
_PLAIN_WIDTH = 180


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal",
              show_default=True)
@click.option("--baseline", default="P1", show_default=True,
              help="The policy that cryptographic overhead is the difference to.")
def command(folder: Path | None, form: str, baseline: str) -> None:
    """Print the table of FOLDER, or of the newest in results/."""
    show(folder or results.latest(RESULTS), form, baseline)


def show(folder: Path, form: str = "terminal", baseline: str = "P1") -> None:
    """Print a results folder's table to standard output; raises UserError when it is empty."""
    import analysis  # pandas takes its time; other commands need not wait for it
    from analysis import tables

    try:
        summary = analysis.summarize(analysis.load(folder), baseline=baseline)
    except analysis.NothingToReport as error:
        raise UserError(str(error)) from None
    if form == "markdown":
        click.echo(tables.markdown(summary))
    elif form == "csv":
        click.echo(tables.csv(summary), nl=False)
    else:
        # A file or a pipe has no width of its own; one that shows every column then serves best.
        console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
        console.print(tables.terminal(summary, console.width))
