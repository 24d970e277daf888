"""Where a worker keeps what it has finished of a share, until its run has it: a results folder.

Dask keeps what a task returns, and loses it with the worker. `SPOOL/RUN/WORKER` outlasts it: where
nobody holds the lock of one, its worker was killed or has sent all of it, and the next worker of
this machine that measures for the same run takes over what it needs of it.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from guest.cache import cache_root
from harness.cluster.shares import Share
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from harness.portable import folder_lock
from measure.record import Record
from studies import records as stored

#: What no run has asked for since is removed after this long.
_FORGOTTEN_S = 86_400.0


def _root() -> Path:
    return cache_root() / "cluster" / "spool"


def place(run: str, worker: str) -> Path:
    """The results folder of a worker."""
    return _root() / run / worker


def left(run: str) -> Iterator[tuple[Path, str]]:
    """What workers of this machine have finished that measure no more: a folder, a step's name."""
    for folder in _idle(_root() / run):
        for path in sorted((folder / "records").glob("*.json")):
            yield folder, path.stem


def take_over(run: str, results: ResultsFolder, share: Share) -> Iterator[Record]:
    """Move what is left of a share's steps to its worker's folder, and what of it there is."""
    awaited = share.awaited
    for folder, name in left(run):
        if name in awaited:
            try:
                with folder_lock.held(folder, exclusive=True):
                    yield _moved(folder, results, name)
            except (UserError, OSError):
                continue  # another worker was faster
            del awaited[name]


def _moved(folder: Path, results: ResultsFolder, name: str) -> Record:
    """The record last: without it nothing has been moved."""
    for part in (f"captures/{name}", f"files/{name}", f"events/{name}.jsonl",
                 f"records/{name}.json"):
        if (folder / part).exists():
            (results.path / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / part).rename(results.path / part)
    return stored.read(results.records / f"{name}.json")


def forget(run: str, worker: str) -> None:
    """Remove what a worker has finished: its run has it, or wants it no more."""
    shutil.rmtree(place(run, worker), ignore_errors=True)


def forget_run(run: str, _: str = "") -> None:
    """Remove what workers of this machine have finished for a run, and what nobody will ask for."""
    for there in _root().glob("*"):
        with contextlib.suppress(OSError):  # another worker was faster, or something is in it
            is_old = there.stat().st_mtime < time.time() - _FORGOTTEN_S
            for folder in _idle(there) if is_old or there.name == run else []:
                shutil.rmtree(folder, ignore_errors=True)
            there.rmdir()


def _idle(run: Path) -> list[Path]:
    return [folder for folder in sorted(run.glob("*")) if not folder_lock.is_taken(folder)]
