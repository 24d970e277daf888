"""`qop lab`: a testbed that stays up, with a shell on any of its nodes."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from harness import builders, render, secrets, setup
from harness.errors import UserError
from harness.machine import EmbeddedMachine, HostMachine, Machine
from harness.plan import Cell, Plan, Settings
from harness.testbed import Testbed, TestbedFailed, TestbedLost
from policies import Policy, PolicyError, load, load_all
from topologies.loader import TopologyError, load_medium, load_scenario


@click.command("lab", context_settings={"help_option_names": ["-h", "--help"],
                                        "ignore_unknown_options": True})
@click.option("--policy", "name", default="P8", show_default=True, help="P1 to P12, or a file.")
@click.option("--scenario", default="N2", show_default=True)
@click.option("--medium", default="802.11b-short", show_default=True, help="A medium, or none.")
@click.option("--node", default="", help="Where to go; default: the mobile node.")
@click.option("--on", type=click.Choice(["guest", "host"]), default="guest", show_default=True)
@click.option("--builder", type=click.Choice(builders.CHOICES), default=builders.AUTO,
              envvar="QOP_BUILDER", show_default=True,
              help="Who makes nodes and radios; auto: the first that works.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
def command(name: str, scenario: str, medium: str, node: str, on: str, builder: str,
            argv: tuple[str, ...]) -> int:
    """Bring a testbed up under a policy, connect the mobile node, and open a shell on a node.

    In the shell every node's name is a command: 'ha-a' goes to the home agent, 'ha-a ip route' runs
    one command there. With COMMAND, run that instead of a shell and print its output.
    """
    try:
        cell = Cell(_policy(name), load_scenario(scenario))
        air = None if medium == "none" else load_medium(medium)
    except (PolicyError, TopologyError) as error:
        raise UserError(str(error)) from None
    node = node or cell.scenario.mobile_node
    if node not in cell.scenario.network.nodes:
        raise UserError(f"--node {node}: no such node; choose from "
                        f"{', '.join(cell.scenario.network.nodes)}")
    builder = builders.resolve(builder, on)
    machine: Machine = HostMachine() if on == "host" else setup.embedded(builder)
    with tempfile.TemporaryDirectory(prefix="qop-lab-") as work:
        plan = Plan([cell.policy], [cell.scenario], air, Settings(on=on, builder=builder))
        testbed = Testbed(machine, machine.processors[-1], cell.policy, plan.sites[0], air,
                          plan.settings, Path(work))
        try:
            return asyncio.run(_visit(testbed, cell, node, argv))
        except (TestbedLost, TestbedFailed) as error:
            raise UserError(f"{cell.name}: {error}", status=1) from None


async def _visit(testbed: Testbed, cell: Cell, node: str, argv: tuple[str, ...]) -> int:
    interactive = not argv
    if interactive and not sys.stdin.isatty():
        raise UserError("lab: standard input is no terminal; give a COMMAND to run on the node")
    if interactive and isinstance(testbed.machine, EmbeddedMachine):
        # Copies, because in the guest's process 0 and 1 carry the worker's lines.
        testbed.machine.terminal = (os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno()))
    try:
        click.echo(f"starting {cell.name} ...", err=True)
        made = secrets.make()
        await testbed.open(made, render.Renderer(made, testbed.work))
        await testbed.connect(cell.scenario)
        if not interactive:
            ended = await testbed.shell(node=node, argv=list(argv))
            click.echo(ended["output"], nl=False)
            return int(ended["status"])
        nodes = ", ".join(cell.scenario.network.nodes)
        click.echo(f"on {node}; go to another node by its name ({nodes}); leave with 'exit'",
                   err=True)
        inside = os.ttyname(sys.stdin.fileno()) if not isinstance(
            testbed.machine, EmbeddedMachine) else "/dev/ttyS2"
        with _raw(sys.stdin.fileno()):
            await testbed.shell(node=node, argv=["bash", "--norc", "-i"], terminal=inside,
                                term=os.environ.get("TERM", "vt100"))
        return 0
    finally:
        await testbed.close()


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Hand every key to the guest, whose own terminal line does the editing; then restore."""
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _policy(name: str) -> Policy:
    found = {policy.id: policy for policy in load_all()}
    return found[name] if name in found else load(name)
