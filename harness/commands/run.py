"""`qop run`: measure a study, and print the results as a table.

A study says what is varied (such as policies and scenarios) and what is measured. The steps are:
parse the options, build the plan, measure its repetitions, print the results. `measure_plan`
measures all repetitions of a plan that the results folder lacks. They are measured on this machine,
or on a cluster (`--cluster`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

import studies
from guest.image import GuestImage
from guest.releases import DEFAULT, RELEASES
from harness import errors
from harness.cluster import dask_settings
from harness.commands import options
from harness.engine import cards as engine_cards
from harness.engine import (
    deciding,
    host_checks,
    profiles,
    progress,
    provenance,
    request,
    results,
    setup,
    stopping_rule,
    virtual,
)
from harness.engine import programs as own_programs
from harness.engine.campaign import Campaign
from harness.engine.events import EventLog
from harness.engine.plan import Plan, Step, list_used_daemons
from harness.engine.progress import ProgressDisplay
from harness.errors import UserError
from measure.records.manifest import RELEASE, Manifest
from measure.services.other_releases import DAEMONS, OPENSSL
from studies.release_factor import add_release_factor, has_release_factor
from studies.study import Study
from topologies.builders import MININET_WIFI

#: Creates a campaign, from the results folder, the event log and a function that returns further
#: steps.
CampaignFactory = Callable[[results.ResultsFolder, EventLog, Callable[[], Sequence[Step]]], Any]
#: Options that the command leaves out which measures further repetitions.
_ONCE = ("fresh", "dry_run", "repetitions", "until_ci", "until_decided", "max_repetitions",
         "most_repetitions", "table")
Rule = stopping_rule.StoppingRule | deciding.DecisionRule


def _run_study(study: str, *, until_decided: bool, until_ci: str | None,
               max_repetitions: int | None,
               most_repetitions: int | None, captures: str, out: Path | None, fresh: bool,
               dry_run: bool, cluster: str | None, table: str, **asked: Any) -> int:
    """Measure the cells of STUDY, then print the answer and one table.

    './qop studies' lists the studies. './qop run STUDY --help' shows all options of a study. The
    same command continues an interrupted run.

    Exit status: 0 if every repetition was measured and proven, 1 if not, 2 for bad input. A
    repetition is skipped without a failure if this machine lacks what it needs.
    """
    plan = _build_plan(study, out=out, is_elsewhere=cluster is not None, **asked)
    if plan.settings.cards and not dry_run:
        engine_cards.check_cards(plan)
    if cluster is not None:
        _check_cluster(cluster, plan.settings.on)
    rule: Rule | None = _stopping_rule(until_ci, max_repetitions, most_repetitions, plan,
                                       until_decided=until_decided)
    if fresh and out is not None:
        results.refuse_used_folder(out)
    folder = results.choose_results_folder(out, results.RESULTS, plan, fresh=fresh,
                                           until_decided=until_decided)
    if until_decided:
        rule = deciding.plan_rule(plan.study, folder, plan.settings.repetitions,
                                  max_repetitions or most_repetitions)
        plan = deciding.with_looks(plan, rule.looks)
    if out is None and not fresh and asked["clock"] is None and not folder.exists():
        results.print_other_clock_hint(results.RESULTS, plan)
    if dry_run:
        progress.print_preview(plan, folder, captures)
        return 0
    if cluster is None and not folder.exists():
        setup.check_plan_build(plan)  # before the folder is made
    begin = _cluster_campaign_factory(
        plan, cluster, captures) if cluster is not None else _local_campaign_factory(plan, folder)
    with engine_cards.tell_changed_rules() if plan.settings.cards else nullcontext():
        failed = measure_plan(plan, folder, begin, rule=rule, captures=captures)
    _print_report(folder, is_short=table == "short")
    return 1 if failed else 0


command = options.StudyCommand("run", _run_study, params=options.run_parameters,
                               named=options.find_study_argument,
                               naming="{}", has_short_help=True)


def _stopping_rule(until_ci: str | None, max_repetitions: int | None, most_repetitions: int | None,
                   plan: Plan, *, until_decided: bool = False) -> stopping_rule.StoppingRule | None:
    """Return the rule of --until-ci. Raises UserError for an invalid or useless rule."""
    if max_repetitions is not None and most_repetitions is not None:
        raise UserError("--most-repetitions: is the former name of --max-repetitions; "
                        "leave one out")
    most = max_repetitions or most_repetitions
    if until_ci is None:
        if most is not None and not until_decided:
            raise UserError(f"--max-repetitions {most}: is where --until-ci and --until-decided "
                            "give up; add one of them, or say --repetitions")
        return None
    if until_decided:
        raise UserError(f"--until-ci {until_ci}: --until-decided says when to stop, too; give one "
                        "of them")
    rule = stopping_rule.parse_stopping_rule(until_ci, most or stopping_rule.MAX_REPETITIONS,
                                             plan.study)
    if rule.max_repetitions <= plan.settings.repetitions:
        raise UserError(f"--until-ci {until_ci}: {plan.settings.repetitions} repetitions are "
                        f"planned, and it gives up after {rule.max_repetitions}; give more with "
                        "--max-repetitions, or fewer with --repetitions")
    return rule


def _build_plan(study: str, *, clock: str | None, seed: int, on: str, builder: str,
                out: Path | None, is_elsewhere: bool, release: str | None = None,
                fault: str | None = None, programs: Path | None = None,
                cards: Sequence[str] = (), daemons: Sequence[str] = (), **asked: Any) -> Plan:
    """Return the plan of the run. Raises UserError if an option is not valid."""
    cards_by_node = engine_cards.parse_cards(cards, on)
    if cards_by_node and options.MEDIUM in asked:
        asked[options.MEDIUM] = engine_cards.choose_medium(cards_by_node, asked[options.MEDIUM])
    _check_place(clock or "real", on)
    before = results.read_manifest(out) if out is not None else None
    daemon_releases = _parse_daemons(daemons, before, on, is_elsewhere=is_elsewhere)
    if programs and (is_elsewhere or on == "vm"):
        where = "--cluster" if is_elsewhere else "--on vm"
        raise UserError(f"--programs {programs}: guests and machines of {where} cannot see this "
                        f"folder; leave out {where}")
    chosen, release = _choose_releases(studies.load_study(study), release, out, before, asked)
    plan = request.build_plan(
        options.build_request(chosen, **asked),
        {"seed": seed, "fault": fault, "on": on, "release": release,
         "clock": clock or _clock_before(chosen, asked["profile"], on, out, before),
         "cards": cards_by_node, "daemons": daemon_releases})
    _check_place(plan.settings.clock, on, ", or add --clock real")
    _check_releases(plan, builder)
    _check_daemons(plan)
    if cards_by_node:
        engine_cards.check_plan(plan, builder)
    elif not plan.other_releases:
        plan = _change_settings(plan, builder=_choose_builder(builder, on, out,
                                                              is_elsewhere=is_elsewhere))
    if programs and plan.settings.daemons:
        raise UserError(f"--programs {programs}: does not go with --daemon; leave one out")
    if programs:
        plan = _change_settings(
            plan, programs_folder=str(programs), programs=own_programs.describe_programs(
                programs, partial(_ensure_plain_images, plan) if on == "guest" else None))
    if on == "vm":
        virtual.check_plan(plan)
    if on == "host" and host_checks.kernel_shows_keys() is False:
        virtual.refuse_unproven(plan, f"kernel {os.uname().release}")
    return plan


def _clock_before(study: Study, profile: str, on: str, out: Path | None,
                  before: Manifest | None) -> str | None:
    """Return the clock with which an earlier run measured in the results folder.

    The result is None without an earlier run, or if the profile names a clock.
    """
    if before is None or before.study.id != study.id or profiles.load_profile(study, profile).clock:
        return None
    clock: str | None = before.settings.get("clock")
    if clock != study.clock and on == "guest":
        click.echo(f"qop: {out}: goes on by the {clock} clock, as it was begun; the usual one of "
                   f"{study.id} is {study.clock}", err=True)
    return clock


def _check_place(clock: str, on: str, other_remedy: str = "") -> None:
    if clock != "real" and on != "guest":
        raise UserError(f"--clock {clock}: only embedded guests have it; leave out --on {on}"
                        f"{other_remedy}")


def _choose_builder(requested: str, on: str, out: Path | None, *, is_elsewhere: bool) -> str:
    """Return the network backend for the run.

    This is the requested one, else that of the folder's earlier run, else the best one here.
    """
    before = results.read_manifest(out) if out is not None else None
    if requested == setup.AUTO_BUILDER and before is not None:
        requested = before.settings.get("builder", setup.AUTO_BUILDER)
    # Other machines of a cluster must have the backend, which is checked there.
    if is_elsewhere and requested != setup.AUTO_BUILDER:
        return requested
    return setup.choose_builder(requested, on)


def _change_settings(plan: Plan, **changes: Any) -> Plan:
    """Return a plan with other settings of the run."""
    return replace(plan, settings=replace(plan.settings, **changes))


def _choose_releases(study: Study, requested: str | None, out: Path | None,
                     before: Manifest | None, options_given: dict[str, Any]) -> tuple[Study, str]:
    """Return the study to measure and the run's Debian release, from the user's list.

    With several releases, the study gets the factor "release", and `options_given` its levels.
    Without a list, the releases are those of the folder's earlier run, else the default one.

    Raises:
        UserError: This version does not know a release of the earlier run.
    """
    if has_release_factor(study):
        return study, DEFAULT.suite
    requested = _take_release_levels(requested, options_given)
    releases = requested.split(",") if requested else before.releases if before else (
        DEFAULT.suite,)
    unknown = [release for release in releases if release not in RELEASES]
    if unknown:
        raise UserError(f"{out}: was begun with the Debian release {unknown[0]}, and known are "
                        f"{', '.join(RELEASES)}; use the version that wrote it, or choose another "
                        "folder with --out")
    if len(releases) == 1:
        return study, releases[0]
    options_given[options.RELEASE_LEVELS] = ",".join(releases)
    return add_release_factor(study), DEFAULT.suite


def _parse_daemons(texts: Sequence[str], before: Manifest | None, on: str, *,
                   is_elsewhere: bool) -> dict[str, str]:
    """Return the release of each daemon of `--daemon`, or else of the folder's earlier run.

    Raises:
        UserError: A daemon or release is unknown, or guests of this machine are not used.
    """
    if not texts:
        return dict(before.settings.get("daemons", {})) if before else {}
    releases: dict[str, str] = {}
    for text in texts:
        name, _, suite = text.partition("=")
        daemon = name.removesuffix(OPENSSL)
        if daemon not in DAEMONS:
            raise UserError(f"--daemon {text}: no daemon {name!r} can be of another release; "
                            f"choose from {', '.join(DAEMONS)}, as in --daemon freeradius=trixie")
        if suite not in RELEASES:
            problem = f"{suite} is no Debian release" if suite else "names no Debian release"
            raise UserError(f"--daemon {text}: {problem}; choose from {', '.join(RELEASES)}, as "
                            f"in --daemon {name}=trixie")
        if daemon in {other.removesuffix(OPENSSL) for other in releases}:
            raise UserError(f"--daemon {text}: the release of {daemon} was given before; leave one "
                            "out")
        releases[name] = suite
    if on != "guest" or is_elsewhere:
        where = "--cluster" if is_elsewhere else f"--on {on}"
        raise UserError(f"--daemon {texts[0]}: only guests of this machine have daemons of several "
                        f"releases; leave out {where}")
    return releases


def _take_release_levels(requested: str | None, options_given: dict[str, Any]) -> str | None:
    """Return the releases of `--release`, or of `--only release=LIST`.

    The entry `release=LIST` is removed from the option `only` in `options_given`.

    Raises:
        UserError: Both options are given, or a release is unknown.
    """
    prefix = f"{RELEASE}="
    for text in [text for text in options_given["only"] if text.startswith(prefix)]:
        if requested:
            raise UserError(f"--only {text}: levels of {RELEASE} were given before; give one list")
        requested = options.parse_releases(text.removeprefix(prefix), f"--only {text}")
    options_given["only"] = tuple(text for text in options_given["only"]
                                  if not text.startswith(prefix))
    return requested


def _check_releases(plan: Plan, builder: str) -> None:
    """Refuse what only the default Debian release has, if a guest of the plan has another one.

    Raises:
        UserError: The run has no embedded guests, or a builder of the default release.
    """
    if not plan.other_releases:
        return
    order = list(RELEASES)
    newest = max(order.index(testbed.spec.release or DEFAULT.suite)
                 for testbed in plan.testbeds.values())
    for name, suite in plan.settings.daemons.items():
        if name.endswith(OPENSSL) and order.index(suite) <= newest:
            raise UserError(f"--daemon {name}={suite}: the guests have {order[newest]}, whose C "
                            "library is as new; choose a later release for OpenSSL")
    releases = sorted({testbed.spec.release for testbed in plan.testbeds.values()} - {""})
    option = f"--release {', '.join(releases)}" if releases else "--daemon " + " --daemon ".join(
        f"{name}={suite}" for name, suite in plan.settings.daemons.items())
    if plan.settings.on != "guest":
        raise UserError(f"{option}: only embedded guests have another release than "
                        f"{DEFAULT.suite}; leave out --on {plan.settings.on}")
    if builder == MININET_WIFI:
        raise UserError(f"{option}: Mininet-WiFi is built for {DEFAULT.suite} alone; leave out "
                        "--builder")


def _check_daemons(plan: Plan) -> None:
    """Refuse a daemon of another release that changes nothing in the run.

    Raises:
        UserError: No testbed of the plan starts such a daemon, or all guests have its release.
    """
    specs = [testbed.spec for testbed in plan.testbeds.values()]
    used = frozenset[str]().union(*map(list_used_daemons, specs))
    for name, suite in plan.settings.daemons.items():
        if all((spec.release or DEFAULT.suite) == suite for spec in specs):
            raise UserError(f"--daemon {name}={suite}: all guests have this release; leave it out")
        daemon = name.removesuffix(OPENSSL)
        if daemon not in used:
            raise UserError(f"--daemon {name}={suite}: nothing in this run uses {daemon}; leave it "
                            "out, or add a policy that does")


def _ensure_plain_images(plan: Plan) -> list[GuestImage]:
    """Return the guest image of each Debian release in a plan, built if it is missing."""
    suites = {testbed.spec.release or DEFAULT.suite for testbed in plan.testbeds.values()}
    return [setup.ensure_variant(setup.VARIANT_OF_BUILDER[plan.settings.builder],
                                 release=RELEASES[suite]) for suite in sorted(suites)]


def measure_plan(plan: Plan, folder: Path, begin: CampaignFactory, *, rule: Rule | None = None,
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
        with errors.report_disk_errors(folder):
            line = results_folder.adopt_plan(plan)
        if line:
            click.echo(f"qop: {line}", err=True)
        steps, flagged = results_folder.missing_steps(plan), results_folder.flagged_steps(plan)

        already = len(plan.all_steps()) - len(steps)

        def next_steps() -> list[Step]:
            further = rule.next_block(plan, results_folder.records) if rule else []
            tell_claims()
            return further

        def tell_claims() -> None:
            if isinstance(rule, deciding.DecisionRule) and rule.line:
                events.emit_event("claims-judged", open=rule.open_claims, line=rule.line)

        if rule and not (steps or flagged):
            steps = rule.next_block(plan, results_folder.records)
        if not (steps or flagged):
            if isinstance(rule, deciding.DecisionRule):
                click.echo(f"qop: {folder}: {rule.line}", err=True)
            return False
        progress = ProgressDisplay(plan, folder, _clock_caveat(plan))
        events = EventLog(folder, progress.show_event)
        campaign = begin(results_folder, events, next_steps)
        results_folder.drop_checksums()
        with progress:
            events.emit_event("run-started", study=plan.study.id, plan=plan.digest, already=already,
                              total=already + len(steps) + len(flagged))
            tell_claims()
            try:
                asyncio.run(_run_until_signal(campaign.run(steps, flagged),
                                              progress.update_until_cancelled()))
            except KeyboardInterrupt:
                click.echo(f"qop: {folder}/ keeps what is measured; the same command continues",
                           err=True)
                raise
            finally:
                events.emit_event("run-ended", failed=len(progress.state.failed))
        return bool(progress.state.failed)


def _clock_caveat(plan: Plan) -> str:
    from analysis.circumstances import clock_caveat

    return clock_caveat(plan.settings.clock)


def _local_campaign_factory(plan: Plan, folder: Path) -> CampaignFactory:
    """Return a function that measures repetitions on this machine."""
    def begin_campaign(results_folder: results.ResultsFolder, events: EventLog,
                       more: Callable[[], Sequence[Step]]) -> Campaign:
        if plan.settings.on == "vm" and (build := virtual.describe_build()):
            click.echo(f"qop: --on vm: {build}", err=True)
        machine = setup.make_machine_for_plan(plan)
        if isinstance(machine, virtual.VirtualMachine) and machine.is_emulated:
            expected_s = progress.estimate_emulated_s(
                plan, results_folder.missing_steps(plan), len(machine.processors))
            click.echo(f"qop: --on vm: expect {progress.format_duration(expected_s)}, and longer "
                       "beside other load", err=True)

        def add_provenance() -> None:
            with errors.report_disk_errors(folder):
                provenance.write_provenance(folder, plan, machine)

        return Campaign(plan, machine, results_folder, events, more, background_work=add_provenance)
    return begin_campaign


def _cluster_campaign_factory(plan: Plan, where: str, captures: str) -> CampaignFactory:
    """Return a function that measures repetitions on the workers of a cluster."""
    def begin_campaign(results_folder: results.ResultsFolder, events: EventLog,
                       more: Callable[[], Sequence[Step]]) -> Any:
        from harness.cluster.campaign import ClusterCampaign  # dask loads slowly

        return ClusterCampaign(plan, where, results_folder, events, more, captures=captures)
    return begin_campaign


def _check_cluster(where: str, on: str) -> None:
    """Raise UserError if the cluster cannot be used, before anything is written."""
    if on != "guest":
        raise UserError(f"--cluster: workers measure in embedded guests; leave out --on {on}")
    dask_settings.require_dask("--cluster")
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

    def cancel_task() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, cancel_task)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


def _print_report(folder: Path, *, is_short: bool) -> None:
    from harness.commands.report import print_run_table  # pandas loads slowly; load it when needed

    print_run_table(folder, is_short=is_short, command=options.repeat_command(
        click.get_current_context(), without=_ONCE))
