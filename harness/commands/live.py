"""Commands of live pages: `./qop PAGE` measures one cell, which a browser shows and steers.

The run is a separate process. It continues if the page or its server fails, and always ends with a
record.
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
from harness.commands import one_cell, options
from harness.engine import builders, control, events, request, results
from harness.engine.plan import Plan
from harness.engine.request import RunRequest
from harness.errors import UserError
from harness.live import door
from harness.live.door import Door
from harness.live.serving import PageServer
from harness.live.shown import ShownRecordings, ShownRun
from harness.portable import folder_lock
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
        raise UserError(f"studies/{study_id}/{name}: has a page.html, and its STUDY has no live "
                        "page of that folder; studies/study.py says what belongs there")

    def run(*, replay: Path | None, attach: Path | None, port: int, **asked: Any) -> int:
        if replay is not None and attach is not None:
            raise UserError("--attach: is for a run that lasts, --replay for one that is over; "
                            "give one of them")
        if replay is not None:
            _check_folder(replay, study, "--replay")
            _refuse_of_runs("--replay")
            return _serve_page(ShownRecordings(replay, page), page, Door(port))
        if attach is not None:
            _check_folder(attach, study, "--attach")
            _refuse_of_runs("--attach")
            if not folder_lock.is_taken(attach):
                raise UserError(f"--attach {attach}: no run writes there; give --replay to look at "
                                "what it holds")
            return _serve_page(ShownRun(attach, page), page, door.find_access(attach, port), attach)
        return _measure_cell(study, page, port, **asked)

    return click.Command(
        name, callback=run, help=f"{page.help}\n\nThe page is for this machine's browsers alone, "
        "at an address that nobody can guess. Closing it changes nothing; Ctrl-C ends the "
        "streams, and what was measured is recorded.", params=_page_params(study, page),
        context_settings={"help_option_names": ["-h", "--help"]})


def _refuse_of_runs(shown_by: str) -> None:
    """Raise UserError for options of a new run, where an existing run is shown."""
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
        *one_cell.level_options(study, page.levels), *options.setting_options(study),
        click.Option(["--replay"], metavar="FOLDER", type=folder,
                     help="Show what a results folder holds, of whatever clock."),
        click.Option(["--attach"], metavar="FOLDER", type=folder,
                     help="Look on at the run that writes to a results folder."),
        click.Option(["--out"], type=folder, help="Results folder; default: a new one in "
                     "results/."),
        click.Option(["--port"], type=click.IntRange(0, 65535), default=0,
                     help="Of the page on 127.0.0.1; default: any that is free."),
        click.Option(["--builder"], type=click.Choice(builders.CHOICES), default=builders.AUTO,
                     envvar="QOP_BUILDER", show_default=True,
                     help="Who makes nodes and radios; auto: the first that works.")]


def _check_folder(folder: Path, study: Study, option: str) -> None:
    """Raise UserError for a folder whose results belong to another study."""
    manifest = results.require_manifest(folder)
    if manifest.study.id != study.id:
        raise UserError(f"{option} {folder}: holds results of {manifest.study.id}; give one of "
                        f"{study.id}")


# --- a new run -----------------------------------------------------------------------------------

def _measure_cell(study: Study, page: LivePage, port: int, *, out: Path | None, builder: str,
                  **own: Any) -> int:
    """Measure one cell and show it on a page, until both have ended."""
    asked = one_cell.build_request(study, own, page.sets)
    plan = request.build_plan(asked, {"clock": "real",
                                      "builder": builders.choose_builder(builder, "guest")})
    folder = out or results.RESULTS / f"{time.strftime('%Y-%m-%d_%H%M%S')}_{page.folder.name}"
    if (folder / "plan.json").exists():
        raise UserError(f"--out {folder}: holds results already; choose another folder, or give "
                        "--replay to look at them")
    folder.mkdir(parents=True, exist_ok=True)
    with PageServer(shown := ShownRun(folder, page), page.folder, Door(port)) as server:
        door.store_access(folder, Door(server.port, server.token))
        click.echo(f"the page: {server.address}")
        with shown, _run_process(plan, asked, folder) as run:
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
    """Start the run in a session of its own, and end it with this context.

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
    """Wait until the run has ended, and return whether it ended by itself.

    Ctrl-C ends the streams, and a second Ctrl-C ends the run.
    """
    try:
        run.wait()
    except KeyboardInterrupt:
        click.echo("ending the streams; what was measured is judged and recorded ...", err=True)
    else:
        return True
    told: list[str] = []
    with contextlib.suppress(UserError):
        told = control.send_message(folder, None, page.stop)
    if told or any(event["event"] == "repetition-measured" for event in events.read_events(
            folder / events.FILE)):
        with contextlib.suppress(KeyboardInterrupt):
            run.wait()
    return False


def _serve_page(source: ShownRun | ShownRecordings, page: LivePage, at: Door,
                folder: Path | None = None) -> int:
    """Show a run or recordings until Ctrl-C."""
    with PageServer(source, page.folder, at) as server, source:
        if folder is not None:
            door.store_access(folder, Door(server.port, server.token))
        click.echo(f"the page: {server.address}")
        _until_interrupted()
    return 0


def _until_interrupted() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)
