"""Results folders of workers, which keep finished steps until the run has them.

Dask stores what a task returns, but loses it with the worker. `SPOOL/RUN/WORKER` remains. If no
process holds the lock of such a folder, its worker was killed or has sent everything. The next
worker on this machine that measures for the same run sends what is needed of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from guest.cache import cache_root
from harness.engine.results import ResultsFolder
from harness.portable import folder_lock

#: Age in seconds after which folders that no run has used are removed.
_FORGOTTEN_S = 86_400.0


def spool_path(run: str, worker: str = "") -> Path:
    """Return the results folder of a worker, or the parent folder of a run without `worker`."""
    return cache_root() / "cluster" / "spool" / run / worker


@contextlib.contextmanager
def open_spool(run: str, worker: str, captures: str) -> Iterator[ResultsFolder]:
    """Open a worker's results folder for writing inside the context.

    Raises:
        UserError: The folder cannot be created, or another process writes there.
    """
    with contextlib.ExitStack() as stack:
        with _lock_spool():
            results = stack.enter_context(ResultsFolder(spool_path(run, worker), captures))
        yield results


def find_leftovers(run: str) -> Iterator[tuple[ResultsFolder, str]]:
    """Yield folder and name of each finished step of ended workers on this machine."""
    for folder in map(ResultsFolder, _idle_folders(spool_path(run))):
        for path in sorted(folder.records.glob("*.json")):
            yield folder, path.stem


def remove_spool(run: str, worker: str) -> None:
    """Remove a worker's folder: its run has the results, or does not want them."""
    with _lock_spool():
        shutil.rmtree(spool_path(run, worker), ignore_errors=True)
        with contextlib.suppress(OSError):  # the folder did not exist, or another worker uses it
            spool_path(run).rmdir()


def forget_run(run: str, _: str = "") -> None:
    """Remove a run's folders of ended workers, and all folders that are too old."""
    for there in spool_path("").glob("*"):
        # The folder may contain one that is in use.
        with _lock_spool(), contextlib.suppress(OSError):
            is_old = there.stat().st_mtime < time.time() - _FORGOTTEN_S
            for folder in _idle_folders(there) if is_old or there.name == run else []:
                shutil.rmtree(folder, ignore_errors=True)
            there.rmdir()


@contextlib.contextmanager
def _lock_spool() -> Iterator[None]:
    """Keep other workers of this machine from creating or removing folders inside the context.

    Creating a folder takes several steps: its parents, itself, its lock. Without this lock another
    worker removed the parent, or the folder that was not locked yet, between two of them.
    """
    lock = cache_root() / "cluster" / "spool.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _idle_folders(run: Path) -> list[Path]:
    return [folder for folder in sorted(run.glob("*")) if not folder_lock.is_taken(folder)]
