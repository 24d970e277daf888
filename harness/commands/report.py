"""`qop report`: report on a results folder, as a page and as tables.

The study of the folder decides which options exist.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

import studies
from harness.commands import showing
from harness.commands.options import StudyCommand
from harness.engine import request
from harness.engine import results as folders
from harness.errors import UserError
from harness.portable.reading import read_manifest
from harness.portable.seal import read_seal
from measure.record import RecordError
from studies import records as stored
from studies.study import ReportOption, Study, StudyError

if TYPE_CHECKING:
    from analysis import Results
    from analysis.cells import Cells
    from analysis.present.report import Report
    from analysis.table import Table

FORMATS = ("terminal", "markdown", "csv")
_T = TypeVar("_T")


def _report_on_folder(folder: Path | None, form: str, tables: tuple[str, ...], baseline: str,
                      study: str, **own: Any) -> None:
    """Report on FOLDER, or on the newest in results/.

    The command prints the run's table and the study's first answers. It writes report.html into the
    folder, which any browser opens, and every table as LaTeX, CSV and Parquet into tables/. Options
    of the folder's study come first in the list below.
    """
    reported = studies.load_study(study)
    chosen = [option for option in reported.report_options if own.get(option.key)]
    options = {**own, "baseline": baseline}
    _refuse_unused(chosen, baseline, form, tables)
    alone = next((option for option in chosen if option.without_results), None)
    if alone is not None:
        place = folder or folders.RESULTS / alone.key
        report = _call_study(lambda: reported.report_alone(options), reported, place)
        _print_and_write(report, place, form, tables)
        return
    place = folder or folders.latest_folder(folders.RESULTS)
    _refuse_another(place, study)
    if form != "terminal" and not tables and not any(option.instead for option in chosen):
        print_run_table(place, form, baseline, study)
        return
    results = load_results(place, study)
    report = _call_study(lambda: reported.report(results, options), reported, place)
    _print_and_write(report, place, form, tables, results)


def _refuse_unused(chosen: Sequence[ReportOption], baseline: str, form: str,
                   tables: Sequence[str]) -> None:
    """Raise UserError for options that would not change the output."""
    instead = [option for option in chosen if option.instead]
    if len(instead) > 1:
        raise UserError(f"{instead[1].name}: makes a report of its own, as {instead[0].name} does; "
                        "give one of them")
    given = [*(option.name for option in chosen), *(["--baseline"] if baseline else [])]
    for option in instead:
        for name in given:
            if name in option.unused:
                raise UserError(f"{name}: would change nothing of what {option.name} makes; leave "
                                "one of them out")
    if form != "terminal" and not tables and not instead and chosen:
        raise UserError(f"{chosen[0].name}: would change nothing of the run's table, which "
                        f"--format {form} prints; add --table NAME, or leave it out")


def _report_params(study: Study) -> list[click.Parameter]:
    """Return the options of a study, and those that every report has."""
    level = next(iter(study.baseline.values()), "")
    return [
        click.Argument(["folder"], required=False, type=click.Path(path_type=Path)),
        *(_report_option(option) for option in study.report_options),
        click.Option(["--baseline"], metavar="LEVEL", default="", help=(
            "The level that differences are taken to, or FACTOR=LEVEL."
            + (f"  [default: {level}]" if level else ""))),
        click.Option(["--table", "tables"], multiple=True, metavar="ID",
                     help="Print this table, or all. May be repeated."),
        click.Option(["--format", "form"], type=click.Choice(FORMATS), default="terminal",
                     show_default=True, help="Of what is printed; the other two print one table "
                     "and write nothing."),
        click.Option(["--study"], metavar="NAME", default=study.id, help="The study, where no "
                     "folder says it.  [default: the folder's]")]


def _report_option(option: ReportOption) -> click.Option:
    """Return the click option for a report option of a study."""
    if option.is_flag:
        return click.Option([option.name, option.key], is_flag=True, help=option.help)
    kind = click.Path(path_type=Path) if option.is_file else str
    return click.Option([option.name, option.key], metavar=option.metavar, type=kind,
                        multiple=option.multiple, help=option.help)


def _find_study(args: Sequence[str]) -> str:
    """Return the study of the arguments: the named one, or that of the results folder.

    The result is "" if neither is known.
    """
    for number, text in enumerate(args):
        if text == "--study" and number + 1 < len(args):
            return args[number + 1]
        if text.startswith("--study="):
            return text.partition("=")[2]
    for text in args:
        if not text.startswith("-") and Path(text).is_dir() and _study_in(Path(text)):
            return find_folder_study(Path(text)).id
    try:
        newest = _study_in(folders.latest_folder(folders.RESULTS))
    except UserError:
        return ""
    # A report without results is not about the newest folder.
    return "" if not _is_alone(args, newest) and _is_alone(args, studies.DEFAULT) else newest


def _is_alone(args: Sequence[str], study: str) -> bool:
    """Return whether an option among arguments requests a report without results."""
    return study in studies.study_names() and any(
        option.without_results and option.name in args
        for option in studies.load_study(study).report_options)


command = StudyCommand("report", _report_on_folder, params=_report_params, named=_find_study)  # type: ignore[arg-type]


def print_run_table(folder: Path, form: str = "terminal", baseline: str = "",
                    study: str = "") -> None:
    """Print the table of a results folder to standard output.

    Args:
        folder: The results folder.
        form: A value of FORMATS.
        baseline: Level that differences are relative to, "" for the study's.
        study: The study to use if the folder does not name one.

    Raises:
        UserError: The folder is empty or cannot be read.
    """
    results = load_results(folder, study)
    own = find_folder_study(folder, study)
    _print_table(_call_study(lambda: own.run_table(compare_cells(results, baseline)), own, folder),
                 form)


def load_results(folder: Path, study: str = "") -> Results:
    """Return the repetitions of a results folder, read by its study.

    Args:
        folder: The results folder.
        study: The study to use if the folder does not name one.

    Raises:
        UserError: The folder is empty or cannot be read.
    """
    import analysis  # pandas loads slowly; other commands do not need it

    manifest = read_manifest(folder)
    try:
        results = analysis.load(folder, find_folder_study(folder, study), manifest,
                                stored.read_envelope)
        sealed = read_seal(folder, manifest)
    except analysis.NothingToReport as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be read ({error.strerror or error}); "
                        "give a results folder that can be read") from None
    said = f"{sealed.digest}; {sealed.bare}" if sealed.bare else sealed.digest
    return replace(results, digest=said, notices=sealed.notices)


def find_folder_study(folder: Path, study: str = "") -> Study:
    """Return the study of a results folder.

    Args:
        folder: The results folder.
        study: The study to use if the folder does not name one, "" for the default study.

    Raises:
        UserError: The study is not installed.
    """
    name = _study_in(folder) or study or studies.DEFAULT
    try:
        return studies.load_study(name)
    except StudyError as error:
        why = str(error) if name in studies.study_names() else (
            f"is of the study {name}, which is not installed here; add its folder to studies/")
        raise UserError(f"{folder}: {why}") from None


def _study_in(folder: Path) -> str:
    """Return the name of a results folder's study, from its plan or else its records.

    The result is "" if it is unknown.
    """
    manifest = read_manifest(folder)
    if manifest is not None:
        return manifest.study.id
    records = folder / "records" if (folder / "records").is_dir() else folder
    for path in sorted(records.glob("*.json")):
        with contextlib.suppress(RecordError):
            return stored.read_envelope(path).study.id
    return ""


def _refuse_another(folder: Path, study: str) -> None:
    """Raise UserError if the results belong to another study than the requested one."""
    own = _study_in(folder)
    if own and own != study:
        raise UserError(f"--study {study}: {folder} holds results of the study {own}; leave the "
                        "option out")


def compare_cells(results: Results, baseline: str) -> Cells:
    """Return the cells of a run, compared with a baseline."""
    import analysis

    return analysis.Cells(results, baseline)


def _print_and_write(report: Report, folder: Path, form: str, tables: Sequence[str],
                     results: Results | None = None) -> None:
    """Print the requested output and write the other files."""
    if form != "terminal" and tables:
        _print_table(_single_table(report, tables, form), form)
        return
    if form != "terminal":
        if report.run is None:
            raise UserError(f"--format {form}: this report has no table of a run; leave it out, "
                            "and look into its tables/")
        _print_table(report.run, form)
        _write_figures(report, folder, is_aside=True)
        return
    chosen = _tables_to_print(report, tables)
    if report.run is not None and not tables:
        _print_table(report.run, form)
    _print_all(chosen)
    if report.claims and not tables:
        said = ", ".join(f"{count} {verdict}" for verdict, count in report.tally().items())
        click.echo(f"{report.claims_counted}: {said}.")
    if results is not None:
        showing.make_console().print(Text(f"Digest of plan and records: {results.digest}"))
    _write_figures(report, folder, is_aside=False)
    if report.has_page:
        _write_report(report, folder, results)


def _write_report(report: Report, folder: Path, results: Results | None) -> None:
    from analysis.present.writing import save_report

    try:
        page, document = save_report(report, folder, None if results is None else results.frame)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: the report cannot be written "
                        f"({error.strerror}); make the folder writable, or copy it") from None
    click.echo(f"Report: {page}\nTables: {document.parent}/ (LaTeX, CSV, Parquet)")


def _write_figures(report: Report, folder: Path, *, is_aside: bool) -> None:
    """Write the figures that are separate files.

    With `is_aside` their paths are printed to standard error, because another program reads
    standard output.
    """
    try:
        paths = [path for drawing in report.drawings for path in drawing(folder)]
    except OSError as error:
        raise UserError(f"{error.filename or folder}: the figure cannot be written "
                        f"({error.strerror}); make the folder writable, or copy it") from None
    if paths:
        click.echo(f"Figure: {', '.join(map(str, paths))}", err=is_aside)


def _single_table(report: Report, table_ids: Sequence[str], form: str) -> Table:
    """Return the single table that was requested, for another program to read."""
    if len(set(table_ids)) > 1 or "all" in table_ids:
        raise UserError(f"--format {form}: prints one table; give one --table, or look into the "
                        "report's tables/, where all are")
    return next(table for table in _tables_to_print(report, table_ids) if table.id == table_ids[0])


def _tables_to_print(report: Report, table_ids: Sequence[str]) -> list[Table]:
    """Return the tables to print after the run's table.

    These are the requested tables, or else those that the report selects.
    """
    there = {table.id: table for table in report.tables}
    if "all" in table_ids:
        return list(there.values())
    missing = [name for name in table_ids if name not in there]
    if missing:
        raise UserError(f"--table {missing[0]}: there is no such table here; choose from "
                        f"{', '.join(there)}")
    return [there[name] for name in dict.fromkeys((*(table_ids or report.printed), *report.asked))
            if name in there]


def _call_study(make: Callable[[], _T], study: Study, folder: Path) -> _T:
    """Return the result of a study's function for a report.

    Args:
        make: The function, which may raise any exception.
        study: The study.
        folder: The results folder, for messages.

    Raises:
        UserError: The function failed.
    """
    from analysis import NothingToReport

    try:
        with request.convert_study_errors(study, "report", passing=NothingToReport):
            return make()
    except NothingToReport as error:
        raise UserError(f"{folder}: {error}") from None


def _print_table(table: Table, form: str) -> None:
    if form == "markdown":
        from analysis.present.markdown import to_markdown

        click.echo(to_markdown(table), nl=False)
    elif form == "csv":
        from analysis.present.export import to_csv

        click.echo(to_csv(table), nl=False)
        for line in table.warnings:  # CSV has no place for warnings
            click.echo(f"! {line}", err=True)
    else:
        _print_all([table])


def _print_all(tables: Sequence[Table]) -> None:
    from analysis.present.terminal import to_console

    console = showing.make_console()
    for table in tables:
        console.print(to_console(table), end="")
