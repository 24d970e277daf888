"""`qop status`: show the progress of a run, read from its results folder.

The command prints how many repetitions (measurements) are done, failed and missing, and whether a
run is writing to the folder now. Of a running one it also prints the present state. It works from
any other terminal, because the run writes all events to the folder.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

import studies
from harness.engine import deciding, progress, results
from harness.engine.events import RunState
from harness.engine.progress import format_duration
from harness.portable import folder as portable_folder
from measure.records.document import to_printable
from measure.records.record import FLAGS
from studies import records as stored
from studies.study import StudyError


@click.command("status", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def command(folder: Path | None) -> None:
    """Show the progress of a run: FOLDER, or the newest in results/."""
    folder = folder or results.find_latest_folder(results.RESULTS)
    counts = _count_repetitions(folder)
    state = "running" if counts["running"] else "not running"
    reasons = "; ".join(f"{count} {FLAGS.get(flag, flag)}"
                        for flag, count in counts["flags"].items())
    click.echo(to_printable(
        f"{folder}: {state}; {counts['ok']} of {counts['total']} repetitions ok, "
        f"{len(counts['failed'])} failed, {counts['missing']} to measure, "
        f"{counts['flagged']} flagged{f' ({reasons})' if reasons else ''}"))
    if counts["programs"]:
        click.echo(to_printable(f"  programs of the user's own: {counts['programs']}"))
    run_state = RunState.from_folder(folder)
    if run_state is not None and counts["running"] and not run_state.ended:
        _show_live(folder, run_state)
    elif run_state is not None:
        _show_open(run_state, 0 if counts["running"] else counts["missing"])
    for record in counts["failed"]:
        click.echo(f"  {to_printable(f'{record.name}: {record.reason}')}")
    for complaint in counts["complaints"]:
        click.echo(f"  left out: {complaint}")


def _count_repetitions(folder: Path) -> dict[str, Any]:
    """Return the number of repetitions by state, and whether a run is writing to the folder.

    Repetitions beyond the plan are included: a stopping rule or an earlier, larger plan made them.
    """
    plan = results.require_manifest(folder)
    records, complaints = stored.read_all(folder / "records")
    good = sum(entry.status == "ok" for entry in records)
    failed = [entry for entry in records if entry.status != "ok"]
    flags = [entry.environment["flags"] for entry in records if entry.environment.get("flags")]
    missing = plan.planned - sum(map(plan.contains, records))
    return {"total": len(records) + missing, "ok": good, "flagged": len(flags), "failed": failed,
            "flags": Counter(flag for each in flags for flag in each),
            "complaints": complaints, "missing": missing, "programs": plan.own_programs,
            "running": portable_folder.is_folder_locked(folder)}


def _show_live(folder: Path, state: RunState) -> None:
    """Print the present state of a run."""
    now = time.time()
    left_s = state.left_s(now)
    left = f", about {format_duration(left_s)} left" if left_s is not None else ""
    click.echo(
        f"  {state.done} of {state.total} done in {format_duration(now - state.began)}{left}; "
        f"{len(state.testbeds)} testbeds, {len(state.running)} measuring side by side")
    for name, began in state.running.items():
        waited_for = progress.describe_wait(state, name, now)
        click.echo(to_printable(f"  running: {name}, {now - began:.0f} s"
                                + (f"; {waited_for}" if waited_for else "")))
    if state.open_claims:
        click.echo(to_printable(f"  open: {deciding.list_ids(state.open_claims)}"))
    if state.last:
        click.echo(f"  last: {to_printable(_last_line(folder, state))}")


def _show_open(state: RunState, missing: int) -> None:
    """Print what a stopping rule has left open in a run that has ended or was interrupted.

    Args:
        state: The state of the run.
        missing: Repetitions of the plan that are not measured yet.
    """
    added = state.total - state.done - missing
    if added > 0:
        click.echo(f"  interrupted: {added} more repetition{'s' * (added > 1)} requested by the "
                   "stopping rule; the same './qop run' continues")
    if state.open_claims:
        click.echo(to_printable(
            f"  open: {deciding.list_ids(state.open_claims)}; the same './qop run' with "
            "--until-decided measures more for those that further repetitions can decide"))


def _last_line(folder: Path, state: RunState) -> str:
    """Return the line about the last finished repetition, as the run itself printed it.

    The line is only the name if the study is not installed.
    """
    assert state.last is not None
    try:
        metrics = studies.load_study(results.require_manifest(folder).study.id).metrics
        return progress.format_repetition(state.last, metrics)
    except (StudyError, LookupError, TypeError):
        return str(state.last.get("name", ""))
