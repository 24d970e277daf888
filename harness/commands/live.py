"""Run a measurement and show it on a live web page, which can also steer it: `./qop PAGE`.

A study may have such a page, for one combination of its policies and scenarios. `page_command`
returns the command for the page of a study. The command starts the run as a separate process and
serves the page on 127.0.0.1. With `--replay` it shows recorded measurements, with `--attach` a run
that lasts. The run continues if the page or its server fails, and always ends with a record.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import studies
from harness.commands import options, study_path
from harness.engine import control_socket, events, request, results, setup
from harness.engine.plan import Plan
from harness.engine.request import RunRequest
from harness.errors import UserError
from harness.live import server as live_server
from harness.live.server import PageAddress, PageServer
from harness.live.sources import RecordingSource, RunSource
from harness.portable import folder
from studies.study import LivePage, Study

_LOOK_S = 0.2


def page_command(name: str, study_id: str) -> click.Command:
    """Return the command of a study's live page.

    Args:
        name: Name of the page and of its command.
        study_id: The study of the page.

    Raises:
        UserError: The study cannot be loaded, or has no such page.
    """
    with request.convert_refusals():
        study = studies.load_study(study_id)
    page = study.live
    if page is None or page.folder.name != name:
        raise UserError(f"{studies.place_of_study(study_id)}/{name}: has a page.html, and its "
                        "STUDY has no live page of that folder; studies/study.py says what belongs "
                        "there")

    def run(*, replay: Path | None, attach: Path | None, port: int, **asked: Any) -> int:
        if replay is not None and attach is not None:
            raise UserError("--attach: is for a run that lasts, --replay for one that is over; "
                            "give one of them")
        if replay is not None:
            _check_folder(replay, study, "--replay")
            _refuse_of_runs("--replay")
            return _serve_page(RecordingSource(replay, page), page, PageAddress(port))
        if attach is not None:
            _check_folder(attach, study, "--attach")
            _refuse_of_runs("--attach")
            if not folder.is_folder_locked(attach):
                raise UserError(f"--attach {attach}: no run writes there; give --replay to look at "
                                "what it holds")
            return _serve_page(RunSource(attach, page), page,
                               live_server.load_page_address(attach, port),
                               attach)
        return _measure_cell(study, page, port, **asked)

    return click.Command(
        name, callback=run, help=f"{page.help}\n\nThe page is for this machine's browsers alone, "
        "at an address that nobody can guess. Closing it changes nothing; Ctrl-C ends the "
        "streams, and what was measured is recorded.",
        params=[*_page_params(study, page), study_path.OPTION],
        context_settings={"help_option_names": ["-h", "--help"]})


def _refuse_of_runs(shown_by: str) -> None:
    """Raise UserError for options of a new run if the page shows an existing run."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in ("replay", "attach", "port") and \
                context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UserError(f"{parameter.opts[0]}: is for a run that begins here, and {shown_by} "
                            "shows another; leave one out")


def _page_params(study: Study, page: LivePage) -> list[click.Parameter]:
    folder = click.Path(path_type=Path, file_okay=False)
    return [
        *options.level_options(study, page.levels), *options.setting_options(study),
        click.Option(["--replay"], metavar="FOLDER", type=folder,
                     help="Show a results folder, of any clock (default: a new run)."),
        click.Option(["--attach"], metavar="FOLDER", type=folder,
                     help="Show the run that writes to a results folder "
                     "(default: a new run)."),
        click.Option(["--out"], type=folder, help="Write results here (default: a new folder in "
                     "results/)."),
        click.Option(["--port"], type=click.IntRange(0, 65535), default=0,
                     help="Serve the page on this port of 127.0.0.1 (default: any that is free)."),
        click.Option(["--builder"], type=click.Choice(setup.BUILDER_CHOICES),
                     default=setup.AUTO_BUILDER,
                     envvar="QOP_BUILDER",
                     help=options.BUILDER_HELP)]


def _check_folder(folder: Path, study: Study, option: str) -> None:
    """Raise UserError if the results in a folder belong to another study."""
    manifest = results.require_manifest(folder)
    if manifest.study.id != study.id:
        raise UserError(f"{option} {folder}: holds results of {manifest.study.id}; give one of "
                        f"{study.id}")


# --- a new run -----------------------------------------------------------------------------------

def _measure_cell(study: Study, page: LivePage, port: int, *, out: Path | None, builder: str,
                  **own: Any) -> int:
    """Start a run that measures one combination, and show it on a page until both have ended."""
    cell_request = options.build_cell_request(study, own, page.sets)
    plan = request.build_plan(cell_request, {"clock": "real",
                                             "builder": setup.choose_builder(builder, "guest")})
    folder = out or results.RESULTS / f"{time.strftime('%Y-%m-%d_%H%M%S')}_{page.folder.name}"
    if (folder / "plan.json").exists():
        raise UserError(f"--out {folder}: holds results already; choose another folder, or give "
                        "--replay to look at them")
    folder.mkdir(parents=True, exist_ok=True)
    with PageServer(shown := RunSource(folder, page), page.folder, PageAddress(port)) as server:
        live_server.store_page_address(folder, PageAddress(server.port, server.token))
        click.echo(f"the page: {server.address}")
        with shown, _run_process(plan, cell_request, folder) as run:
            is_shown_on = _until_over(run, folder, page) and _has_record(folder)
            if is_shown_on:
                click.echo(f"recorded in {folder}; the page stays until Ctrl-C")
                _until_interrupted()
        if not is_shown_on and _has_record(folder):
            click.echo(f"recorded in {folder}")
        return run.returncode or 0


def _has_record(folder: Path) -> bool:
    return any((folder / "records").glob("*.json"))


@contextlib.contextmanager
def _run_process(plan: Plan, run_request: RunRequest,
                 folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the run as a process with a session of its own, and end it with this context.

    The terminal's Ctrl-C therefore reaches only this process, which passes it on.
    """
    words = ["run", plan.study.id, "--clock", "real", "--repetitions", "1", "--out", str(folder)]
    for factor in plan.study.factors:
        for file in run_request.files.get(factor.name, ()):
            words += [factor.file_option, str(file)]
        if not run_request.files.get(factor.name):
            words += ["--only", f"{factor.name}={plan.cells[0].ids[factor.name]}"]
    for name, value in plan.asked.model_dump(mode="json").items():
        words += ["--set", f"{name}={value}"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", *words, "--builder", plan.settings.builder],
        stdin=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(studies.FOLDER.parent), "QOP_FLAGGED": "keep"})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait()


def _until_over(run: subprocess.Popen[bytes], folder: Path, page: LivePage) -> bool:
    """Wait until the run has ended, and return whether it ended without Ctrl-C.

    After a first Ctrl-C, the run gets the page's stop message and records its result. A second one
    ends the run at once.
    """
    try:
        run.wait()
    except KeyboardInterrupt:
        click.echo("ending the streams; what was measured is judged and recorded ...", err=True)
    else:
        return True
    recipients: list[str] = []
    with contextlib.suppress(UserError):
        recipients = control_socket.send_message(folder, None, page.stop)
    if recipients or any(event["event"] == "repetition-measured" for event in events.read_events(
            folder / events.FILE)):
        with contextlib.suppress(KeyboardInterrupt):
            run.wait()
    return False


def _serve_page(source: RunSource | RecordingSource, page: LivePage, at: PageAddress,
                folder: Path | None = None) -> int:
    """Show a running or recorded run on a page until Ctrl-C."""
    with PageServer(source, page.folder, at) as server, source:
        if folder is not None:
            live_server.store_page_address(folder, PageAddress(server.port, server.token))
        click.echo(f"the page: {server.address}")
        _until_interrupted()
    return 0


def _until_interrupted() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)
