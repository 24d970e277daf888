"""The testbeds of a run: started ahead or when they are needed, replaced when in doubt, ended."""

from __future__ import annotations

import asyncio
import contextlib
import shutil

from harness import render
from harness.machine import Machine
from harness.plan import Plan, Streams
from harness.renewal import Renewal
from harness.results import ResultsFolder
from harness.scheduler import Place, Scheduler
from harness.secrets import Secrets
from harness.testbed import Testbed, TestbedFailed, TestbedLost

#: A testbed's unrecorded first repetitions load what later ones find in memory.
_WARM_UP_BYTES = 50_000


class Testbeds:
    """Those there are, by policy and site; `started` takes when each began to be started."""

    def __init__(self, plan: Plan, machine: Machine, results: ResultsFolder, scheduler: Scheduler,
                 secrets: Secrets, started: dict[str, float]) -> None:
        self._plan = plan
        self._machine = machine
        self._results = results
        self._scheduler = scheduler
        self._secrets = secrets
        self._started = started
        self._renderer = render.Renderer(secrets, results.work)
        # Where failing is what is wanted, a fresh testbed would fail as well.
        self._renewal = Renewal(wanted=plan.settings.fault is None)
        self._opened = 0
        self._there: dict[Place, Testbed] = {}

    def __len__(self) -> int:
        return len(self._there)

    async def prepare(self) -> None:
        """Start testbeds, as many as there is room for, before anything is measured.

        Booting takes a whole processor, which would show in what is measured beside it.
        """
        queues: dict[int, list[Place]] = {processor: [] for processor in self._machine.processors}
        for place in self._scheduler.places():
            processor = self._scheduler.seat(place)
            if processor is not None:
                queues[processor].append(place)

        async def open_all(processor: int) -> None:
            for policy, site in queues[processor]:
                # What goes wrong here, goes wrong again where a record can tell of it.
                with contextlib.suppress(TestbedLost, TestbedFailed):
                    self._started[f"starting {policy}"] = asyncio.get_running_loop().time()
                    try:
                        await self._open((policy, site), processor)
                    except (TestbedLost, TestbedFailed):
                        await self.retire((policy, site), seat=False)
                        raise
                    finally:
                        self._started.pop(f"starting {policy}", None)

        async with asyncio.TaskGroup() as group:
            for processor in queues:
                group.create_task(open_all(processor))

    async def serving(self, place: Place, processor: int) -> Testbed:
        """The testbed of a place, on this processor; a fresh one if a repetition failed on it."""
        if self._renewal.is_due(place, self._there.get(place)):
            await self.retire(place, seat=False)
        testbed = self._there.get(place) or await self._open(place, processor)
        testbed.move(processor)
        return testbed

    async def _open(self, place: Place, processor: int) -> Testbed:
        self._opened += 1
        policy = next(policy for policy in self._plan.policies if policy.id == place[0])
        site = next(site for site in self._plan.sites if site.name == place[1])
        testbed = Testbed(self._machine, processor, policy, site, self._plan.medium,
                          self._plan.settings, self._results.work, serial=self._opened)
        self._there[place] = testbed
        await testbed.open(self._secrets, self._renderer)
        little = Streams(_WARM_UP_BYTES, _WARM_UP_BYTES, self._plan.settings.udp_payload_bytes)
        for number in range(self._plan.settings.warm_up):
            out = await testbed.measure(f"warm-up-{number}", site.scenarios[0], little)
            shutil.rmtree(out, ignore_errors=True)
        return testbed

    def judged(self, place: Place, testbed: Testbed, *, is_good: bool) -> None:
        """A repetition on a testbed has been judged; a bad one puts the testbed in doubt."""
        self._renewal.judged(place, testbed, is_good=is_good)

    async def retire(self, place: Place, *, seat: bool = True) -> None:
        """End a testbed; its files stay until the run ends, for what is still dissected."""
        testbed = self._there.pop(place, None)
        if seat:
            self._scheduler.gone(place)
        if testbed is not None:
            await testbed.close()
            # Of use to whoever looks for a reason, and no result: a full disk is told elsewhere.
            with contextlib.suppress(OSError):
                self._results.keep_logs(testbed.name, testbed.logs)

    async def close(self) -> None:
        """End them all."""
        for place in list(self._there):
            await self.retire(place)
        await self._renderer.close()
