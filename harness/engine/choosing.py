"""Choose the results folder that a run continues, or create a new one."""

from __future__ import annotations

import time
from pathlib import Path

import click

from harness.engine.plan import Plan
from harness.engine.results import ResultsFolder, folders_newest_first
from harness.errors import UserError
from harness.portable.reading import readable_manifest


def choose_folder(out: Path | None, root: Path, plan: Plan, *, fresh: bool) -> Path:
    """Return the results folder for a plan.

    The requested folder comes first. The second choice is the newest folder of the same plan, if it
    is unfinished. The last choice is a new folder.

    Args:
        out: The requested folder, if there is one.
        root: Folder that contains results folders.
        plan: The plan of the run.
        fresh: Never continue an earlier folder.
    """
    if out is not None:
        return out
    if not fresh:
        for folder in folders_newest_first(root):
            before = readable_manifest(folder)
            if before is not None and before.is_compatible_with(plan.manifest):
                there = ResultsFolder(folder)
                if there.missing_steps(plan) or there.flagged_steps(plan):
                    return folder
                break
    return root / f"{time.strftime('%Y-%m-%d_%H%M%S')}_{_folder_stem(plan)}"


def tell_of_another_clock(root: Path, plan: Plan) -> None:
    """Print a hint if the newest folder holds the same cells unfinished, by another clock."""
    folder = next(iter(folders_newest_first(root)), None)
    before = readable_manifest(folder) if folder else None
    if folder is None or before is None or before.study.id != plan.study.id:
        return
    clock = before.settings.get("clock")
    if clock != plan.settings.clock and before.cells == plan.manifest.cells \
            and sum(1 for _ in (folder / "records").glob("*.json")) < before.planned:
        click.echo(f"qop: {folder}: has the same cells by the {clock} clock, unfinished; "
                   f"'--out {folder}' goes on with it", err=True)


def _folder_stem(plan: Plan) -> str:
    """Return the levels of the last factor as part of a folder's name.

    If they exceed 60 characters, the study's name is used.
    """
    levels = "-".join(level.id for level in list(plan.levels.values())[-1])
    return levels if len(levels) <= 60 else plan.study.id


def refuse_used(folder: Path) -> None:
    """Raise UserError if a folder for a new run already holds records."""
    if any((folder / "records").glob("*.json")):
        raise UserError(f"{folder}: holds records already, which --fresh would mix with new ones; "
                        "choose another folder with --out, or leave out --fresh to go on")
