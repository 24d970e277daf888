"""`qop report`: a results folder as a page, as tables for papers and programs, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from harness import results
from harness.commands.run import RESULTS
from harness.errors import UserError

if TYPE_CHECKING:
    from analysis.report import Report

    from analysis import Results, Summary
    from analysis.table import Table
    from policies import Policy, Weights

FORMATS = ("terminal", "markdown", "csv")
_PLAIN_WIDTH = 180
#: Tables that are printed where none is asked for.
_FIRST = ("overview",)


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal",
              show_default=True, help="Of what is printed; the other two print one table and write "
              "nothing.")
@click.option("--baseline", default="P1", show_default=True,
              help="The policy that cryptographic overhead is the difference to.")
@click.option("--handoff", is_flag=True,
              help="Instead: draw the phases of the handoffs as handoff.svg and handoff.png into "
                   "FOLDER, and print their table.")
@click.option("--published", is_flag=True,
              help="Instead: the report of the values that the 2007 paper printed, into FOLDER "
                   "(default: results/published).")
@click.option("--weights", type=click.Path(path_type=Path), metavar="FILE",
              help="Weights of protection in place of the paper's; policies/weights.yml is an "
                   "example.")
@click.option("--policy", "files", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
              help="A policy file of your own that was measured: its layers say how it protects. "
                   "May be repeated.")
@click.option("--application", "wanted", multiple=True, metavar="NAME",
              help="voice, video, file-transfer, or limits such as delay=0.2,loss=0.01,sigma=50: "
                   "also print which policies qualify. May be repeated.")
@click.option("--table", "tables", multiple=True, metavar="ID",
              help="Print this table: table-1 to table-9, figure-2, claims, bounds, ..., or all. "
                   "May be repeated.")
def command(folder: Path | None, form: str, baseline: str, handoff: bool, published: bool,
            weights: Path | None, files: tuple[Path, ...], wanted: tuple[str, ...],
            tables: tuple[str, ...]) -> None:
    """Report on FOLDER, or on the newest in results/.

    Writes report.html into it, which any browser opens, and tables/ with every table as LaTeX, CSV
    and Parquet; prints the run's table and which policy suits whom.
    """
    if published:
        _write_paper(folder or RESULTS / "published", _weights(weights), wanted, tables)
        return
    chosen = folder or results.latest(RESULTS)
    if handoff:
        show_handoff(chosen, form, baseline)
    elif form != "terminal":
        show(chosen, form, baseline)
    else:
        _write_run(chosen, baseline, _weights(weights), _own(files), wanted, tables)


def show(folder: Path, form: str = "terminal", baseline: str = "P1") -> None:
    """Print a results folder's table to standard output; raises UserError when it is empty."""
    _show(_summary(_load(folder), baseline), form)


def show_handoff(folder: Path, form: str = "terminal", baseline: str = "P1") -> None:
    """Print the table of a results folder's handoffs and draw them into it.

    Raises UserError when there is none, or when the figure cannot be written.
    """
    from analysis import NothingToReport, tables, waterfall  # matplotlib takes its time

    summary = _summary(_load(folder), baseline)
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


def _write_run(folder: Path, baseline: str, weights: Weights | None, own: Sequence[Policy],
               wanted: Sequence[str], tables: Sequence[str]) -> None:
    """Everything about a run: first on the terminal, then into its folder."""
    from analysis import report  # as above

    found = _load(folder)
    made = _asked(lambda: report.of_run(folder, found, weights, baseline, own, wanted))
    if not tables:
        _show(_summary(found, baseline), "terminal")
    _finish(made, folder, wanted, tables, found)


def _write_paper(folder: Path, weights: Weights | None, wanted: Sequence[str],
                 tables: Sequence[str]) -> None:
    from analysis import report

    made = _asked(lambda: report.of_paper(weights, wanted))
    _finish(made, folder, wanted, tables or ("table-3", "table-9"))


def _finish(made: Report, folder: Path, wanted: Sequence[str], tables: Sequence[str],
            found: Results | None = None) -> None:
    """Print what was asked for, write the rest, and say where it is."""
    from analysis.report import write

    chosen = _chosen(made, wanted, tables)
    _tables(chosen)
    if made.claims and not tables:
        said = ", ".join(f"{count} {verdict}" for verdict, count in made.tally().items())
        click.echo(f"The paper's {len(made.claims)} claims: {said}.")
    try:
        page, document = write(made, folder, found.frame if found else None)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: the report cannot be written "
                        f"({error.strerror}); make the folder writable, or copy it") from None
    click.echo(f"Report: {page}\nTables: {document.parent}/ (LaTeX, CSV, Parquet)")


def _chosen(made: Report, wanted: Sequence[str], tables: Sequence[str]) -> list[Table]:
    """The tables to print: those asked for, and those of the applications asked for."""
    there = {table.id: table for table in made.tables}
    if "all" in tables:
        return list(there.values())
    missing = [name for name in tables if name not in there]
    if missing:
        raise UserError(f"--table {missing[0]}: there is no such table here; choose from "
                        f"{', '.join(there)}")
    from studies.qop2007.report.advice import limits_of

    asked = [f"advice-{limits_of(text).name}" for text in wanted]
    return [there[name] for name in dict.fromkeys((*(tables or _FIRST), *asked))
            if name in there]


def _tables(chosen: Sequence[Table]) -> None:
    from analysis.present.terminal import terminal

    console = _console()
    console.print()
    for table in chosen:
        console.print(terminal(table))


def _load(folder: Path) -> Results:
    import analysis  # pandas takes its time; other commands need not wait for it

    try:
        return analysis.load(folder)
    except analysis.NothingToReport as error:
        raise UserError(str(error)) from None


def _summary(found: Results, baseline: str) -> Summary:
    import analysis

    return analysis.summarize(found, baseline=baseline)


def _asked(make: Callable[[], Report]) -> Report:
    """A report, or one line about what was asked for in it."""
    try:
        return make()
    except ValueError as error:
        raise UserError(str(error)) from None


def _weights(path: Path | None) -> Weights | None:
    from policies import PolicyError, load_weights

    try:
        return load_weights(path) if path else None
    except PolicyError as error:
        raise UserError(str(error)) from None


def _own(files: Sequence[Path]) -> list[Policy]:
    from policies import PolicyError, load

    try:
        return [load(path) for path in files]
    except PolicyError as error:
        raise UserError(str(error)) from None


def _show(summary: Summary, form: str) -> None:
    from analysis import tables

    _print(summary, form, {"terminal": tables.terminal, "markdown": tables.markdown,
                           "csv": tables.csv})


def _print(summary: Summary, form: str, views: Mapping[str, Callable[..., Any]]) -> None:
    if form == "terminal":
        console = _console()
        console.print(views[form](summary, console.width))
    else:
        click.echo(views[form](summary), nl=form == "markdown")


def _console() -> Console:
    """A file or a pipe has no width of its own; one that shows every column then serves best."""
    return Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
