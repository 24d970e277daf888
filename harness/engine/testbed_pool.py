"""Start, reuse, replace and stop the testbeds (emulated networks) of a run.

`TestbedPool` starts as many testbeds as memory allows. `get_or_start` returns the running testbed
for a repetition (measurement), on the processor that the scheduler chose. After a failed
repetition, a testbed may be replaced by a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
from dataclasses import asdict

from harness import ansible_process, render
from harness.engine.clock_watchdog import Standstill
from harness.engine.events import EventLog
from harness.engine.machine import Machine
from harness.engine.plan import Plan, TestbedKey
from harness.engine.results import ResultsFolder
from harness.engine.retries import RetryTracker
from harness.engine.scheduler import Scheduler
from harness.engine.testbed import TestbedClient, TestbedFailed, TestbedLost
from harness.secrets import Secrets


class TestbedPool:
    """The running testbeds (emulated networks) of a run, by their keys in the plan."""

    def __init__(self, plan: Plan, machine: Machine, results: ResultsFolder, *,
                 scheduler: Scheduler, secrets: Secrets, events: EventLog) -> None:
        self._plan = plan
        self._machine = machine
        self._results = results
        self._scheduler = scheduler
        self._secrets = secrets
        self._events = events
        self._renderer = render.Renderer(secrets, results.work,
                                         ansible_process.take_ansible_process)
        # Repetitions of a negative control always fail, on a fresh testbed as well.
        self._retries = RetryTracker(is_allowed=plan.settings.fault is None)
        self._opened = 0
        #: Number of testbeds that are being started.
        self._starting = 0
        self._there: dict[TestbedKey, TestbedClient] = {}

    def __len__(self) -> int:
        return len(self._there)

    async def start_ahead(self) -> None:
        """Start emulated networks before the first measurement, as many as memory allows.

        Booting uses a whole processor, which would disturb measurements.
        """
        queues: dict[int, list[TestbedKey]] = {
            processor: [] for processor in self._machine.processors}
        for key in self._scheduler.waiting_testbeds():
            processor = self._scheduler.reserve_slot(key)
            if processor is not None:
                queues[processor].append(key)

        async def open_all(processor: int) -> None:
            for key in queues[processor]:
                # Ignore: the first repetition retries the start and records the error.
                with contextlib.suppress(TestbedLost, TestbedFailed):
                    try:
                        await self._start_testbed(key, processor)
                    except (TestbedLost, TestbedFailed):
                        await self.end_testbed(key, release_slot=False)
                        raise

        async with asyncio.TaskGroup() as group:
            for processor in queues:
                group.create_task(open_all(processor))

    async def get_or_start(self, key: TestbedKey, processor: int) -> TestbedClient:
        """Return a running emulated network (testbed) on a processor, started if necessary.

        A running testbed may be moved from another processor. After a failed repetition, the
        testbed may be replaced by a fresh one.

        Args:
            key: Key of the testbed.
            processor: Processor that it must run on.

        Raises:
            TestbedLost: The machine ended while it started.
            TestbedFailed: The testbed cannot be started.
        """
        if self._retries.take_retry(key, self._there.get(key)):
            await self.end_testbed(key, release_slot=False)
        testbed = self._there.get(key) or await self._start_testbed(key, processor)
        testbed.move_to(processor)
        return testbed

    async def _start_testbed(self, key: TestbedKey, processor: int) -> TestbedClient:
        self._opened += 1
        planned = self._plan.testbeds[key]
        testbed = TestbedClient(self._machine, processor, planned, self._plan, self._results.work,
                                serial=self._opened,
                                show=functools.partial(self._announce_standstill, key))
        self._there[key] = testbed
        self._events.emit_event("testbed-starting", testbed=key, processor=processor)
        self._starting += 1
        try:
            await testbed.open(self._secrets, self._renderer)
        finally:
            self._starting -= 1
        self._render_ahead()
        await self._warm_up(testbed, key)
        self._events.emit_event("testbed-ready", testbed=key)
        return testbed

    def _announce_standstill(self, key: TestbedKey, standstill: Standstill | None) -> None:
        """Emit an event: the clock of a testbed's guest stands still, or advances again."""
        if standstill is None:
            self._events.emit_event("clock-moves", testbed=key)
        else:
            self._events.emit_event("clock-still", testbed=key, **asdict(standstill))

    def _render_ahead(self) -> None:
        """Start to make the configuration files of the emulated networks that are needed next.

        As many are made as testbeds are measured in parallel. Nothing is made while a testbed
        starts, which would be delayed. In real time nothing is made either, because other load
        disturbs measurements.
        """
        if self._starting or self._plan.settings.is_real_time:
            return
        coming = [key for key in self._scheduler.waiting_testbeds() if key not in self._there]
        for key in coming[:len(self._machine.processors)]:
            TestbedClient(self._machine, 0, self._plan.testbeds[key], self._plan,
                          self._results.work).begin_rendering(self._renderer)

    async def _warm_up(self, testbed: TestbedClient, key: TestbedKey) -> None:
        """Run unrecorded repetitions on a new emulated network, to load programs into memory."""
        study = self._plan.study
        cell = study.warm_up_cell(self._plan.testbeds[key].cells)
        asked = study.warm_up(self._plan.asked)
        for number in range(self._plan.settings.warm_up):
            out = await testbed.measure_repetition(f"warm-up-{number}", study.task(cell, asked),
                                                   study.deadline_s(cell, asked))
            shutil.rmtree(out, ignore_errors=True)

    def record_outcome(self, key: TestbedKey, testbed: TestbedClient, *, is_good: bool) -> None:
        """Note whether a repetition succeeded.

        After a failure its emulated network may be replaced.
        """
        self._retries.note_result(key, testbed, is_good=is_good)

    def active_testbed(self, key: TestbedKey) -> TestbedClient | None:
        """Return a testbed if a repetition is running on it now, else None."""
        testbed = self._there.get(key)
        return testbed if testbed is not None and testbed.is_measuring else None

    async def end_testbed(self, key: TestbedKey, *, release_slot: bool = True) -> None:
        """End a testbed and its machine.

        Its files remain until the run ends, because they may still be dissected.

        Args:
            key: Key of the testbed.
            release_slot: Whether its slot in the scheduler is released, too.
        """
        testbed = self._there.pop(key, None)
        if release_slot:
            self._scheduler.release_slot(key)
        if testbed is not None:
            await testbed.close()
            self._events.emit_event("testbed-ended", testbed=key)
            # Logs are helpful but not results: a full disk is reported elsewhere.
            with contextlib.suppress(OSError):
                self._results.keep_logs(testbed.name, testbed.logs)

    async def close(self) -> None:
        """End all testbeds (emulated networks) of the run."""
        for key in list(self._there):
            await self.end_testbed(key)
        await self._renderer.close()
