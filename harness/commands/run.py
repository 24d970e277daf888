"""`qop run`: measure policies in scenarios, then print the table."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import click

from harness import builders, preview, profiles, provenance, results, room, setup, stopping
from harness.campaign import Campaign
from harness.cluster import extra
from harness.errors import UserError
from harness.machine import HostMachine, Machine
from harness.plan import Plan, Settings, Step, read_description
from harness.progress import Progress
from harness.results import CAPTURES
from harness.secrets import FAULTS
from harness.units import ByteSize
from policies import Policy, PolicyError, load, load_all
from topologies.loader import TopologyError, load_medium, load_scenario, medium_names, scenario_ids

#: Makes what measures, of plan, results, progress and the asking for more.
Begin = Callable[[Plan, results.ResultsFolder, Progress, Callable[[], Sequence[Step]]], Any]
RESULTS = Path("results")
DEFAULT_MEDIUM = "802.11b-short"


@click.command("run", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--profile", default=profiles.DEFAULT, show_default=True, metavar="NAME",
              help=f"How much to measure: {', '.join(profiles.names())}, or a .yml file.")
@click.option("--scenarios", default="", metavar="LIST",
              help=f"Comma-separated names or .yml files; default: all of "
                   f"{', '.join(scenario_ids())}.")
@click.option("--policies", "chosen", default="", metavar="LIST",
              help="Comma-separated names out of P1 to P12; default: all.")
@click.option("--policy", "files", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
              help="A policy file of your own, measured beside P1; may be repeated.")
@click.option("--repetitions", type=click.IntRange(1, 999), help="Of every cell; default: the "
              "profile's.")
@click.option("--stream-bytes", type=ByteSize(),
              help="Size of each TCP and UDP stream, such as 500k or 16M; default: the profile's.")
@click.option("--until-ci", metavar="WIDTH", help="Go on until the 95 % intervals of goodput are "
              "within this of their means, such as 2%; or tcp:2%,udp:1%,auth:10%.")
@click.option("--most-repetitions", default=30, show_default=True, type=click.IntRange(2, 999),
              help="Where --until-ci gives up on a cell.")
@click.option("--udp-payload", default=1400, show_default=True, type=click.IntRange(64, 1472),
              help="Payload of a UDP datagram in bytes; 1400 fits every policy without fragments.")
@click.option("--medium", default=DEFAULT_MEDIUM, show_default=True,
              help=f"{', '.join(medium_names())}, a .yml file, or none.")
@click.option("--detection", type=click.Choice(["event", "advertisement"]), default="event",
              show_default=True, help="How a mobile node notices that it has moved: from its "
              "supplicant, or by the next agent advertisement.")
@click.option("--clock", type=click.Choice(["real", "virtual"]), default="real", show_default=True,
              help="Virtual time skips what waits: the air costs none, but neither does computing.")
@click.option("--seed", default=1, show_default=True, help="Decides the order of repetitions.")
@click.option("--captures", type=click.Choice(CAPTURES), default="all", show_default=True,
              help="Which repetitions' captures to keep.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Results folder; default: an unfinished one of the same plan, or a new one "
                   "in results/.")
@click.option("--fresh", is_flag=True, help="Begin a new results folder in any case.")
@click.option("--dry-run", is_flag=True, help="Print cells, order, expected time and disk; "
              "measure nothing.")
@click.option("--on", type=click.Choice(["guest", "host"]), default="guest", show_default=True,
              help="Embedded guests, or this Linux machine itself (root, mac80211_hwsim).")
@click.option("--builder", type=click.Choice(builders.CHOICES), default=builders.AUTO,
              envvar="QOP_BUILDER", show_default=True,
              help="Who makes nodes and radios; auto: the first that works.")
@click.option("--cluster", metavar="WHERE", help="Measure on other machines: a scheduler's "
              "tcp://HOST:PORT whose workers './qop worker' started, or ssh:HOST1,HOST2.")
@click.option("--fault", type=click.Choice(list(FAULTS)),
              help="Negative control: spoil one thing and see the cells fail for it.")
def command(until_ci: str | None, most_repetitions: int, captures: str, out: Path | None, *,
            fresh: bool, dry_run: bool, cluster: str | None, **options: Any) -> int:
    """Measure policies in scenarios, then print one table.

    Everything is checked before anything starts. Results are kept as they come; an interrupted run
    goes on where it ended when the same command is given again. Exit status: 0 if every repetition
    was measured and its policy proven in force, 1 if not, 2 for bad input.
    """
    plan = _plan(out=out, cluster=cluster, **options)
    if cluster:
        _check_cluster(cluster, plan.settings.on)
    rule = stopping.parse(until_ci, most_repetitions) if until_ci else None
    if fresh and out is not None:
        results.refuse_used(out)
    folder = results.choose(out, RESULTS, plan, fresh=fresh)
    if dry_run:
        preview.show(plan, folder, captures)
        return 0
    return measure(plan, folder, rule, captures, cluster)


def _plan(*, profile: str, scenarios: str, chosen: str, files: tuple[Path, ...],
          repetitions: int | None, stream_bytes: int | None, udp_payload: int, medium: str,
          detection: str, clock: str, seed: int, on: str, fault: str | None, builder: str,
          out: Path | None, cluster: str | None) -> Plan:
    if clock == "virtual" and on == "host":
        raise UserError("--clock virtual: only embedded guests have it; leave out --on host")
    much = profiles.load(profile)
    size = stream_bytes or much.stream_bytes
    try:
        return Plan(_policies(chosen, files),
                    [load_scenario(name) for name in _split(scenarios) or scenario_ids()],
                    None if medium == "none" else load_medium(medium),
                    Settings(repetitions or much.repetitions, size, size, udp_payload, seed, fault,
                             on, detection, clock, much.warm_up,
                             _builder(builder, on, out, elsewhere=cluster is not None)))
    except (PolicyError, TopologyError) as error:
        raise UserError(str(error)) from None


def _builder(asked: str, on: str, out: Path | None, *, elsewhere: bool) -> str:
    """The plan's builder: as asked, else as the results folder was begun, else the best here."""
    kept = read_description(out) if out is not None else None
    if asked == builders.AUTO and kept is not None:
        asked = kept["settings"].get("builder", builders.AUTO)
    # On other machines it is they who must have it, which is checked there.
    if elsewhere and asked != builders.AUTO:
        return asked
    return builders.resolve(asked, on)


def measure(plan: Plan, folder: Path, rule: stopping.Rule | None = None,
            captures: str = "all", cluster: str | None = None) -> int:
    """Measure what a plan lacks in a results folder and print its table; the exit status."""
    with results.ResultsFolder(folder, captures) as kept:
        with room.told(folder):
            kept.adopt(plan)
        steps, again = kept.missing(plan), kept.flagged(plan)

        def more() -> list[Step]:
            return rule.next_block(plan, kept.records) if rule else []

        campaign = None
        if steps or again or more():
            begin = _on_cluster(cluster, captures) if cluster else _here(plan, folder)
            with Progress(plan, folder, already=len(plan.steps()) - len(steps)) as progress:
                campaign = begin(plan, kept, progress, more)
                asyncio.run(_interruptible(campaign.run(steps, again), progress.live(campaign)))
    _print_report(folder)
    return 1 if campaign is not None and campaign.failed else 0


def _here(plan: Plan, folder: Path) -> Begin:
    """Measure on this machine, which is asked for before anything starts."""
    machine: Machine = HostMachine() if plan.settings.on == "host" \
        else setup.embedded(plan.settings.builder)
    with room.told(folder):
        provenance.write(folder, plan, machine)
    return lambda plan, kept, progress, more: Campaign(plan, machine, kept, progress.record, more)


def _on_cluster(where: str, captures: str) -> Begin:
    from harness.cluster.campaign import ClusterCampaign  # dask takes its time

    return lambda plan, kept, progress, more: ClusterCampaign(
        plan, where, kept, progress.record, more, progress.say, captures)


def _check_cluster(where: str, on: str) -> None:
    """Raise UserError for what is wrong before anything is written."""
    if on == "host":
        raise UserError("--cluster: workers measure in embedded guests; leave out --on host")
    extra.require("--cluster")
    from harness.cluster import connection

    connection.check(where)


async def _interruptible(work: Coroutine[Any, Any, None],
                         beside: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or until SIGINT or SIGTERM, after which everything is tidied up first."""
    task, other = asyncio.ensure_future(work), asyncio.ensure_future(beside)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


def _print_report(folder: Path) -> None:
    from harness.commands.report import show  # pandas takes its time; not before it is needed

    show(folder)


def _policies(chosen: str, files: tuple[Path, ...]) -> list[Policy]:
    """The twelve, a choice of them, or the user's own beside the baseline they are compared to."""
    twelve = {policy.id: policy for policy in load_all()}
    names = _split(chosen)
    for name in names:
        if name not in twelve:
            raise UserError(f"--policies {name}: no such policy; choose from "
                            f"{', '.join(twelve)}, or give a file with --policy")
    own = [load(path) for path in files]
    if not names and not own:
        return list(twelve.values())
    found = [twelve[name] for name in names] or [twelve["P1"]]
    for policy in own:
        if policy.id in {other.id for other in found}:
            raise UserError(f"policy {policy.id} is there twice; give your file an id of its own")
        found.append(policy)
    return found


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
