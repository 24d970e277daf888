"""`qop report`: make a report of a results folder, as an HTML page and as tables.

A results folder has the records of one run. `load_results` reads them with the code of the study
that was measured. The command prints the main table and writes the page with all tables. The study
of the folder decides which options exist. `qop run` prints its results by `print_run_table`.
"""

from __future__ import annotations

import contextlib
import shlex
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

import studies
from guest.cache import cache_root
from harness.commands import output
from harness.commands.options import StudyCommand
from harness.engine import request
from harness.engine import results as folders
from harness.errors import UserError
from harness.portable.checksums import read_seal
from harness.portable.folder import read_manifest
from measure.records.record import RecordError
from studies import records as stored
from studies import release_factor
from studies.study import ReportOption, Study, StudyError

if TYPE_CHECKING:
    from rich.console import Console

    from analysis import Results
    from analysis.cells import Cells
    from analysis.present.report import Report
    from analysis.table import Table

FORMATS = ("terminal", "markdown", "csv")
#: Value of --table that prints the ids and titles of all tables.
_LIST = "list"
#: Warnings above a short table.
_MAX_WARNINGS = 3
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
    place = folder or folders.find_latest_folder(folders.RESULTS)
    _refuse_another(place, study)
    if form != "terminal" and not tables and not any(option.instead for option in chosen):
        print_run_table(place, form, baseline, study)
        return
    results = load_results(place, study)
    measured = find_folder_study(place, study)
    report = _call_study(lambda: measured.report(results, options), measured, place)
    _print_and_write(report, place, form, tables, results, baseline)


def _refuse_unused(chosen: Sequence[ReportOption], baseline: str, form: str,
                   tables: Sequence[str]) -> None:
    """Raise UserError for options that would not change the printed output."""
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
    """Return the parameters of `qop report`, with the study's own options."""
    level = next(iter(study.baseline.values()), "")
    return [
        click.Argument(["folder"], required=False, type=click.Path(path_type=Path)),
        *(_report_option(option) for option in study.report_options),
        click.Option(["--baseline"], metavar="LEVEL", default="", help=(
            "Take differences to this level, which is LEVEL or FACTOR=LEVEL "
            f"(default: {level or 'none'}).")),
        click.Option(["--table", "tables"], multiple=True, metavar="ID",
                     help="Print the table with this ID; 'all' prints every table, 'list' their "
                     "ids (may be repeated; default: the answer and the study's main tables)."),
        click.Option(["--format", "form"], type=click.Choice(FORMATS), default="terminal",
                     help="Print in this format; markdown and csv print one table and write "
                     "nothing (default: terminal)."),
        click.Option(["--study"], metavar="NAME", default=study.id, help="Take the options "
                     "of this study (default: the folder's study).")]


def _report_option(option: ReportOption) -> click.Option:
    """Return the command-line option for an option that a study's report has."""
    if option.is_flag:
        return click.Option([option.name, option.key], is_flag=True, help=option.help)
    kind = click.Path(path_type=Path) if option.is_file else str
    return click.Option([option.name, option.key], metavar=option.metavar, type=kind,
                        multiple=option.multiple, help=option.help)


def _find_study(args: Sequence[str]) -> str:
    """Return the study that the arguments name, or else that of the results folder.

    The result is "" if neither is known.
    """
    for number, text in enumerate(args):
        if text == "--study" and number + 1 < len(args):
            return args[number + 1]
        if text.startswith("--study="):
            return text.partition("=")[2]
    for text in args:
        if not text.startswith("-") and Path(text).is_dir() and _study_in(Path(text))[0]:
            return find_folder_study(Path(text)).id
    try:
        newest, _ = _study_in(folders.find_latest_folder(folders.RESULTS))
    except UserError:
        return ""
    # A report without results is not about the newest folder.
    return "" if not _is_alone(args, newest) and _is_alone(args, studies.DEFAULT) else newest


def _is_alone(args: Sequence[str], study: str) -> bool:
    """Return whether the arguments request a report that needs no measured results."""
    return study in studies.study_names() and any(
        option.without_results and option.name in args
        for option in studies.load_study(study).report_options)


command = StudyCommand("report", _report_on_folder,  # type: ignore[arg-type]
                       params=_report_params, named=_find_study)


def print_run_table(folder: Path, form: str = "terminal", baseline: str = "",
                    study: str = "", *, is_short: bool = False, command: str = "") -> None:
    """Print the main table of a results folder to standard output.

    Args:
        folder: The results folder.
        form: A value of FORMATS.
        baseline: Level (such as one policy) that others are compared with, "" for the study's.
        study: The study to use if the folder does not name one.
        is_short: Print sentences with the main results before the table, all on one screen.
        command: The command of the run. It is repeated with an option that decides open claims.

    Raises:
        UserError: The folder is empty or cannot be read.
    """
    results = load_results(folder, study)
    own = find_folder_study(folder, study)
    if is_short:
        _print_answer(results, own, folder, baseline, command)
        return
    _print_table(_call_study(lambda: own.run_table(compare_cells(results, baseline)), own, folder),
                 form)


def _print_answer(results: Results, study: Study, folder: Path, baseline: str,
                  command: str) -> None:
    """Print the main results of a run in sentences, and its table if a screen can show it."""
    report = _call_study(lambda: study.report(results, {"baseline": baseline}), study, folder)
    cells = _call_study(lambda: compare_cells(results, baseline), study, folder)
    _print_summary(report, cells, study, command)
    table = report.run or _call_study(lambda: study.run_table(cells), study, folder)
    _print_run(replace(table, notes=()), cells, folder, report)


def _print_summary(report: Report, cells: Cells, study: Study, command: str) -> None:
    """Print the main results in sentences, and commands that measure what is still open."""
    console = output.make_console(output.SCREEN_WIDTH)
    for line in report.summary:
        folded = textwrap.fill(line, console.width, subsequent_indent="  ", break_long_words=False,
                               break_on_hyphens=False)
        # Plain spaces can be searched for.
        console.print(Text(folded.replace("\N{NO-BREAK SPACE}", " ")), soft_wrap=True)
    for line in _list_next_commands(report, cells, study, command):
        console.print(Text(line), soft_wrap=True)  # whole, to be copied
    console.print()


def _list_next_commands(report: Report, cells: Cells, study: Study,
                        command: str) -> Iterator[str]:
    """Yield lines with commands that probably decide the open claims."""
    from analysis.reporting import answer, significance
    from analysis.table import count_noun

    run = command or "the same './qop run' with"
    if answer.list_unmeasured(cells):
        yield f"To measure the rest of the plan:\n  {command or 'the same command'}"
        return
    by_looks = [what for what, verdicts in (
        ("the claims", report.claims),
        ("the differences", significance.judge_differences(cells, report)))
        if study.judges_claims and answer.open_claims(cells, verdicts)]
    if by_looks:
        yield f"To decide {' and '.join(by_looks)}:\n  {run} --until-decided"
    if report.decisive and "the differences" not in by_looks:
        count = report.decisive.count
        what = f"To decide {count_noun(count, 'more difference')} (estimate)" if count \
            else "For narrower intervals"
        yield f"{what}:\n  {run} --repetitions {report.decisive.repetitions}"


def _print_run(table: Table, cells: Cells, folder: Path, report: Report) -> None:
    """Print the table that answers the run's question, or else the run's table.

    Of a run's table that does not fit a screen, one row per compared level (policy) is printed.
    """
    from analysis.present.terminal import to_plain_text
    from analysis.reporting import answer

    console = output.make_console(output.SCREEN_WIDTH)
    command = shlex.join(["./qop", "report", str(folder), "--table", "run"])
    texts = {line.replace("\N{NO-BREAK SPACE}", " ") for line in report.summary}
    table = replace(table, warnings=tuple(line for line in table.warnings if line not in texts))
    if report.answering is not None:
        _print_all([replace(report.answering, caption="", warnings=table.warnings[:_MAX_WARNINGS])],
                   report, console)
        _print_next_tables(report, command)
        return
    if to_plain_text(replace(table, notes=()), console.width).count("\n") <= output.SCREEN_LINES:
        _print_all([table], report, console)
        if not table.notes:
            click.echo(f"With notes on the columns: {command}\n")
        return
    short = replace(answer.make_short_table(cells), warnings=table.warnings[:_MAX_WARNINGS])
    _print_all([short], report, console)
    _print_next_tables(report, command)


def _print_next_tables(report: Report, command: str) -> None:
    """Print the commands that show the table of every cell, and of the claims if there are any."""
    click.echo(f"Every cell: {command}")
    if report.claims:
        click.echo(f"Claims: {command.removesuffix('run')}claims")
    click.echo()


def load_results(folder: Path, study: str = "") -> Results:
    """Read the records of a results folder with the code of its study.

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
    except analysis.NoResultsError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be read ({error.strerror or error}); "
                        "give a results folder that can be read") from None
    digest_line = f"{sealed.digest}; {sealed.bare}" if sealed.bare else sealed.digest
    return replace(results, digest=digest_line, notices=sealed.notices)


def find_folder_study(folder: Path, study: str = "") -> Study:
    """Return the study of a results folder.

    Args:
        folder: The results folder.
        study: The study to use if the folder does not name one, "" for the default study.

    Raises:
        UserError: The study is not installed.
    """
    name, factors = _study_in(folder)
    name = name or study or studies.DEFAULT
    try:
        return release_factor.load_study(name, factors)
    except StudyError as error:
        why = str(error) if name in studies.study_names() else (
            f"is of the study {name}, which is not installed here; add its folder to studies/, "
            "or name the folder around it with --study-path")
        raise UserError(f"{folder}: {why}") from None


def _study_in(folder: Path) -> tuple[str, list[str]]:
    """Return the name of a results folder's study and its factors, from plan or records.

    The name is "" if it is unknown.
    """
    manifest = read_manifest(folder)
    if manifest is not None:
        return manifest.study.id, list(manifest.levels)
    records = folder / "records" if (folder / "records").is_dir() else folder
    for path in sorted(records.glob("*.json")):
        with contextlib.suppress(RecordError):
            entry = stored.read_envelope(path)
            return entry.study.id, list(entry.cell)
    return "", []


def _refuse_another(folder: Path, study: str) -> None:
    """Raise UserError if the results belong to another study than the user named."""
    own, _ = _study_in(folder)
    if own and own != study:
        raise UserError(f"--study {study}: {folder} holds results of the study {own}; leave the "
                        "option out")


def compare_cells(results: Results, baseline: str) -> Cells:
    """Return the measured combinations of a run, each compared with a baseline.

    A combination is a cell such as one policy in one scenario, a baseline a level such as the
    policy without protection.
    """
    import analysis

    return analysis.Cells(results, baseline)


def _print_and_write(report: Report, folder: Path, form: str, tables: Sequence[str],
                     results: Results | None = None, baseline: str = "") -> None:
    """Print the requested part of a report, and write the report's files."""
    if _LIST in tables:
        _print_table_ids(report)
        return
    if form != "terminal":
        _print_one_table(report, folder, form, tables)
        return
    chosen = _tables_to_print(report, tables)
    # Files first: the reader of a pipe may end the output early.
    written, failure = "", None
    try:
        written = _write_files(report, folder, results)
    except UserError as error:
        failure = error
    if not tables:
        _print_main_part(report, folder, results, baseline)
    _print_all(chosen, report)
    if report.claims and not tables:
        tally = ", ".join(f"{count} {verdict}" for verdict, count in report.tally().items())
        click.echo(f"{report.claims_counted}: {tally}.")
    if results is not None:
        output.make_console().print(Text(f"Digest of plan and records: {results.digest}"))
    if failure is not None:
        raise failure
    if written:
        click.echo(written)


def _print_one_table(report: Report, folder: Path, form: str, tables: Sequence[str]) -> None:
    """Print the requested table, or else that of the run, in a form for other programs."""
    if tables:
        _print_table(_single_table(report, tables, form), form)
        return
    if report.run is None:
        raise UserError(f"--format {form}: this report has no table of a run; leave it out, "
                        "and look into its tables/")
    _print_table(report.run, form)
    if lines := _write_figures(report, folder):
        click.echo(lines, err=True)  # another program reads standard output


def _print_main_part(report: Report, folder: Path, results: Results | None, baseline: str) -> None:
    """Print the answer in sentences with its table, or else the run's table."""
    if report.run is None:
        return
    if results is None or not report.summary:
        _print_all([report.run], report)
        return
    cells = compare_cells(results, baseline)
    _print_summary(report, cells, find_folder_study(folder), "")
    _print_run(report.run, cells, folder, report)


def _write_files(report: Report, folder: Path, results: Results | None) -> str:
    """Write the page, tables and figures of a report, and return lines with their paths."""
    from analysis.present.page import save_report

    lines = _write_figures(report, folder)
    if not report.has_page:
        return lines
    try:
        page, document = save_report(report, folder, None if results is None else results.frame,
                                     cache_root() / "plotly")
    except OSError as error:
        raise UserError(f"{error.filename or folder}: the report cannot be written "
                        f"({error.strerror}); make the folder writable, or copy it") from None
    written = f"Report: {page}\nTables: {document.parent}/ (LaTeX, CSV, Parquet)"
    return f"{lines}\n{written}".strip()


def _write_figures(report: Report, folder: Path) -> str:
    """Write the figures of a report as files, and return a line with their paths, or ""."""
    try:
        paths = [path for drawing in report.drawings for path in drawing(folder)]
    except OSError as error:
        raise UserError(f"{error.filename or folder}: the figure cannot be written "
                        f"({error.strerror}); make the folder writable, or copy it") from None
    return f"Figure: {', '.join(map(str, paths))}" if paths else ""


def _print_table_ids(report: Report) -> None:
    """Print the id and the title of each table of a report."""
    tables, width = list(report.tables), output.make_console().width
    indent = max((len(table.id) for table in tables), default=0) + 2
    for table in tables:
        click.echo(textwrap.fill(f"{table.id:{indent}}{table.title}", width,
                                 subsequent_indent=" " * indent))


def _single_table(report: Report, table_ids: Sequence[str], form: str) -> Table:
    """Return the only table that the user requested, for output as Markdown or CSV."""
    if len(set(table_ids)) > 1 or "all" in table_ids:
        raise UserError(f"--format {form}: prints one table; give one --table, or look into the "
                        "report's tables/, where all are")
    return next(table for table in _tables_to_print(report, table_ids) if table.id == table_ids[0])


def _tables_to_print(report: Report, table_ids: Sequence[str]) -> list[Table]:
    """Return the tables to print after the run's table.

    These are the requested tables, or else those that the report selects.
    """
    tables = {table.id: table for table in report.tables}
    if "all" in table_ids:
        return list(tables.values())
    missing = [name for name in table_ids if name not in tables]
    if missing:
        raise UserError(f"--table {missing[0]}: there is no such table here; choose from "
                        f"{', '.join(tables)}")
    return [tables[name] for name in dict.fromkeys((*(table_ids or report.printed), *report.asked))
            if name in tables]


def _call_study(make: Callable[[], _T], study: Study, folder: Path) -> _T:
    """Call a function of a study for a report, and return its result.

    Args:
        make: The function, which may raise any exception.
        study: The study.
        folder: The results folder, for messages.

    Raises:
        UserError: The function failed.
    """
    from analysis import NoResultsError

    try:
        with request.convert_study_errors(study, "report", passing=NoResultsError):
            return make()
    except NoResultsError as error:
        raise UserError(f"{folder}: {error}") from None


def _print_table(table: Table, form: str) -> None:
    if form == "markdown":
        from analysis.present.export import to_markdown

        click.echo(to_markdown(table), nl=False)
    elif form == "csv":
        from analysis.present.export import to_csv

        click.echo(to_csv(table), nl=False)
        for line in table.warnings:  # CSV has no place for warnings
            click.echo(f"! {line}", err=True)
    else:
        _print_all([table])


def _print_all(tables: Sequence[Table], report: Report | None = None,
               console: Console | None = None) -> None:
    """Print tables, each with the names of its codes, which the report knows."""
    from analysis.present.code_names import name_codes
    from analysis.present.terminal import keep_printed, to_console

    console = console or output.make_console()
    for table in tables:
        notes = name_codes(keep_printed(table, console.width), report.factors).notes \
            if report else table.notes
        console.print(to_console(replace(table, notes=notes)), end="")
