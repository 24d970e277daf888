"""Low-priority processes that dissect and judge captures while other repetitions are measured."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

_PR_SET_PDEATHSIG = 1
_NICE = 15
_Result = TypeVar("_Result")


class DissectorLost(Exception):
    """A dissecting process was killed, and killed again in the second attempt."""


class Dissectors:
    """A pool of dissecting processes, which end with this process in any case.

    The processes start with the first task. Call `run_task` from the main thread: the kernel ends
    the processes when the thread that started them ends. Python's process pool is unusable once one
    of its processes has died (killed, or out of memory). The whole pool is then replaced, and its
    tasks are repeated once.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = _make_pool(count)
        self._again = asyncio.Lock()

    async def run_task(self, task: Callable[[], _Result]) -> _Result:
        """Return the result of `task`, or raise its exception.

        Raises:
            DissectorLost: The processes for this task were killed twice.
        """
        pool = self._pool
        with contextlib.suppress(BrokenProcessPool):
            return await _await_result(pool, task)
        if self._pool is pool:  # the first caller that notices
            self._pool = _make_pool(self._count)
            pool.shutdown(wait=False)
        # Repeat tasks one at a time: only a task that kills its own process again is given up.
        async with self._again:
            with contextlib.suppress(BrokenProcessPool), _single_pool() as alone:
                return await _await_result(alone, task)
        raise DissectorLost("the process that dissects was killed, and killed again when it was "
                            "tried once more; is memory short?")

    def close(self) -> None:
        """End the processes. Tasks that have not started are dropped."""
        self._pool.shutdown(cancel_futures=True)


async def _await_result(pool: ProcessPoolExecutor, task: Callable[[], _Result]) -> _Result:
    """Return the result of `task` from a process of the pool.

    The caller may be cancelled, but the pool's future is not. For a cancelled future, Python's pool
    prints a traceback when one of its processes dies.
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
    os.nice(_NICE)
    # The run handles Ctrl-C. SIGINT was blocked until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
