"""`qop compare`: compare two results folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.commands import showing
from harness.commands.report import find_folder_study, load_results
from harness.errors import UserError

if TYPE_CHECKING:
    from analysis import Results
    from analysis.table import Table
    from studies.study import Study

_CORRECTIONS = ("holm", "benjamini-hochberg")


@click.command("compare", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--baseline", default="", metavar="LEVEL",
              help="The level that differences within a run are taken to, or FACTOR=LEVEL.  "
                   "[default: the study's]")
@click.option("--correction", type=click.Choice(_CORRECTIONS), default=_CORRECTIONS[0],
              show_default=True,
              help="How p-values are corrected for the number of comparisons: no false mark at "
                   "all (in 95 % of cases), or few among the marks.")
@click.option("--changed", is_flag=True, help="Show only cells that differ significantly.")
@click.option("--out", type=click.Path(path_type=Path),
              help="Also write the comparison into this folder: report.html, and tables as LaTeX, "
                   "CSV and Parquet.")
def command(first: Path, second: Path, baseline: str, correction: str, changed: bool,
            out: Path | None) -> None:
    """Compare two results folders, cell by cell.

    A * marks a difference that is significant after correction for the number of comparisons. Of a
    run by the real clock and one by the virtual clock, the difference is the time of the processor.
    It comes on top of airtime and protocol.
    """
    names = _run_names(first, second)
    tables = _compare_runs((load_results(first), load_results(second)), find_folder_study(first),
                           names, baseline, correction)
    if changed:
        from analysis.comparison import changed_only

        tables = [changed_only(table) for table in tables]
    _print_tables(tables)
    if out is not None:
        _write_comparison(tables, names, out)


def _compare_runs(runs: tuple[Results, Results], study: Study, names: tuple[str, str],
                  baseline: str,
                  correction: str) -> list[Table]:
    from analysis import Cells, NothingToReport, clock_comparison, comparison

    try:
        if runs[0].clock == runs[1].clock:
            return comparison.compare_runs(*runs, names=names, baseline=baseline,
                                           correction=correction)
        return clock_comparison.compare_clocks(*runs, names=names, correction=correction,
                                               parts=study.parts(Cells(runs[0])))
    except NothingToReport as error:
        raise UserError(str(error)) from None


def _run_names(first: Path, second: Path) -> tuple[str, str]:
    """Return the names of two runs.

    These are their folders' names, or the paths as given if the names are equal.
    """
    paths = first.resolve(), second.resolve()
    if paths[0] == paths[1]:
        raise UserError(f"{first}: compared with itself; give two results folders")
    if paths[0].name != paths[1].name:
        return paths[0].name, paths[1].name
    return str(first), str(second)


def _print_tables(tables: Sequence[Table]) -> None:
    """Print all tables that have rows.

    A table without rows has one line. The notes, which are the same for all tables, are printed
    once.
    """
    from analysis.present.terminal import to_console

    console = showing.make_console()
    for table in tables:
        if table.rows:
            console.print(to_console(dataclasses.replace(table, notes=())))
        else:
            console.print(Text(f"{table.title}: no significant difference", style="bold"))
    for note in tables[0].notes:
        console.print(Text(f"- {note}", style="dim"))


def _write_comparison(tables: Sequence[Table], names: tuple[str, str], out: Path) -> None:
    """Write the comparison as a page, and as files for other programs."""
    from analysis import clock_figure
    from analysis.clock import clock_caveat
    from analysis.present.report import Report, Section

    there = tuple(table for table in tables if table.rows)
    drawn = tuple(filter(None, (clock_figure.make_clock_figure(tables),)))
    said = "Real and virtual time side by side." if drawn else "Two runs side by side."
    page = Report(f"{names[0]} and {names[1]}", said,
                  caveat=clock_caveat(tables[0].clock) if tables else "",
                  sections=(Section("comparison", "Comparison", "", drawn, there),))
    showing.write_out(page, out)
