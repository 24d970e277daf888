"""A run from its plan to its last record: testbeds over processors, blocks in order, second tries.

A testbed serves its policy from the first repetition to the last, so that the blocked order costs
no reboots. While the next repetition is measured, the last one's captures are dissected beside it.
What the processor and not the air decided is measured again at the end, alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest.processes import processor_s
from harness import load, memory, render, room, secrets
from harness.dissectors import DissectorLost, Dissectors
from harness.machine import Machine
from harness.plan import Plan, Step, Streams
from harness.provenance import code_digest
from harness.renewal import Renewal, has_failed
from harness.results import ResultsFolder
from harness.scheduler import Place, Scheduler
from harness.testbed import Testbed, TestbedFailed, TestbedLost
from measure import assemble
from measure.errors import MeasureError
from measure.record import Record

#: A lost machine's repetition is tried this often in all.
ATTEMPTS = 2
#: Memory to leave to everything else when deciding how many guests may live side by side.
_SPARE_MB = 1024
_BACKLOG = 4
#: A testbed's unrecorded first repetitions load what later ones find in memory.
_WARM_UP_BYTES = 50_000

Report = Callable[[Record, "Campaign"], None]


@dataclass
class Campaign:
    """The state of a run; `run` is the whole of it."""

    plan: Plan
    machine: Machine
    results: ResultsFolder
    report: Report
    #: Asked when all else is measured: which further steps there are to be.
    more: Callable[[], Sequence[Step]] = tuple
    done: int = 0
    total: int = 0
    failed: dict[str, Record] = field(default_factory=dict)
    flagged: set[str] = field(default_factory=set)
    started: dict[str, float] = field(default_factory=dict)
    _opened: int = 0
    _testbeds: dict[Place, Testbed] = field(default_factory=dict)

    async def run(self, steps: Sequence[Step], again: Sequence[Step] = ()) -> None:
        """Measure `steps`, and `again` alone; everything started is ended on every way out."""
        self._again: deque[Step] = deque(again)
        self.total = len(steps) + len(again)
        self._secrets = secrets.make(self.plan.settings.fault)
        self._renderer = render.Renderer(self._secrets, self.results.work)
        self._changed = asyncio.Event()
        self._dissecting: set[asyncio.Task[None]] = set()
        # Getting on the network is work for one processor at a time, its streams hardly are.
        self._turns = {processor: asyncio.Lock() for processor in self.machine.processors}
        # Dissecting is work for the processor alone: more at once would only be slower.
        self._dissectors = Dissectors(len(self.machine.processors))
        # Where failing is what is wanted, a fresh testbed would fail as well.
        self._renewal = Renewal(wanted=self.plan.settings.fault is None)
        self.scheduler = Scheduler(
            self.plan, self.machine.processors, self._at_once, self.machine.most_testbeds,
            memory.available_mb() - _SPARE_MB, memory_mb=defaultdict(int, self._memory_mb()))
        self.scheduler.add(steps)
        try:
            # One group for measuring and dissecting: what cannot be recorded ends the run.
            async with asyncio.TaskGroup() as self._group:
                await self._all_side_by_side()
                await self._all_alone()
        except ExceptionGroup as group:
            raise room.of_group(self.results.path, group) from None
        finally:
            await asyncio.shield(self._close_all())
            await self._renderer.close()
            self._dissectors.close()

    @property
    def testbeds(self) -> int:
        """How many there are at the moment."""
        return len(self._testbeds)

    @property
    def _backlog(self) -> int:
        """How many repetitions may wait to be dissected before no further one is started."""
        return _BACKLOG * len(self.machine.processors)

    @property
    def _at_once(self) -> int:
        """Where waiting takes no time, a processor is full with one."""
        return 1 if self.plan.settings.clock == "virtual" else self.machine.at_once

    def _memory_mb(self) -> dict[Place, int]:
        return {(policy.id, site.name): self.machine.memory_mb(len(site.network.nodes))
                for site in self.plan.sites for policy in self.plan.policies}

    async def _all_side_by_side(self) -> None:
        """Start what the scheduler lets, as others end, until there is nothing more."""
        if self.plan.settings.clock == "real":
            await self._prepare()
        while True:
            # What is measured faster than it can be dissected would only fill the disk.
            while len(self._dissecting) < self._backlog and \
                    (found := self.scheduler.start()) is not None:
                self.started[found[0].name] = asyncio.get_running_loop().time()
                self._group.create_task(self._step(*found))
            if not self.scheduler.running and not self.scheduler.waiting:
                await self._dissected()
                steps = self.more()
                if not steps:
                    return
                self.total += len(steps)
                self.scheduler.add(steps)
                continue
            self._changed.clear()
            await self._changed.wait()
            if self.scheduler.is_short_of_room():
                for place in self.scheduler.idle():
                    await self._retire(place)

    async def _prepare(self) -> None:
        """Start testbeds, as many as there is room for, before anything is measured.

        Booting takes a whole processor, which would show in what is measured beside it.
        """
        queues: dict[int, list[Place]] = {processor: [] for processor in self.machine.processors}
        for place in self.scheduler.places():
            processor = self.scheduler.seat(place)
            if processor is not None:
                queues[processor].append(place)

        async def open_all(processor: int) -> None:
            for policy, site in queues[processor]:
                # What goes wrong here, goes wrong again where a record can tell of it.
                with contextlib.suppress(TestbedLost, TestbedFailed):
                    self.started[f"starting {policy}"] = asyncio.get_running_loop().time()
                    try:
                        await self._open((policy, site), processor)
                    except (TestbedLost, TestbedFailed):
                        await self._retire((policy, site), seat=False)
                        raise
                    finally:
                        self.started.pop(f"starting {policy}", None)

        async with asyncio.TaskGroup() as group:
            for processor in queues:
                group.create_task(open_all(processor))

    async def _all_alone(self) -> None:
        """Measure again, with nothing beside it, what waited for the processor the first time."""
        while self._again:
            step = self._again.popleft()
            self.scheduler.add([step])
            found = self.scheduler.start()
            assert found is not None
            self.started[step.name] = asyncio.get_running_loop().time()
            await self._step(*found, alone=True)
            await self._dissected()

    async def _dissected(self) -> None:
        """Until nothing is being dissected."""
        while self._dissecting:
            await asyncio.wait(self._dissecting)

    async def _step(self, step: Step, processor: int, *, alone: bool = False) -> None:
        """One repetition, with a second try on a fresh machine when the first was lost."""
        used, reason = None, ""
        place = self.scheduler.place_of(step.cell)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    testbed = await self._serving(place, processor)
                    out, waits, used = await self._measure(step, testbed)
                except TestbedLost as loss:
                    reason = f"{loss}; tried {attempt} times" if attempt > 1 else str(loss)
                    self.results.log(step.cell.name, f"{step.name}: lost: {loss}")
                    await self._retire(place, seat=False)
                    continue
                except TestbedFailed as failure:
                    reason = str(failure)
                    await self._retire(place, seat=False)
                    break
                if has_failed(out):  # said before it is dissected: the next may begin at once
                    self._renewal.judged(place, testbed, is_good=False)
                extra = {"attempt": attempt, "lost": reason, "alone": alone}
                self._dissect(step, testbed, out, waits, extra)
                return
            self._note(step, assemble.unmeasured(
                step.cell.policy, step.cell.scenario, step.repetition, reason, attempt=attempt,
                environment=self._environment(None)), None, alone=alone)
        finally:
            self.started.pop(step.name, None)
            self.scheduler.ended(step, used)
            self._changed.set()

    async def _serving(self, place: Place, processor: int) -> Testbed:
        """The testbed of a place; a fresh one if there is none, or a repetition failed on it."""
        if self._renewal.is_due(place, self._testbeds.get(place)):
            await self._retire(place, seat=False)
        return self._testbeds.get(place) or await self._open(place, processor)

    async def _open(self, place: Place, processor: int) -> Testbed:
        self._opened += 1
        policy = next(policy for policy in self.plan.policies if policy.id == place[0])
        site = next(site for site in self.plan.sites if site.name == place[1])
        testbed = Testbed(self.machine, processor, policy, site, self.plan.medium,
                          self.plan.settings, self.results.work, serial=self._opened)
        self._testbeds[place] = testbed
        await testbed.open(self._secrets, self._renderer)
        little = Streams(_WARM_UP_BYTES, _WARM_UP_BYTES, self.plan.settings.udp_payload_bytes)
        for number in range(self.plan.settings.warm_up):
            out = await testbed.measure(f"warm-up-{number}", site.scenarios[0], little)
            shutil.rmtree(out, ignore_errors=True)
        return testbed

    async def _measure(self, step: Step,
                       testbed: Testbed) -> tuple[Path, load.Waits, float]:
        """A repetition's folder, how its machine waited, and what it took of the processor."""
        waits = load.Waits(testbed.pid)
        watching = asyncio.create_task(waits.watch())
        begun, used_s = asyncio.get_running_loop().time(), processor_s(testbed.pid)
        try:
            out = await testbed.measure(step.name, step.cell.scenario, self.plan.settings.streams,
                                        self._turns[testbed.processor])
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        lasted_s = asyncio.get_running_loop().time() - begun
        return out, waits, (processor_s(testbed.pid) - used_s) / lasted_s

    def _dissect(self, *arguments: Any) -> None:
        """Dissect and record while the processor goes on to its next repetition."""
        task = self._group.create_task(self._finish(*arguments))
        self._dissecting.add(task)
        task.add_done_callback(self._dissecting.discard)
        task.add_done_callback(lambda _: self._changed.set())

    async def _finish(self, step: Step, testbed: Testbed, out: Path, waits: load.Waits,
                      extra: dict[str, Any]) -> None:
        cell, attempt = step.cell, extra["attempt"]
        environment = self._environment(testbed)
        if extra["lost"]:
            environment["first_attempt"] = extra["lost"]
        try:
            environment |= self._judged(out, waits, alone=extra["alone"])
            found = await self._dissectors.run(functools.partial(
                assemble.assemble, cell.policy, cell.scenario, step.repetition, out,
                environment=environment, wep_key=self._secrets["network"]["wep_key"],
                attempt=attempt))
        except (MeasureError, DissectorLost, OSError, ValueError, LookupError, TypeError,
                ArithmeticError) as error:
            found = assemble.unmeasured(
                cell.policy, cell.scenario, step.repetition, f"captures cannot be judged: {error}",
                environment=environment, attempt=attempt)
        self._renewal.judged(self.scheduler.place_of(cell), testbed, is_good=found.status == "ok")
        self._note(step, found, out, alone=extra["alone"])
        shutil.rmtree(out, ignore_errors=True)

    def _judged(self, out: Path, waits: load.Waits, *, alone: bool) -> dict[str, Any]:
        """What the processor had to do with a repetition, as its record keeps it."""
        if self.plan.settings.clock == "virtual" or self.plan.settings.on != "guest":
            return {}
        found = load.judge(waits, json.loads((out / "raw.json").read_text())["stamps"])
        if not alone:
            self.scheduler.waited(found["severity"])
        return {"processor": found, "flags": [load.FLAG] if found["limits"] else [],
                "alone": alone}

    def _note(self, step: Step, found: Record, out: Path | None, *, alone: bool) -> None:
        # A second measurement that fails does not take the place of the first, flagged one.
        is_kept = found.status == "ok" or not alone
        try:
            if is_kept:
                self.results.keep(found, out if found.captures else None)
            self.results.log(step.cell.name, _line(found))
        except OSError as error:
            raise room.make_room(self.results.path, f"{found.name} cannot be kept",
                                 error) from error
        self.failed.pop(found.name, None)
        if found.status != "ok":
            self.failed[found.name] = found
        if is_kept:
            self.flagged.discard(found.name)
        if found.environment.get("flags"):
            self.flagged.add(found.name)
            if not alone:
                self._again.append(step)
                self.total += 1
        self.done += 1
        self.report(found, self)

    def _environment(self, testbed: Testbed | None) -> dict[str, Any]:
        medium = self.plan.medium.name if self.plan.medium else None
        settings = self.plan.settings
        return {"machine": settings.on, "clock": settings.clock, "medium": medium,
                "plan": self.plan.digest(), "fault": settings.fault,
                "code_sha256": code_digest(), "image": self.machine.image_key,
                "load_average": os.getloadavg()[0], "guests": len(self._testbeds),
                "side_by_side": len(self.scheduler.running),
                **(testbed.environment if testbed else {})}

    async def _retire(self, place: Place, *, seat: bool = True) -> None:
        """End a testbed; its files stay until the run ends, for what is still dissected."""
        testbed = self._testbeds.pop(place, None)
        if seat:
            self.scheduler.gone(place)
        if testbed is not None:
            await testbed.close()
            # Of use to whoever looks for a reason, and no result: a full disk is told elsewhere.
            with contextlib.suppress(OSError):
                self.results.keep_logs(testbed.name, testbed.logs)

    async def _close_all(self) -> None:
        for place in list(self._testbeds):
            await self._retire(place)


def _line(found: Record) -> str:
    """What the log of a cell says of a repetition."""
    what = f": {found.reason}" if found.reason else ""
    return (f"{found.name}: {found.status}, attempt {found.attempt}, {found.elapsed_s:.1f} s, "
            f"processor {found.environment.get('processor')}{what}")
