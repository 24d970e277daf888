"""The testbeds of a run: started ahead or when they are needed, replaced when in doubt, ended."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
from dataclasses import asdict

from harness import playing, render
from harness.engine.events import EventLog
from harness.engine.machine import Machine
from harness.engine.plan import Plan, TestbedKey
from harness.engine.restart import Restarts
from harness.engine.results import ResultsFolder
from harness.engine.scheduler import Scheduler
from harness.engine.standstill import Standstill
from harness.engine.testbed import TestbedClient, TestbedFailed, TestbedLost
from harness.secrets import Secrets


class Testbeds:
    """Those there are, by key."""

    def __init__(self, plan: Plan, machine: Machine, results: ResultsFolder, *,
                 scheduler: Scheduler, secrets: Secrets, events: EventLog) -> None:
        self._plan = plan
        self._machine = machine
        self._results = results
        self._scheduler = scheduler
        self._secrets = secrets
        self._events = events
        self._renderer = render.Renderer(secrets, results.work, playing.take)
        # Under a negative control every repetition is to fail: a fresh testbed would, too.
        self._restarts = Restarts(is_allowed=plan.settings.fault is None)
        self._opened = 0
        #: How many are being started.
        self._starting = 0
        self._there: dict[TestbedKey, TestbedClient] = {}

    def __len__(self) -> int:
        return len(self._there)

    async def prepare(self) -> None:
        """Start testbeds, as many as there is memory for, before anything is measured.

        Booting takes a whole processor, which would show in what is measured beside it.
        """
        queues: dict[int, list[TestbedKey]] = {
            processor: [] for processor in self._machine.processors}
        for key in self._scheduler.testbeds():
            processor = self._scheduler.reserve(key)
            if processor is not None:
                queues[processor].append(key)

        async def open_all(processor: int) -> None:
            for key in queues[processor]:
                # What goes wrong here, goes wrong again where a record can tell of it.
                with contextlib.suppress(TestbedLost, TestbedFailed):
                    try:
                        await self._open(key, processor)
                    except (TestbedLost, TestbedFailed):
                        await self.retire(key, slot=False)
                        raise

        async with asyncio.TaskGroup() as group:
            for processor in queues:
                group.create_task(open_all(processor))

    async def serving(self, key: TestbedKey, processor: int) -> TestbedClient:
        """The testbed of a key, on this processor; a fresh one if a repetition failed on it."""
        if self._restarts.is_due(key, self._there.get(key)):
            await self.retire(key, slot=False)
        testbed = self._there.get(key) or await self._open(key, processor)
        testbed.move(processor)
        return testbed

    async def _open(self, key: TestbedKey, processor: int) -> TestbedClient:
        self._opened += 1
        planned = self._plan.testbeds[key]
        testbed = TestbedClient(self._machine, processor, planned, self._plan, self._results.work,
                                serial=self._opened, show=functools.partial(self._show, key))
        self._there[key] = testbed
        self._events.say("testbed-starting", testbed=key, processor=processor)
        self._starting += 1
        try:
            await testbed.open(self._secrets, self._renderer)
        finally:
            self._starting -= 1
        self._render_ahead()
        await self._warm_up(testbed, key)
        self._events.say("testbed-ready", testbed=key)
        return testbed

    def _show(self, key: TestbedKey, standstill: Standstill | None) -> None:
        """Say that the clock of a testbed's guest stands still, or moves again."""
        if standstill is None:
            self._events.say("clock-moves", testbed=key)
        else:
            self._events.say("clock-still", testbed=key, **asdict(standstill))

    def _render_ahead(self) -> None:
        """Have the policies of the next testbeds rendered, which would wait for it once booted.

        So many as are measured at once; not beside one that is being started, which would wait for
        the processor, nor in real time, where nothing may compute beside what is measured.
        """
        if self._starting or self._plan.settings.waits:
            return
        coming = [key for key in self._scheduler.testbeds() if key not in self._there]
        for key in coming[:len(self._machine.processors)]:
            TestbedClient(self._machine, 0, self._plan.testbeds[key], self._plan,
                          self._results.work).begin_rendering(self._renderer)

    async def _warm_up(self, testbed: TestbedClient, key: TestbedKey) -> None:
        """Unrecorded repetitions load what later ones find in memory."""
        study = self._plan.study
        cell = study.warm_up_cell(self._plan.testbeds[key].cells)
        asked = study.warm_up(self._plan.asked)
        for number in range(self._plan.settings.warm_up):
            out = await testbed.measure(f"warm-up-{number}", study.task(cell, asked),
                                        study.deadline_s(cell, asked))
            shutil.rmtree(out, ignore_errors=True)

    def judged(self, key: TestbedKey, testbed: TestbedClient, *, is_good: bool) -> None:
        """A repetition on a testbed has been judged; a bad one puts the testbed in doubt."""
        self._restarts.judged(key, testbed, is_good=is_good)

    def measuring(self, key: TestbedKey) -> TestbedClient | None:
        """The testbed of a key, if a repetition is under way on it."""
        testbed = self._there.get(key)
        return testbed if testbed is not None and testbed.is_measuring else None

    async def retire(self, key: TestbedKey, *, slot: bool = True) -> None:
        """End a testbed; its files stay until the run ends, for what is still dissected."""
        testbed = self._there.pop(key, None)
        if slot:
            self._scheduler.gone(key)
        if testbed is not None:
            await testbed.close()
            self._events.say("testbed-ended", testbed=key)
            # Of use to whoever looks for a reason, and no result: a full disk is told elsewhere.
            with contextlib.suppress(OSError):
                self._results.keep_logs(testbed.name, testbed.logs)

    async def close(self) -> None:
        """End them all."""
        for key in list(self._there):
            await self.retire(key)
        await self._renderer.close()
