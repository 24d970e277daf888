"""Dissect and compress the captures of measured repetitions in low-priority processes.

A `DissectorPool` does this for one repetition (measurement) while the next one is measured. Its
processes dissect with tshark, run the study's checks, and compress. `pack_files` compresses the
files of a repetition. It returns checksums of the files as the checks read them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gzip
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from harness.portable.checksums import hash_file
from studies.study import RAW_FILE

# --- Compression of the files of a repetition ---

SUFFIX = ".gz"
#: The raw values that a judge gets together with the captures, as they are kept with each record.
PACKED_RAW = f"{RAW_FILE}{SUFFIX}"
_GZIP_LEVEL = 1


def pack_files(folder: Path, captures: Iterable[str], files: Iterable[str], *,
               keeps_captures: bool) -> dict[str, str]:
    """Compress the raw values and captures of a repetition, and return checksums.

    Args:
        folder: Folder of the repetition.
        captures: Names of the capture files.
        files: Names of further files to keep, which are not compressed.
        keeps_captures: Whether captures are kept.

    Returns:
        The SHA-256 of every uncompressed file by name, as the judge read them.

    Raises:
        OSError: A file cannot be read or written.
    """
    for name in [RAW_FILE, *(captures if keeps_captures else ())]:
        with (folder / name).open("rb") as source, \
                (folder / f"{name}{SUFFIX}").open("wb") as packed, \
                gzip.GzipFile("", "wb", compresslevel=_GZIP_LEVEL, fileobj=packed, mtime=0) as sink:
            shutil.copyfileobj(source, sink)
    return {name: hash_file(folder / name) for name in (RAW_FILE, *captures, *files)}


# --- Pool of dissecting processes ---

_PR_SET_PDEATHSIG = 1
_DISSECTOR_NICE = 15
_Result = TypeVar("_Result")


class DissectorLost(Exception):
    """An error: the process that dissected a repetition was killed in both of its attempts."""


class DissectorPool:
    """A pool of processes that dissect captures.

    The processes start with the first task, and end with this process even if it is killed. Call
    `run_task` from the main thread: the kernel ends the processes when the thread that started them
    ends. Python's process pool is unusable once one of its processes has died (killed, or out of
    memory). The whole pool is then replaced, and its tasks are retried once.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = _make_pool(count)
        self._retry_lock = asyncio.Lock()

    async def run_task(self, task: Callable[[], _Result]) -> _Result:
        """Run `task` in a process of the pool, and return its result or raise its exception.

        Raises:
            DissectorLost: The processes for this task were killed twice.
        """
        pool = self._pool
        with contextlib.suppress(BrokenProcessPool):
            return await _await_result(pool, task)
        if self._pool is pool:  # the first caller that notices
            self._pool = _make_pool(self._count)
            pool.shutdown(wait=False)
        return await self._retry_task(task)

    async def _retry_task(self, task: Callable[[], _Result]) -> _Result:
        # Retry tasks one at a time: only a task that kills its own process again is given up.
        async with self._retry_lock:
            with contextlib.suppress(BrokenProcessPool), _single_pool() as alone:
                return await _await_result(alone, task)
        raise DissectorLost("the process that dissects was killed, and killed again when it was "
                            "tried once more; is memory short?")

    def close(self) -> None:
        """End the processes. Tasks that have not started are dropped."""
        self._pool.shutdown(cancel_futures=True)


async def _await_result(pool: ProcessPoolExecutor, task: Callable[[], _Result]) -> _Result:
    """Run `task` in a process of the pool, wait for it, and return its result.

    If the caller is cancelled, the task itself is not. For a cancelled task, Python's pool prints a
    traceback when one of its processes dies.
    """
    with _block_sigint():
        future = pool.submit(task)
    result = asyncio.wrap_future(future)
    # A task that is no longer awaited may still fail, for example on a full disk; retrieve the
    # exception, so that no traceback is printed.
    result.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return await asyncio.shield(result)


@contextlib.contextmanager
def _block_sigint() -> Iterator[None]:
    """Block SIGINT for processes that start here, until `_initialize_process` unblocks it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _single_pool() -> Iterator[ProcessPoolExecutor]:
    pool = _make_pool(1)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _make_pool(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _initialize_process,
                               (os.getpid(),))


def _initialize_process(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the death signal was set
        os._exit(1)
    # Use nice and not SCHED_IDLE: on a machine with other load the work would never finish.
    os.nice(_DISSECTOR_NICE)
    # The run handles Ctrl-C. SIGINT was blocked until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
