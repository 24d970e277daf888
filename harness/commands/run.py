"""`qop run`: the flow of a run, from the command line to its table."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import click

import studies
from harness.cluster import extra
from harness.commands import options
from harness.engine import (
    builders,
    choosing,
    disk_full,
    preview,
    profiles,
    provenance,
    request,
    results,
    setup,
    stopping,
)
from harness.engine.campaign import Campaign
from harness.engine.events import EventLog
from harness.engine.plan import Plan, Step
from harness.engine.progress import Progress
from harness.errors import UserError
from studies.study import Study

#: Creates a campaign, from the results folder, the event log and a function that returns further
#: steps.
Begin = Callable[[results.ResultsFolder, EventLog, Callable[[], Sequence[Step]]], Any]


def _run_study(study: str, *, until_ci: str | None, max_repetitions: int | None,
               most_repetitions: int | None, captures: str, out: Path | None, fresh: bool,
               dry_run: bool, cluster: str | None, **asked: Any) -> int:
    """Measure the cells of STUDY, then print one table.

    './qop studies' lists the studies. Options that only this study has come first.

    Everything is checked before anything starts. Results are written as they are measured. If an
    interrupted run is started again with the same command, it continues where it stopped.

    Exit status: 0 if every repetition was measured and proven, 1 if not, 2 for bad input. A
    repetition that is skipped, because this machine lacks what it needs, does not count as a
    failure.
    """
    plan = _build_plan(study, out=out, is_elsewhere=cluster is not None, **asked)
    if cluster:
        _check_cluster(cluster, plan.settings.on)
    rule = _stopping_rule(until_ci, max_repetitions, most_repetitions, plan)
    if fresh and out is not None:
        choosing.refuse_used(out)
    folder = choosing.choose_folder(out, results.RESULTS, plan, fresh=fresh)
    if out is None and not fresh and asked["clock"] is None and not folder.exists():
        choosing.tell_of_another_clock(results.RESULTS, plan)
    if dry_run:
        preview.print_preview(plan, folder, captures)
        return 0
    begin = _cluster_campaign_factory(
        plan, cluster, captures) if cluster else _local_campaign_factory(plan, folder)
    failed = measure_plan(plan, folder, begin, rule=rule, captures=captures)
    _print_report(folder)
    return 1 if failed else 0


command = options.StudyCommand("run", _run_study, params=options.run_parameters,
                               named=options.find_study_argument,
                               naming="{}")


def _stopping_rule(until_ci: str | None, max_repetitions: int | None, most_repetitions: int | None,
                   plan: Plan) -> stopping.Rule | None:
    """Return the stopping rule. Raises UserError for an invalid rule, or one without effect."""
    if max_repetitions is not None and most_repetitions is not None:
        raise UserError("--most-repetitions: is the former name of --max-repetitions; "
                        "leave one out")
    most = max_repetitions or most_repetitions
    if until_ci is None:
        if most is not None:
            raise UserError(f"--max-repetitions {most}: is where --until-ci gives up; add "
                            "--until-ci, or say --repetitions")
        return None
    rule = stopping.parse_rule(until_ci, most or stopping.MAX_REPETITIONS, plan.study)
    if rule.max_repetitions <= plan.settings.repetitions:
        raise UserError(f"--until-ci {until_ci}: {plan.settings.repetitions} repetitions are "
                        f"planned, and it gives up after {rule.max_repetitions}; give more with "
                        "--max-repetitions, or fewer with --repetitions")
    return rule


def _build_plan(study: str, *, clock: str | None, seed: int, on: str, builder: str,
                out: Path | None,
                is_elsewhere: bool, fault: str | None = None, **asked: Any) -> Plan:
    """Return the plan. Raises UserError if the request is not valid."""
    _check_place(clock or "real", on)
    chosen = studies.load_study(study)
    made = request.build_plan(
        options.build_request(chosen, **asked),
        {"seed": seed, "fault": fault, "on": on,
         "clock": clock or _clock_before(chosen, asked["profile"], on, out),
         "builder": _choose_builder(builder, on, out, is_elsewhere=is_elsewhere)})
    _check_place(made.settings.clock, on)
    return made


def _clock_before(study: Study, profile: str, on: str, out: Path | None) -> str | None:
    """Return the clock of the results folder's earlier run.

    The result is None without an earlier run, or if the profile names a clock.
    """
    before = results.read_manifest(out) if out is not None else None
    if before is None or before.study.id != study.id or profiles.load_profile(study, profile).clock:
        return None
    clock: str | None = before.settings.get("clock")
    if clock != study.clock and on == "guest":
        click.echo(f"qop: {out}: goes on by the {clock} clock, as it was begun; the usual one of "
                   f"{study.id} is {study.clock}", err=True)
    return clock


def _check_place(clock: str, on: str) -> None:
    if clock != "real" and on == "host":
        raise UserError(f"--clock {clock}: only embedded guests have it; leave out --on host")


def _choose_builder(requested: str, on: str, out: Path | None, *, is_elsewhere: bool) -> str:
    """Return the network backend of the plan.

    This is the requested one, else that of the folder's earlier run, else the best one here.
    """
    before = results.read_manifest(out) if out is not None else None
    if requested == builders.AUTO and before is not None:
        requested = before.settings.get("builder", builders.AUTO)
    # Other machines of a cluster must have the backend, which is checked there.
    if is_elsewhere and requested != builders.AUTO:
        return requested
    return builders.choose_builder(requested, on)


def measure_plan(plan: Plan, folder: Path, begin: Begin, *, rule: stopping.Rule | None = None,
                 captures: str = "all") -> bool:
    """Measure the missing repetitions of a plan, and return whether one has failed.

    Args:
        plan: The plan.
        folder: The results folder.
        begin: Creates the campaign that measures.
        rule: A stopping rule, which adds repetitions.
        captures: Whose captures to keep: a value of results.CAPTURES.

    Raises:
        UserError: The folder cannot be used, or the machine cannot measure the plan.
    """
    with results.ResultsFolder(folder, captures) as results_folder:
        with disk_full.report_errors(folder):
            line = results_folder.adopt_plan(plan)
        if line:
            click.echo(f"qop: {line}", err=True)
        steps, again = results_folder.missing_steps(plan), results_folder.flagged_steps(plan)

        def more() -> list[Step]:
            return rule.next_block(plan, results_folder.records) if rule else []

        if not (steps or again or more()):
            return False
        already = len(plan.all_steps()) - len(steps)
        progress = Progress(plan, folder, _clock_caveat(plan))
        events = EventLog(folder, progress.show_event)
        campaign = begin(results_folder, events, more)
        results_folder.drop_checksums()
        with progress:
            events.emit_event("run-started", study=plan.study.id, plan=plan.digest, already=already,
                              total=already + len(steps) + len(again))
            try:
                asyncio.run(_run_until_signal(campaign.run(steps, again),
                                              progress.update_until_cancelled()))
            finally:
                events.emit_event("run-ended", failed=len(progress.state.failed))
        return bool(progress.state.failed)


def _clock_caveat(plan: Plan) -> str:
    from analysis.clock import clock_caveat

    return clock_caveat(plan.settings.clock)


def _local_campaign_factory(plan: Plan, folder: Path) -> Begin:
    """Return a function that creates a campaign on this machine."""
    def begin(results_folder: results.ResultsFolder, events: EventLog,
              more: Callable[[], Sequence[Step]]) -> Campaign:
        machine = setup.machine_for_plan(plan)

        def describe() -> None:
            with disk_full.report_errors(folder):
                provenance.write_provenance(folder, plan, machine)

        return Campaign(plan, machine, results_folder, events, more, beside=describe)
    return begin


def _cluster_campaign_factory(plan: Plan, where: str, captures: str) -> Begin:
    """Return a function that creates a campaign on the workers of a cluster."""
    def begin(results_folder: results.ResultsFolder, events: EventLog,
              more: Callable[[], Sequence[Step]]) -> Any:
        from harness.cluster.campaign import ClusterCampaign  # dask loads slowly

        return ClusterCampaign(plan, where, results_folder, events, more, captures=captures)
    return begin


def _check_cluster(where: str, on: str) -> None:
    """Raise UserError if the cluster cannot be used, before anything is written."""
    if on == "host":
        raise UserError("--cluster: workers measure in embedded guests; leave out --on host")
    extra.require_dask("--cluster")
    from harness.cluster import connection

    connection.check_cluster_name(where)


async def _run_until_signal(work: Coroutine[Any, Any, None],
                            background: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, or cancel it at a signal.

    The signals are SIGINT, SIGTERM and SIGHUP. The cancelled coroutine tidies up before this one
    ends. A second signal is ignored: it would leave guests behind when the event loop ends.

    Args:
        work: The coroutine to run.
        background: A second coroutine for the same time, which is cancelled when `work` ends.
    """
    task, other = asyncio.ensure_future(work), asyncio.ensure_future(background)
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


def _print_report(folder: Path) -> None:
    from harness.commands.report import print_run_table  # pandas loads slowly; load it when needed

    print_run_table(folder)
