"""`qop lab`: start an emulated network, and open a shell on any of its nodes.

Options choose the policy (the protection of the network), the scenario and the node. With a command
as argument, this command runs on the node, and its output is printed. Nothing is measured, and the
network ends with the shell.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import studies
from harness import render, secrets
from harness.commands import options
from harness.engine import request, setup
from harness.engine.machine import EmbeddedMachine
from harness.engine.plan import Plan
from harness.engine.testbed import TestbedClient, TestbedFailed, TestbedLost
from harness.errors import UserError
from studies.study import Study


def _lab_options(study: Study) -> list[click.Parameter]:
    """Return the options of `qop lab` for a study.

    These are a value for each factor (such as the policy), the study's settings and the lab's own
    options.
    """
    return [
        *options.level_options(study, study.lab.levels), *options.setting_options(study),
        click.Option(["--study"], default=study.id,
                     help=f"Start the testbed of this study: {', '.join(studies.study_names())} "
                     f"(default: {study.id})."),
        click.Option(["--node"], default="", help="Open the shell on this node (default: the "
                     "one that the study names, else the first)."),
        click.Option(["--on"], type=click.Choice(["guest", "host"]), default="guest",
                     help="Start in an embedded guest, or on this machine as root "
                     "(default: guest)."),
        click.Option(["--builder"], type=click.Choice(setup.BUILDER_CHOICES),
                     default=setup.AUTO_BUILDER,
                     envvar="QOP_BUILDER",
                     help=options.BUILDER_HELP),
        click.Argument(["argv"], nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]..."),
    ]


def _open_lab(study: str, *, node: str, on: str, builder: str, argv: tuple[str, ...],
              **own: Any) -> int:
    """Start a testbed, connect its user and open a shell on a node.

    In the shell, the name of every node is a command. Alone it opens a shell on that node; 'NAME ip
    route' runs one command there. With COMMAND, the lab runs that command instead of a shell, and
    prints its output. Options of the lab itself must precede COMMAND.
    """
    chosen = studies.load_study(study)
    builder = setup.choose_builder(builder, on)
    plan = request.build_plan(replace(options.build_cell_request(chosen, own), measures=False),
                              {"on": on, "builder": builder, "clock": "real"})
    network = plan.testbeds[plan.testbed_of(plan.cells[0])].spec.network
    node = node or chosen.lab.node(plan.cells[0]) or next(iter(network.nodes))
    if node not in network.nodes:
        raise UserError(f"--node {node}: no such node; choose from {', '.join(network.nodes)}")
    machine = setup.make_machine_for_plan(plan)
    with tempfile.TemporaryDirectory(prefix="qop-lab-") as work:
        [planned] = plan.testbeds.values()
        testbed = TestbedClient(machine, machine.processors[-1], planned, plan, Path(work))
        try:
            return asyncio.run(_open_shell(testbed, plan, node, argv))
        except (TestbedLost, TestbedFailed) as error:
            raise UserError(f"{plan.cells[0].name}: {error}", status=1) from None


def _find_study_option(args: Sequence[str]) -> str:
    """Return the value of the option `--study`, which must precede the command for the node."""
    rest = iter(args)
    for text in rest:
        option, equals, value = text.partition("=")
        if not option.startswith("--") or option == "--":
            break
        if not equals and option != "--help":  # all other options have a value
            value = next(rest, "")
        if option == "--study":
            return value
    return ""


command = options.StudyCommand("lab", _open_lab, params=_lab_options, named=_find_study_option,
                               allow_interspersed_args=False)


async def _open_shell(testbed: TestbedClient, plan: Plan, node: str, argv: tuple[str, ...]) -> int:
    interactive = not argv
    if interactive and not sys.stdin.isatty():
        raise UserError("lab: standard input is not a terminal; give a COMMAND to run on the node")
    if interactive and isinstance(testbed.machine, EmbeddedMachine):
        # Copies of the descriptors, because 0 and 1 of the guest's process carry the worker's
        # messages.
        testbed.machine.terminal = (os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno()))
    study, cell = plan.study, plan.cells[0]
    try:
        click.echo(f"starting {cell.name} ...", err=True)
        run_secrets = secrets.make_secrets()
        await testbed.open(run_secrets, render.Renderer(run_secrets, testbed.work))
        if study.lab.call:
            await testbed.call_command(study.lab.call, study.task(cell, plan.asked))
        if not interactive:
            ended = await testbed.run_shell(node=node, argv=list(argv))
            click.echo(ended["output"], nl=False)
            return int(ended["status"])
        nodes = ", ".join(testbed.spec.network.nodes)
        click.echo(f"on {node}; go to another node by its name ({nodes}); leave with 'exit'",
                   err=True)
        inside = os.ttyname(sys.stdin.fileno()) if not isinstance(
            testbed.machine, EmbeddedMachine) else "/dev/ttyS2"
        with _raw_terminal(sys.stdin.fileno()):
            await testbed.run_shell(node=node, argv=["bash", "--norc", "-i"], terminal=inside,
                                    term=os.environ.get("TERM", "vt100"))
        return 0
    finally:
        await testbed.close()


@contextmanager
def _raw_terminal(descriptor: int) -> Iterator[None]:
    """Set the terminal to raw mode in this context.

    Every key then reaches the guest, whose own terminal handles line editing.
    """
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
