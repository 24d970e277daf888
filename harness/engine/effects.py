"""Refuse settings and levels that a user gives and that change nothing in the cells chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from harness.errors import UserError
from studies.study import Asked, Cell, Study, StudyError
from topologies.errors import TopologyError

if TYPE_CHECKING:
    from harness.engine.plan import Plan


def refuse_idle_settings(made: Plan, given: Mapping[str, str], usual: Asked, *,
                         measures: bool = True) -> None:
    """Refuse settings that have no effect in any cell.

    A setting has an effect where it changes what is built, or what the workload is told; without
    `measures` (in a lab) it is what is built alone.

    Args:
        made: The plan with these settings.
        given: Settings by name, with the words that the user gave them by.
        usual: The settings without those.
        measures: Whether anything is measured in what is built.

    Raises:
        UserError: With the first setting that changes nothing.
    """
    for name, words in given.items():
        value = getattr(usual, name)
        if getattr(made.asked, name) == value:
            continue  # it says what holds anyway
        other = made.asked.model_copy(update={name: value})
        if not any(has_effect(made.study, cell, name, made.asked, other, measures=measures)
                   for cell in made.cells):
            where = "the cells that were chosen" if measures else "a lab, which measures nothing"
            raise UserError(f"{words}: would change nothing in {where}; leave it out, or choose "
                            "other levels")


def has_effect(study: Study, cell: Cell, name: str, asked: Asked, other: Asked, *,
               measures: bool = True) -> bool:
    """Return whether a setting of two values makes a difference to a cell."""
    if name in study.unused(cell, asked):
        return False
    built, task = study.testbed(cell, asked), study.task(cell, asked)
    try:
        return built != study.testbed(cell, other) or (measures and task != study.task(cell, other))
    except (StudyError, TopologyError):
        return True  # the cell cannot be measured without it


def refuse_idle_levels(made: Plan, named: Collection[str]) -> None:
    """Refuse levels of the factors that a user names levels of, where no cell has them.

    A study's design has cells of its own: not every level goes with all others. Raises UserError.
    """
    for factor in named:
        used = {cell.ids[factor] for cell in made.cells}
        for level in made.levels[factor]:
            if level.id not in used:
                raise UserError(f"{made.study.id}, factor {factor}: level {level.id} is in no cell "
                                "with the other levels chosen; leave it out, or choose others")
