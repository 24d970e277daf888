"""`qop lab`: a running testbed with a shell on any of its nodes."""

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
from harness.commands import one_cell, options
from harness.engine import builders, request, setup
from harness.engine.machine import EmbeddedMachine
from harness.engine.plan import Plan
from harness.engine.testbed import TestbedClient, TestbedFailed, TestbedLost
from harness.errors import UserError
from studies.study import Study


def _lab_options(study: Study) -> list[click.Parameter]:
    """Return the options of the command for a study.

    These are a level of each factor, the study's settings and the lab's own options.
    """
    return [
        *one_cell.level_options(study, study.lab.levels), *options.setting_options(study),
        click.Option(["--study"], default=study.id, show_default=True,
                     help=f"One of {', '.join(studies.study_names())}."),
        click.Option(["--node"], default="", help="Where to go; default: the first node, or the "
                     "one that the study names."),
        click.Option(["--on"], type=click.Choice(["guest", "host"]), default="guest",
                     show_default=True),
        click.Option(["--builder"], type=click.Choice(builders.CHOICES), default=builders.AUTO,
                     envvar="QOP_BUILDER", show_default=True,
                     help="Who makes nodes and radios; auto: the first that works."),
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
    builder = builders.choose_builder(builder, on)
    plan = request.build_plan(replace(one_cell.build_request(chosen, own), measures=False),
                              {"on": on, "builder": builder, "clock": "real"})
    network = plan.testbeds[plan.testbed_of(plan.cells[0])].spec.network
    node = node or chosen.lab.node(plan.cells[0]) or next(iter(network.nodes))
    if node not in network.nodes:
        raise UserError(f"--node {node}: no such node; choose from {', '.join(network.nodes)}")
    machine = setup.machine_for_plan(plan)
    with tempfile.TemporaryDirectory(prefix="qop-lab-") as work:
        [planned] = plan.testbeds.values()
        testbed = TestbedClient(machine, machine.processors[-1], planned, plan, Path(work))
        try:
            return asyncio.run(_open_shell(testbed, plan, node, argv))
        except (TestbedLost, TestbedFailed) as error:
            raise UserError(f"{plan.cells[0].name}: {error}", status=1) from None


def _find_study_option(args: Sequence[str]) -> str:
    """Return the study of the option `--study`, before the command for the node begins."""
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
        made = secrets.make_secrets()
        await testbed.open(made, render.Renderer(made, testbed.work))
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

    Every key then reaches the guest, whose own terminal line edits the input.
    """
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
