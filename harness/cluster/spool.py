"""Where a worker keeps what it has finished until its run has it: a results folder a share.

`SPOOL/RUN/SERIAL`. One that no worker holds the lock of was left by a worker that was killed; the
next worker of this machine that measures for the same run takes over what it needs of it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from guest.cache import cache_root
from harness.engine.plan import Step
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from harness.portable import folder_lock
from measure.record import Record
from studies import records as stored

#: What no run has asked for since is removed after this long.
_FORGOTTEN_S = 86_400.0


def _root() -> Path:
    return cache_root() / "cluster" / "spool"


def place(run: str, serial: str) -> Path:
    """The results folder of a share."""
    return _root() / run / serial


def left(run: str) -> Iterator[tuple[Path, str]]:
    """What killed workers of this machine had finished: a results folder and a step's name."""
    for folder in sorted((_root() / run).glob("*")):
        if not folder_lock.is_taken(folder):
            for path in sorted((folder / "records").glob("*.json")):
                yield folder, path.stem


def take_over(run: str, results: ResultsFolder, steps: Sequence[Step]) -> list[Record]:
    """Move what is left of these steps to a share's own folder, and what of it there is."""
    names = {step.name for step in steps}
    taken = {}
    for folder, name in left(run):
        if name in names and name not in taken:
            try:
                with folder_lock.held(folder, exclusive=True):
                    taken[name] = _move(folder, results, name)
            except (UserError, OSError):
                continue  # another worker was faster
    return list(taken.values())


def _move(folder: Path, results: ResultsFolder, name: str) -> Record:
    """The record last: without it nothing has been moved."""
    for part in (f"captures/{name}", f"files/{name}", f"events/{name}.jsonl",
                 f"records/{name}.json"):
        if (folder / part).exists():
            (results.path / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / part).rename(results.path / part)
    return stored.read(results.records / f"{name}.json")


def forget(run: str, serial: str) -> None:
    """Remove what was finished of a share: its run has it, or wants it no more."""
    shutil.rmtree(place(run, serial), ignore_errors=True)


def forget_run(run: str) -> None:
    """Remove what killed workers left of a run that has all that it wanted."""
    for folder in {folder for folder, _ in left(run)}:
        shutil.rmtree(folder, ignore_errors=True)
    remove_old()


def remove_old() -> None:
    """Remove what no run will ask for any more."""
    for run in _root().glob("*"):
        if not any(run.iterdir()) or (run.stat().st_mtime < time.time() - _FORGOTTEN_S
                                      and not any(map(folder_lock.is_taken, run.iterdir()))):
            shutil.rmtree(run, ignore_errors=True)
