"""Refuse settings and levels from the user that change nothing in the chosen cells."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from harness.errors import UserError
from studies.study import Asked, Cell, Study, StudyError
from topologies.errors import TopologyError

if TYPE_CHECKING:
    from harness.engine.plan import Plan


def refuse_idle_settings(plan: Plan, given_settings: Mapping[str, str], default_settings: Asked, *,
                         measures: bool = True) -> None:
    """Refuse settings that have no effect in any cell.

    A setting has an effect if it changes the testbed, or the task of the workload. Without
    `measures` (in a lab) only the testbed counts.

    Args:
        plan: The plan with these settings.
        given_settings: Settings by name, with the words of the command line or profile.
        default_settings: The settings without those.
        measures: Whether the workload will run.

    Raises:
        UserError: A setting changes nothing; the first one is named.
    """
    for name, words in given_settings.items():
        value = getattr(default_settings, name)
        if getattr(plan.asked, name) == value:
            continue  # the value equals the usual one
        other = plan.asked.model_copy(update={name: value})
        if not any(has_effect(plan.study, cell, name, plan.asked, other, measures=measures)
                   for cell in plan.cells):
            where = "the cells that were chosen" if measures else "a lab, which measures nothing"
            raise UserError(f"{words}: would change nothing in {where}; leave it out, or choose "
                            "other levels")


def has_effect(study: Study, cell: Cell, name: str, settings: Asked, other_settings: Asked, *,
               measures: bool = True) -> bool:
    """Return whether two values of a setting make a difference in a cell.

    Args:
        study: The study of the cell.
        cell: The cell to compare in.
        name: Name of the setting.
        settings: Settings with the first value.
        other_settings: Settings with the second value.
        measures: Whether the workload's task counts, too.
    """
    if name in study.unused_settings(cell, settings):
        return False
    built, task = study.testbed(cell, settings), study.task(cell, settings)
    try:
        return built != study.testbed(cell, other_settings) or (
            measures and task != study.task(cell, other_settings))
    except (StudyError, TopologyError):
        return True  # the cell cannot be measured without it


def refuse_idle_levels(plan: Plan, factor_names: Collection[str]) -> None:
    """Refuse levels that occur in no cell of the plan.

    A study may define its own cells, in which not every level is combined with all others.

    Args:
        plan: The plan.
        factor_names: Factors whose levels the user named.

    Raises:
        UserError: A level is in no cell.
    """
    for factor in factor_names:
        used = {cell.ids[factor] for cell in plan.cells}
        for level in plan.levels[factor]:
            if level.id not in used:
                raise UserError(f"{plan.study.id}, factor {factor}: level {level.id} is in no cell "
                                "with the other levels chosen; leave it out, or choose others")
