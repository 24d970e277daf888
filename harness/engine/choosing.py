"""Which results folder a run goes on with, or begins."""

from __future__ import annotations

import time
from pathlib import Path

from harness.engine.plan import Plan
from harness.engine.results import ResultsFolder, newest_first
from harness.errors import UserError
from harness.portable.reading import readable_manifest


def choose(out: Path | None, root: Path, plan: Plan, *, fresh: bool) -> Path:
    """The results folder for a plan: the one asked for, an unfinished one of this plan, or a new.

    `root` is where folders are made when none is asked for.
    """
    if out is not None:
        return out
    if not fresh:
        for folder in newest_first(root):
            before = readable_manifest(folder)
            if before is not None and before.measures_as(plan.manifest):
                there = ResultsFolder(folder)
                if there.missing(plan) or there.flagged(plan):
                    return folder
                break
    return root / f"{time.strftime('%Y-%m-%d_%H%M%S')}_{_stem(plan)}"


def _stem(plan: Plan) -> str:
    """The levels of the last factor, unless that would be long; then the study."""
    levels = "-".join(level.id for level in list(plan.levels.values())[-1])
    return levels if len(levels) <= 60 else plan.study.id


def refuse_used(folder: Path) -> None:
    """Raise UserError if a folder that is to be begun afresh holds records."""
    if any((folder / "records").glob("*.json")):
        raise UserError(f"{folder}: holds records already, which --fresh would mix with new ones; "
                        "choose another folder with --out, or leave out --fresh to go on")
