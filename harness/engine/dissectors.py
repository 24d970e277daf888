"""Processes that dissect and judge captures beside what is being measured, and give way to it."""

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
    """A process that dissected was killed, and so was the one that did it again."""


class Dissectors:
    """So many processes; they end with the process that asks for them, however it ends.

    Made with the first task. Give tasks from the main thread: they end with the thread, too.
    Python's pool is of no more use once one of its processes has died (for want of memory, or
    killed): all are replaced then, and what they had been given is done again, once.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = _pool(count)
        self._again = asyncio.Lock()

    async def run(self, task: Callable[[], _Result]) -> _Result:
        """What `task` returns; raises what it raises, or DissectorLost."""
        pool = self._pool
        with contextlib.suppress(BrokenProcessPool):
            return await _result(pool, task)
        if self._pool is pool:  # the first to find out
            self._pool = _pool(self._count)
            pool.shutdown(wait=False)
        # By itself: of all that was under way, only what kills its own process again is given up.
        async with self._again:
            with contextlib.suppress(BrokenProcessPool), _single() as alone:
                return await _result(alone, task)
        raise DissectorLost("the process that dissects was killed, and killed again when it was "
                            "tried once more; is memory short?")

    def close(self) -> None:
        """End them; what has not begun is not done any more."""
        self._pool.shutdown(cancel_futures=True)


async def _result(pool: ProcessPoolExecutor, task: Callable[[], _Result]) -> _Result:
    """What `task` returns in a process of the pool.

    Who asks may be cancelled, the pool's own future is not: of one that was, Python's pool makes a
    traceback when a process of its has died.
    """
    with _uninterrupted():
        future = pool.submit(task)
    result = asyncio.wrap_future(future)
    # What nobody waits for any more may still fail, by a disk that is full: no traceback of that.
    result.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return await asyncio.shield(result)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started meanwhile hear nothing of Ctrl-C before `_begin`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _single() -> Iterator[ProcessPoolExecutor]:
    pool = _pool(1)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _pool(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin, (os.getpid(),))


def _begin(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before this could be asked for
        os._exit(1)
    # Giving way, and not SCHED_IDLE: on a machine that others keep busy that would never end.
    os.nice(_NICE)
    # Ctrl-C is for the run to deal with. It was held back until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
