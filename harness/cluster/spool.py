"""Where a worker keeps what it has finished of a share, until its run has it: a results folder.

Dask keeps what a task returns, and loses it with the worker. `SPOOL/RUN/WORKER` outlasts it: where
nobody holds the lock of one, its worker was killed or has sent all of it, and the next worker of
this machine that measures for the same run sends what it needs of it.
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

#: What no run has asked for since is removed after this long.
_FORGOTTEN_S = 86_400.0


def place(run: str, worker: str = "") -> Path:
    """The results folder of a worker; without one, where a run's are."""
    return cache_root() / "cluster" / "spool" / run / worker


@contextlib.contextmanager
def opened(run: str, worker: str, captures: str) -> Iterator[ResultsFolder]:
    """Open a worker's results folder for writing while this lasts.

    Raises:
        UserError: the folder cannot be made, or another process writes there.
    """
    with contextlib.ExitStack() as stack:
        with _changing():
            results = stack.enter_context(ResultsFolder(place(run, worker), captures))
        yield results


def left(run: str) -> Iterator[tuple[ResultsFolder, str]]:
    """What workers of this machine have finished that measure no more: the names of steps."""
    for folder in map(ResultsFolder, _idle(place(run))):
        for path in sorted(folder.records.glob("*.json")):
            yield folder, path.stem


def forget(run: str, worker: str) -> None:
    """Remove what a worker has finished: its run has it, or wants it no more."""
    with _changing():
        shutil.rmtree(place(run, worker), ignore_errors=True)
        with contextlib.suppress(OSError):  # nothing was there, or another worker's is
            place(run).rmdir()


def forget_run(run: str, _: str = "") -> None:
    """Remove what workers of this machine have finished for a run, and what nobody will ask for."""
    for there in place("").glob("*"):
        # Something may be in it, which is in use.
        with _changing(), contextlib.suppress(OSError):
            is_old = there.stat().st_mtime < time.time() - _FORGOTTEN_S
            for folder in _idle(there) if is_old or there.name == run else []:
                shutil.rmtree(folder, ignore_errors=True)
            there.rmdir()


@contextlib.contextmanager
def _changing() -> Iterator[None]:
    """Keep other workers of this machine from making or removing folders while this lasts.

    Making a folder takes several steps: its parents, itself, its lock. Without this lock another
    worker removed the parent, or the folder that was not locked yet, between two of them.
    """
    lock = cache_root() / "cluster" / "spool.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _idle(run: Path) -> list[Path]:
    return [folder for folder in sorted(run.glob("*")) if not folder_lock.is_taken(folder)]
