"""A cluster in the tests' own process: its workers, a run on it, and a plan to measure."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask

import made_up_measuring as made_up
import plans
from conftest import PATIENCE_S
from harness.cluster import dask_settings, security
from harness.cluster.campaign import ClusterCampaign
from harness.cluster.security import ClusterKey
from harness.cluster.servers import TlsScheduler, TlsWorker
from harness.engine import results
from harness.engine.events import Event, EventLog, RunState
from harness.engine.plan import Plan
from measure.records import record
from measure.records.record import Record


@functools.cache
def plan_of(policies: int = 4, repetitions: int = 2) -> Plan:
    """The first policies in N2."""
    return plans.plan_of(plans.policies(policies), repetitions=repetitions)


@dataclass
class Lent:
    """A scheduler in this process, and its workers, reached by TLS on the loopback interface."""

    scheduler: TlsScheduler
    key: ClusterKey
    folder: Path
    workers: list[TlsWorker] = field(default_factory=list)

    async def add(self, count: int = 1) -> None:
        """So many workers more."""
        for _ in range(count):
            self.workers.append(await TlsWorker(
                self.scheduler.address, key=self.key, local_directory=str(self.folder)))


@contextlib.asynccontextmanager
async def workers(count: int) -> AsyncIterator[Lent]:
    """Workers in this process, and their cluster's keys where a run finds them."""
    # Closing what a test has lost already waits this long for it to come back.
    with dask.config.set(dask_settings.DASK_SETTINGS | {"distributed.comm.timeouts.connect": "1s"}):
        key = ClusterKey.make_new()
        async with TlsScheduler(host="127.0.0.1", port=0, key=key) as scheduler:
            kept = security.store_key(scheduler.address, key)
            lent = Lent(scheduler, key, kept.parent / "dask")
            try:
                await lent.add(count)
                yield lent
            finally:
                for each in lent.workers:
                    await each.close()


class Run:
    """A campaign on a results folder, with what it told."""

    def __init__(self, folder: Path, plan: Plan, where: str) -> None:
        self.told: list[str] = []
        self.recorded: list[str] = []
        self.state = RunState()
        self.plan = plan
        self.kept = results.ResultsFolder(folder)
        self.events = EventLog(folder, self.state.apply_event, self.hear)
        self.campaign = ClusterCampaign(plan, where, self.kept, self.events,
                                        measurer=made_up.measure)

    def hear(self, event: Event) -> None:
        """Note what a user is shown."""
        if event["event"] == "repetition-recorded":
            self.recorded.append(event["name"])
        self.told += [event["line"]] if "line" in event else []

    async def __call__(self) -> dict[str, Record]:
        """Measure what is missing; the records by name."""
        with self.kept:
            self.kept.adopt_plan(self.plan)
            steps, again = self.kept.missing_steps(self.plan), self.kept.flagged_steps(self.plan)
            self.events.emit_event("run-started", already=0, total=len(steps) + len(again))
            await self.campaign.run(steps, again)
        return self.records()

    def records(self) -> dict[str, Record]:
        """What is kept by now."""
        found, complaints = record.read_records(self.kept.records)
        assert not complaints
        return {one.name: one for one in found}


async def comes(condition: Callable[[], object], task: asyncio.Task[Any] | None = None) -> None:
    """Wait until something holds, while a task goes on."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            assert task is None or not task.done(), task
            await asyncio.sleep(0.05)
