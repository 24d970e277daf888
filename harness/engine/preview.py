"""Print what a run would measure, without starting the run.

The output has the cells, their order, and the expected time and disk space.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from harness.engine.plan import Plan, Step
from harness.engine.progress import duration_text
from harness.engine.results import ResultsFolder

#: Usual number of repetitions that a processor measures in parallel, and start-up time in seconds.
_SIDE_BY_SIDE, _START_S = 2.5, 20.0


def print_preview(plan: Plan, folder: Path, captures: str) -> None:
    """Print the plan as it would be measured into `folder`. Raises UserError as a run would."""
    results = ResultsFolder(folder)
    results.refuse_another(plan)
    steps = results.missing_steps(plan)
    processors = len(os.sched_getaffinity(0))
    settings = plan.settings
    asked = ", ".join(f"{name} {value}" for name, value in plan.asked.to_stored_settings().items())
    click.echo(f"{plan.shape} of {plan.study.id}; {asked + '; ' if asked else ''}"
               f"clock {settings.clock}, builder {settings.builder}, seed {settings.seed}")
    click.echo(
        f"Results: {folder}/, {len(steps)} of {len(plan.all_steps())} repetitions to measure")
    for note in plan.study.notes(plan.cells, plan.asked):
        click.echo(note)
    _show_order(steps)
    if not steps:
        return
    click.echo(
        f"Expected time: {duration_text(expected_s(plan, steps, processors))} on {processors} "
               f"processors ({duration_text(_START_S + _alone_s(plan, steps))} one after the "
               "other)")
    kept_bytes = 0.0 if captures != "all" else sum(
        plan.expected_cost(step.cell).capture_bytes for step in steps)
    free = shutil.disk_usage(next(p for p in (folder, *folder.parents, Path()) if p.exists())).free
    click.echo(f"Expected disk: {kept_bytes / 1e6:,.0f} MB of captures ({free / 1e6:,.0f} MB free)")


def expected_s(plan: Plan, steps: Sequence[Step], processors: int) -> float:
    """Return the expected duration of all `steps` in seconds."""
    at_once = min(len(plan.testbeds),
                  _SIDE_BY_SIDE * processors) if plan.settings.is_real_time else \
        processors
    return _START_S + _alone_s(plan, steps) / at_once


def _alone_s(plan: Plan, steps: Sequence[Step]) -> float:
    """Return the expected seconds of all steps one after the other.

    Where waiting is skipped, only the computing time counts.
    """
    expected = [plan.expected_cost(step.cell) for step in steps]
    return sum(each.duration_s if plan.settings.is_real_time else each.processor_s for each
               in expected)


def _show_order(steps: Sequence[Step]) -> None:
    """Print the steps by block in their order of start.

    Each combination of the later factors' levels has a line.
    """
    heading = None
    names: list[str] = []
    for step in [*steps, None]:
        ids = list(step.cell.ids.values()) if step else []
        here = (step.repetition, "-".join(ids[1:])) if step else None
        if here != heading and heading:
            click.echo(f"  block {heading[0]}{', ' + heading[1] if heading[1] else ''}: "
                       f"{' '.join(names)}")
            names = []
        heading = here
        if ids:
            names.append(ids[0])
