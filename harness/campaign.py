"""A run from its plan to its last record: testbeds over processors, blocks in order, second tries.

A testbed serves its policy from the first repetition to the last, so that the blocked order costs
no reboots. While the next repetition is measured, the last one's captures are dissected beside it.
What the processor and not the air decided is measured again at the end, alone.
"""

from __future__ import annotations

import asyncio
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
from harness import load, memory, packing, room, secrets
from harness.dissectors import DissectorLost, Dissectors
from harness.machine import Machine
from harness.plan import Plan, Step
from harness.provenance import code_digest
from harness.renewal import has_failed
from harness.results import ResultsFolder
from harness.scheduler import Place, Scheduler
from harness.tally import Tally
from harness.testbed import Testbed, TestbedFailed, TestbedLost
from harness.testbeds import Testbeds
from measure import assemble
from measure.errors import MeasureError
from measure.record import Record

#: A lost machine's repetition is tried this often in all.
ATTEMPTS = 2
#: Memory to leave to everything else when deciding how many guests may live side by side.
_SPARE_MB = 1024
_BACKLOG = 4

Report = Callable[[Record, "Campaign"], None]


@dataclass
class Campaign(Tally):
    """The state of a run; `run` is the whole of it."""

    plan: Plan
    machine: Machine
    results: ResultsFolder
    report: Report
    #: Asked when all else is measured: which further steps there are to be.
    more: Callable[[], Sequence[Step]] = tuple
    started: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._secrets = secrets.make(self.plan.settings.fault)
        self.scheduler = Scheduler(
            self.plan, self.machine.processors, self._at_once, self.machine.most_testbeds,
            memory.available_mb() - _SPARE_MB, memory_mb=defaultdict(int, self._memory_mb()))
        self._testbeds = Testbeds(self.plan, self.machine, self.results, self.scheduler,
                                  self._secrets, self.started)

    async def run(self, steps: Sequence[Step], again: Sequence[Step] = ()) -> None:
        """Measure `steps`, and `again` alone; everything started is ended on every way out."""
        self._again: deque[Step] = deque(again)
        self.total = len(steps) + len(again)
        self.scheduler.add(steps)
        self._changed = asyncio.Event()
        self._dissecting: set[asyncio.Task[None]] = set()
        # Getting on the network is work for one processor at a time, its streams hardly are.
        self._turns = {processor: asyncio.Lock() for processor in self.machine.processors}
        # Dissecting is work for the processor alone: more at once would only be slower.
        self._dissectors = Dissectors(len(self.machine.processors))
        try:
            # One group for measuring and dissecting: what cannot be recorded ends the run.
            async with asyncio.TaskGroup() as self._group:
                await self._all_side_by_side()
                await self._all_alone()
        except ExceptionGroup as group:
            raise room.of_group(self.results.path, group) from None
        finally:
            await asyncio.shield(self._testbeds.close())
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
            await self._testbeds.prepare()
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
                    await self._testbeds.retire(place)

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
                    testbed = await self._testbeds.serving(place, processor)
                    out, waits, used = await self._measure(step, testbed)
                except TestbedLost as loss:
                    reason = f"{loss}; tried {attempt} times" if attempt > 1 else str(loss)
                    self.results.log(step.cell.name, f"{step.name}: lost: {loss}")
                    await self._testbeds.retire(place, seat=False)
                    continue
                except TestbedFailed as failure:
                    reason = str(failure)
                    await self._testbeds.retire(place, seat=False)
                    break
                if has_failed(out):  # said before it is dissected: the next may begin at once
                    self._testbeds.judged(place, testbed, is_good=False)
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
        self._testbeds.judged(self.scheduler.place_of(cell), testbed, is_good=found.status == "ok")
        await self._pack(found, out)
        self._note(step, found, out, alone=extra["alone"])
        shutil.rmtree(out, ignore_errors=True)

    async def _pack(self, found: Record, out: Path) -> None:
        """Compress its captures where that does not keep the run from its work."""
        if not self.results.keeps_captures(found):
            return
        files = [capture["file"] for capture in found.captures]
        with room.told(self.results.path, f"{found.name} cannot be kept"):
            try:
                await self._dissectors.run(functools.partial(packing.compress, out, files))
            except DissectorLost:
                packing.compress(out, files)

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
        with room.told(self.results.path, f"{found.name} cannot be kept"):
            if is_kept:
                self.results.keep(found, out if found.captures else None)
            self.results.log(step.cell.name, _line(found))
        self.count(found, is_kept=is_kept)
        if found.environment.get("flags") and not alone:
            self._again.append(step)
            self.total += 1
        self.report(found, self)

    def _environment(self, testbed: Testbed | None) -> dict[str, Any]:
        medium = self.plan.medium.name if self.plan.medium else None
        settings = self.plan.settings
        return {"machine": settings.on, "clock": settings.clock, "builder": settings.builder,
                "medium": medium, "plan": self.plan.digest(), "fault": settings.fault,
                "code_sha256": code_digest(), "image": self.machine.image_key,
                "load_average": os.getloadavg()[0], "guests": self.testbeds,
                "side_by_side": len(self.scheduler.running),
                **(testbed.environment if testbed else {})}


def _line(found: Record) -> str:
    """What the log of a cell says of a repetition."""
    what = f": {found.reason}" if found.reason else ""
    return (f"{found.name}: {found.status}, attempt {found.attempt}, {found.elapsed_s:.1f} s, "
            f"processor {found.environment.get('processor')}{what}")
