"""A run that is interrupted leaves its dissectors without a traceback."""

from __future__ import annotations

import asyncio
import errno
import functools
import gc
import os
import signal
import threading
from pathlib import Path

import pytest

from conftest import wait_until
from harness.engine.postprocessing import DissectorPool
from mortal import end_when_told


def children() -> set[int]:
    """Processes that this one's main thread has started."""
    here = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return set(map(int, here.read_text().split()))


def fail_when_told(begun: str, told: str) -> None:
    """What a task does whose disk is full."""
    Path(begun).touch()
    wait_until(Path(told).exists)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_ctrl_c_does_not_end_a_dissector_that_is_being_born() -> None:
    """A terminal sends it to every process of a run, also to those that have not begun yet."""
    dissectors, before = DissectorPool(1), children()
    try:
        asked = asyncio.create_task(dissectors.run_task(os.getpid))
        await asyncio.sleep(0)  # it is started here, and takes far longer to import its modules
        born = children() - before
        for pid in born:
            os.kill(pid, signal.SIGINT)
        assert await asked in born
    finally:
        dissectors.close()


async def test_a_cancelled_task_makes_no_traceback_where_a_dissector_dies(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's pool has all that was under way fail, and knows no future that is cancelled."""
    uncaught: list[object] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)
    begun, told = tmp_path / "begun", tmp_path / "told"
    dissectors = DissectorPool(1)
    try:
        pool = dissectors._pool
        dying = asyncio.create_task(dissectors.run_task(
            functools.partial(end_when_told, str(begun), str(told))))
        waiting = [asyncio.create_task(dissectors.run_task(os.getpid)) for _ in range(8)]
        await asyncio.to_thread(wait_until, begun.exists)
        manager = pool._executor_manager_thread
        for task in (dying, *waiting):
            task.cancel()
        await asyncio.gather(dying, *waiting, return_exceptions=True)
        told.touch()
        await asyncio.to_thread(manager.join)
    finally:
        dissectors.close()
    assert not uncaught


async def test_a_cancelled_task_makes_no_traceback_where_it_fails_later(tmp_path: Path) -> None:
    """Several find a disk full: the first one ends the run, and of the others nobody hears."""
    uncaught: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    begun, told = tmp_path / "begun", tmp_path / "told"
    dissectors = DissectorPool(1)
    try:
        failing = asyncio.create_task(dissectors.run_task(
            functools.partial(fail_when_told, str(begun), str(told))))
        await asyncio.to_thread(wait_until, begun.exists)
        failing.cancel()
        await asyncio.gather(failing, return_exceptions=True)
        del failing
        told.touch()
        assert await dissectors.run_task(os.getpid) != os.getpid()  # behind it
        await asyncio.sleep(0)
        gc.collect()
    finally:
        dissectors.close()
    assert not uncaught
