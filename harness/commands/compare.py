"""`qop compare`: compare the measurements of two results folders.

A results folder has the records of one run. The command prints a table for each metric, with the
difference of every policy and scenario that both runs measured. Significant differences are marked.
With `--out` it also writes an HTML page and files for other programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.commands import output
from harness.commands.report import find_folder_study, load_results
from harness.errors import UserError
from measure.records.document import to_printable

if TYPE_CHECKING:
    from analysis import Results
    from analysis.table import Table
    from studies.study import Study

_CORRECTIONS = ("holm", "benjamini-hochberg")
#: File that only results folders of `qop measure` have (measure.cards.results).
CARD_FILE = "measurement.json"


@click.command("compare", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--baseline", default="", metavar="LEVEL",
              help="Take differences within a run to this level, which is LEVEL or FACTOR=LEVEL "
              "(default: from the study).")
@click.option("--correction", type=click.Choice(_CORRECTIONS), default=_CORRECTIONS[0],
              help="Correct p-values for the number of comparisons: no false mark in 95 % of cases "
              f"(holm), or few among the marks (default: {_CORRECTIONS[0]}).")
@click.option("--changed", is_flag=True, help="Show only cells that differ significantly.")
@click.option("--out", type=click.Path(path_type=Path),
              help="Also write report.html and the tables as LaTeX, CSV and Parquet into this "
              "folder (default: nothing is written).")
def command(first: Path, second: Path, baseline: str, correction: str, changed: bool,
            out: Path | None) -> None:
    """Compare two results folders, cell by cell, or phase by phase with one of './qop measure'.

    A * marks a difference that is significant after correction for the number of comparisons. If
    one run used the real clock and the other one the virtual clock, the difference is the time that
    the processor adds to airtime and protocol.
    """
    names = _run_names(first, second)
    if (first / CARD_FILE).is_file() or (second / CARD_FILE).is_file():
        _compare_with_card((first, second), names, baseline, correction, changed=changed, out=out)
        return
    tables = _compare_runs((load_results(first), load_results(second)), find_folder_study(first),
                           names, baseline, correction)
    if changed:
        from analysis.reporting.comparison import changed_only

        tables = [changed_only(table) for table in tables]
    _print_tables(tables)
    if out is not None:
        _write_comparison(tables, names, out)


def _compare_with_card(folders: tuple[Path, Path], names: tuple[str, str], baseline: str,
                       correction: str, *, changed: bool, out: Path | None) -> None:
    """Compare logins and roams by their phases. One folder or both are of `qop measure`."""
    from analysis.reporting.comparison import changed_only
    from harness.card_comparison import compare_folders
    from measure.agent.errors import MeasureError

    if baseline:
        raise UserError(f"--baseline {baseline}: a measurement with a card has no levels; leave it "
                        "out")
    try:
        tables, lines = compare_folders(folders, names, correction)
    except MeasureError as error:
        raise UserError(str(error)) from None
    _print_tables([changed_only(table) for table in tables] if changed else tables)
    for line in lines:
        click.echo(to_printable(line))
    if out is not None:
        _write_comparison(tables, names, out)


def _compare_runs(runs: tuple[Results, Results], study: Study, names: tuple[str, str],
                  baseline: str,
                  correction: str) -> list[Table]:
    from analysis import Cells, NoResultsError
    from analysis.reporting import clock_comparison, comparison
    from analysis.reporting.release_report import align_releases

    try:
        runs, names = align_releases(runs, names)
        if runs[0].clock == runs[1].clock:
            return comparison.compare_runs(*runs, names=names, baseline=baseline,
                                           correction=correction)
        return clock_comparison.compare_clocks(*runs, names=names, correction=correction,
                                               parts=study.parts(Cells(runs[0])))
    except NoResultsError as error:
        raise UserError(str(error)) from None


def _run_names(first: Path, second: Path) -> tuple[str, str]:
    """Return the names of two compared runs.

    These are their folders' names, or the paths as given if the names are equal.
    """
    paths = first.resolve(), second.resolve()
    if paths[0] == paths[1]:
        raise UserError(f"{first}: compared with itself; give two results folders")
    if paths[0].name != paths[1].name:
        return paths[0].name, paths[1].name
    return str(first), str(second)


def _print_tables(tables: Sequence[Table]) -> None:
    """Print the tables of the comparison, and once the notes that all of them share.

    An empty table is printed as one line.
    """
    from analysis.present.terminal import to_console

    console = output.make_console()
    for table in tables:
        if table.rows:
            console.print(to_console(dataclasses.replace(table, notes=())))
        else:
            console.print(Text(f"{table.title}: no significant difference", style="bold"))
    for note in tables[0].notes:
        console.print(Text(f"- {note}", style="dim"))


def _write_comparison(tables: Sequence[Table], names: tuple[str, str], out: Path) -> None:
    """Write the comparison of two runs as an HTML page, and as files for other programs."""
    from analysis.circumstances import clock_caveat
    from analysis.present.report import Report, Section
    from analysis.reporting import clock_comparison

    filled = tuple(table for table in tables if table.rows)
    drawn = tuple(filter(None, (clock_comparison.make_clock_figure(tables),)))
    description = "Real and virtual time side by side." if drawn else "Two runs side by side."
    page = Report(f"{names[0]} and {names[1]}", description,
                  caveat=clock_caveat(tables[0].clock) if tables else "",
                  sections=(Section("comparison", "Comparison", "", drawn, filled),))
    output.write_out(page, out)
