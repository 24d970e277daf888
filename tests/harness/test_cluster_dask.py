"""What dask.distributed does by itself, and a cluster of measuring machines cannot use.

Each test is a reason for a part of harness/cluster that docs/cluster.md names. Where one fails with
a later dask, that part may go. Workers are in this process; steps are numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import dask
import psutil
import pytest
from distributed import Client, Future, Scheduler, Worker, get_worker, wait
from distributed.protocol import pickle

from harness.cluster import dask_settings, worker_tasks
from made_up_cluster import comes, workers

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*already in use")

#: Every step that was begun, and by whom.
BEGUN: list[tuple[int, str]] = []
#: Whose disk is full.
FULL: set[str] = set()
STEPS = 4
#: The step at which shares wait until the gate is open.
HALF = 2
GATES: list[asyncio.Event] = []


async def share(breaks_at: int = STEPS) -> bytes:
    """One step after the other, as a share is measured."""
    at = get_worker().address
    for step in range(STEPS):
        BEGUN.append((step, at))
        if step == breaks_at or at in FULL:
            raise OSError("no space left on device")
        if step == HALF:
            await GATES[-1].wait()
    return b"records"


@dataclass
class Plain:
    """A cluster of dask's own, with workers that measure one share at a time."""

    scheduler: Scheduler
    client: Client
    workers: list[Worker] = field(default_factory=list)

    async def add(self, count: int = 1) -> None:
        """So many workers more."""
        for _ in range(count):
            self.workers.append(await Worker(
                self.scheduler.address, nthreads=2, memory_limit=0, dashboard=False,
                resources={worker_tasks.MEASURING_RESOURCE: 1}))

    def submit(self, *arguments: Any, **options: Any) -> Future:
        """A share."""
        return self.client.submit(share, *arguments, pure=False,
                                  resources={worker_tasks.MEASURING_RESOURCE: 1}, **options)

    async def lose(self) -> None:
        """Lose the worker that began first."""
        [lost] = [worker for worker in self.workers if worker.address == BEGUN[0][1]]
        await lost.close()

    async def ended(self, *futures: Future) -> list[str]:
        """How each of them ended."""
        GATES[-1].set()
        with self.client.as_current():
            await wait(futures)
        return [future.status for future in futures]


@contextlib.asynccontextmanager
async def plain(workers: int, *, settings: dict[str, Any] | None = None,
                **options: Any) -> AsyncIterator[Plain]:
    """A cluster without anything of ours but its settings."""
    BEGUN.clear()
    FULL.clear()
    GATES.append(asyncio.Event())
    dask_settings.silence_logs()
    with dask.config.set(dask_settings.DASK_SETTINGS | {"distributed.comm.timeouts.connect": "1s"}
                         | (settings or {})):
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False,
                             dashboard_address="127.0.0.1:0", **options) as scheduler:
            client = await Client(scheduler.address, asynchronous=True, set_as_default=False)
            cluster = Plain(scheduler, client)
            try:
                await cluster.add(workers)
                yield cluster
            finally:
                await client.close(timeout=1)
                for worker in cluster.workers:
                    await worker.close()


async def test_what_a_task_returned_is_lost_with_its_worker() -> None:
    """It had ended well, and all of it is measured once more: hence events, and the spool."""
    async with plain(2) as cluster:
        future = cluster.submit()
        assert await cluster.ended(future) == ["finished"]
        await cluster.lose()
        await comes(lambda: len(BEGUN) == 2 * STEPS)
        assert await cluster.ended(future) == ["finished"]
    assert [step for step, _ in BEGUN] == 2 * [*range(STEPS)]


async def test_what_is_lost_with_its_worker_begins_anew() -> None:
    """Dask tries it again, from its first step: hence our shares, of what is left."""
    async with plain(2, allowed_failures=3) as cluster:
        future = cluster.submit()
        await comes(lambda: len(BEGUN) == HALF + 1)
        await cluster.lose()
        assert await cluster.ended(future) == ["finished"]
    assert [step for step, _ in BEGUN] == [0, 1, 2, *range(STEPS)]
    assert BEGUN[2][1] != BEGUN[3][1]


async def test_a_retry_begins_anew_and_where_it_broke() -> None:
    """With a worker beside it that has nothing to do: hence our count of losses, by step."""
    async with plain(2) as cluster:
        assert await cluster.ended(cluster.submit(2, retries=2)) == ["error"]
    assert [step for step, _ in BEGUN] == 3 * [0, 1, 2]
    assert len({at for _, at in BEGUN}) == 1


async def test_who_cannot_begin_is_asked_again_and_again() -> None:
    """Dask leaves nobody out, and shares fail that others could measure: hence ours, of a run."""
    async with plain(2) as cluster:
        FULL.add(cluster.workers[0].address)
        ended = await cluster.ended(*(cluster.submit(retries=2) for _ in range(6)))
    assert "error" in ended


@pytest.mark.parametrize("steals", [False, True])
async def test_who_may_measure_is_said_once(*, steals: bool) -> None:
    """Who comes later and passes gets none of it: hence shares that are given out one by one."""
    async with plain(1, settings={"distributed.scheduler.work-stealing": steals}) as cluster:
        checked = [cluster.workers[0].address]
        futures = [cluster.submit(workers=checked) for _ in range(3)]
        await comes(lambda: BEGUN)
        await cluster.add()
        assert await cluster.ended(*futures) == 3 * ["finished"]
    assert {at for _, at in BEGUN} == set(checked)


async def test_what_is_cancelled_goes_on() -> None:
    """Dask forgets it, and its guests would run on: hence our look at its state."""
    async with plain(1) as cluster:
        future = cluster.submit()
        await comes(lambda: BEGUN)
        [task] = cluster.workers[0].state.tasks.values()
        await cluster.client.cancel([future], force=True)
        await comes(lambda: task.state == "cancelled")
        GATES[-1].set()
        await comes(lambda: len(BEGUN) == STEPS)


async def test_a_result_comes_as_a_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, too: hence events alone, of which a run unpickles nothing."""
    unpickled: list[bytes] = []
    real = pickle.loads

    def loads(data: bytes, *arguments: Any, **options: Any) -> Any:
        """Dask's own, and seen."""
        unpickled.append(bytes(data))
        return real(data, *arguments, **options)

    async with plain(1) as cluster:
        future = cluster.submit()
        await cluster.ended(future)
        monkeypatch.setattr(pickle, "loads", loads)
        assert await future == b"records"
    assert any(b"bytes" in data for data in unpickled)


async def test_pages_are_served_all_the_same() -> None:
    """Without a dashboard, too, to whoever asks: hence a scheduler and a worker without any."""
    def listening() -> int:
        return sum(each.status == psutil.CONN_LISTEN
                   for each in psutil.Process().net_connections("inet"))

    before = listening()
    async with plain(1):
        assert listening() - before > 2
    async with workers(1):
        assert listening() - before == 2
