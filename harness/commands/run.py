"""`qop run`: measure policies in scenarios, then print the table."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from harness import results, setup
from harness.campaign import Campaign
from harness.errors import UserError
from harness.machine import HostMachine, Machine
from harness.plan import Plan, Settings
from harness.progress import Progress
from harness.secrets import FAULTS
from harness.units import ByteSize
from policies import Policy, PolicyError, load, load_all
from topologies.loader import TopologyError, load_medium, load_scenario, medium_names, scenario_ids

RESULTS = Path("results")
DEFAULT_MEDIUM = "802.11b-short"


@click.command("run", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--scenarios", default="", metavar="LIST",
              help=f"Comma-separated names or .yml files; default: all of "
                   f"{', '.join(scenario_ids())}.")
@click.option("--policies", "chosen", default="", metavar="LIST",
              help="Comma-separated names out of P1 to P12; default: all.")
@click.option("--policy", "files", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
              help="A policy file of your own, measured beside P1; may be repeated.")
@click.option("--repetitions", default=3, show_default=True, type=click.IntRange(1, 999))
@click.option("--stream-bytes", default="1M", show_default=True, type=ByteSize(),
              help="Size of each TCP and UDP stream, such as 500k or 16M.")
@click.option("--udp-payload", default=1400, show_default=True, type=click.IntRange(64, 1472),
              help="Payload of a UDP datagram in bytes; 1400 fits every policy without fragments.")
@click.option("--medium", default=DEFAULT_MEDIUM, show_default=True,
              help=f"{', '.join(medium_names())}, a .yml file, or none.")
@click.option("--detection", type=click.Choice(["event", "advertisement"]), default="event",
              show_default=True, help="How a mobile node notices that it has moved: from its "
              "supplicant, or by the next agent advertisement.")
@click.option("--seed", default=1, show_default=True, help="Decides the order of repetitions.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Results folder; default: an unfinished one of the same plan, or a new one "
                   "in results/.")
@click.option("--fresh", is_flag=True, help="Begin a new results folder in any case.")
@click.option("--on", type=click.Choice(["guest", "host"]), default="guest", show_default=True,
              help="Embedded guests, or this Linux machine itself (root, mac80211_hwsim).")
@click.option("--fault", type=click.Choice(list(FAULTS)),
              help="Negative control: spoil one thing and see the cells fail for it.")
def command(scenarios: str, chosen: str, files: tuple[Path, ...], repetitions: int,
            stream_bytes: int, udp_payload: int, medium: str, detection: str, seed: int,
            out: Path | None, fresh: bool, on: str, fault: str | None) -> int:
    """Measure policies in scenarios, then print one table.

    Everything is checked before anything starts. Results are kept as they come; an interrupted run
    goes on where it ended when the same command is given again. Exit status: 0 if every repetition
    was measured and its policy proven in force, 1 if not, 2 for bad input.
    """
    try:
        plan = Plan(_policies(chosen, files),
                    [load_scenario(name) for name in _split(scenarios) or scenario_ids()],
                    None if medium == "none" else load_medium(medium),
                    Settings(repetitions, stream_bytes, stream_bytes, udp_payload, seed, fault, on,
                             detection))
    except (PolicyError, TopologyError) as error:
        raise UserError(str(error)) from None
    return measure(plan, results.choose(out, RESULTS, plan, fresh=fresh))


def measure(plan: Plan, folder: Path) -> int:
    """Measure what a plan lacks in a results folder and print its table; the exit status."""
    with results.ResultsFolder(folder) as kept:
        kept.adopt(plan)
        steps = kept.missing(plan)
        campaign = None
        if steps:
            # Asked for before anything starts, and long before it could interrupt a measurement.
            machine: Machine = HostMachine() if plan.settings.on == "host" else setup.embedded()
            with Progress(plan, folder, already=len(plan.steps()) - len(steps)) as progress:
                campaign = Campaign(plan, machine, kept, progress.record)
                asyncio.run(_interruptible(campaign, steps))
    _print_report(folder)
    return 1 if campaign is not None and campaign.failed else 0


async def _interruptible(campaign: Campaign, steps: list) -> None:  # type: ignore[type-arg]
    """Run to the end, or until SIGINT or SIGTERM, after which everything is tidied up first."""
    task = asyncio.ensure_future(campaign.run(steps))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


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
