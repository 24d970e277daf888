"""What a run would measure: cells, order, expected time and disk, without starting anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from harness import estimate
from harness.plan import Plan, Step
from harness.progress import lasting
from harness.results import ResultsFolder

#: Repetitions that a processor measures side by side, and what starting up takes, as a rule.
_SIDE_BY_SIDE, _START_S = 2.5, 20.0
#: Virtual time: processor seconds for a repetition, and for each megabyte on the air.
_VIRTUAL_S, _VIRTUAL_S_PER_MB = 1.2, 0.09


def show(plan: Plan, folder: Path, captures: str) -> None:
    """Print the plan as it would be measured into `folder`."""
    steps = ResultsFolder(folder).missing(plan)
    processors = len(os.sched_getaffinity(0))
    settings = plan.settings
    click.echo(f"{len(plan.policies)} policies x {len(plan.scenarios)} scenarios x "
               f"{settings.repetitions} repetitions of {settings.tcp_bytes / 1e6:g} MB (TCP) and "
               f"{settings.udp_bytes / 1e6:g} MB (UDP); clock {settings.clock}, "
               f"builder {settings.builder}, medium {plan.medium.name if plan.medium else 'none'}, "
               f"seed {settings.seed}")
    click.echo(f"Results: {folder}/, {len(steps)} of {len(plan.steps())} repetitions to measure")
    _show_order(steps)
    if not steps:
        return
    click.echo(f"Expected time: {lasting(expected_s(plan, steps, processors))} on {processors} "
               f"processors ({lasting(_air_s(plan, steps))} of air)")
    kept = 0.0 if captures != "all" else sum(
        estimate.kept_bytes(step.cell.scenario, settings.tcp_bytes, settings.udp_bytes)
        for step in steps)
    free = shutil.disk_usage(next(p for p in (folder, *folder.parents, Path()) if p.exists())).free
    click.echo(f"Expected disk: {kept / 1e6:,.0f} MB of captures ({free / 1e6:,.0f} MB free)")


def expected_s(plan: Plan, steps: Sequence[Step], processors: int) -> float:
    """About how long `steps` take in all, in seconds."""
    if plan.settings.clock == "virtual":
        size_mb = (plan.settings.tcp_bytes + plan.settings.udp_bytes) / 1e6
        work_s = sum(_VIRTUAL_S + _VIRTUAL_S_PER_MB * size_mb
                     * estimate.crossings(step.cell.scenario) for step in steps)
        return _START_S + work_s / processors
    at_once = min(len(plan.policies) * len(plan.sites), _SIDE_BY_SIDE * processors)
    return _START_S + _air_s(plan, steps) / at_once


def _air_s(plan: Plan, steps: Sequence[Step]) -> float:
    return sum(plan.expected_s(step.cell) for step in steps)


def _show_order(steps: Sequence[Step]) -> None:
    """The steps by block and scenario, in the order in which they are started."""
    heading = None
    names: list[str] = []
    for step in [*steps, None]:
        here = (step.repetition, step.cell.scenario.id) if step else None
        if here != heading and heading:
            click.echo(f"  block {heading[0]}, {heading[1]}: {' '.join(names)}")
            names = []
        heading = here
        if step:
            names.append(step.cell.policy.id)
