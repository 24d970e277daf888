"""A run from its plan to its last record: testbeds over processors, blocks in order, one retry.

A cell keeps its testbed from its first repetition to its last, so that the blocked order costs no
reboots. Each lane measures one repetition at a time; while it goes on to the next, the last one's
captures are dissected beside it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import render, secrets
from harness.errors import UserError
from harness.machine import Machine
from harness.plan import Plan, Step
from harness.provenance import code_digest
from harness.results import ResultsFolder
from harness.testbed import Testbed, TestbedFailed, TestbedLost
from measure import assemble
from measure.errors import MeasureError
from measure.record import Record

#: A lost machine's repetition is tried this often in all.
ATTEMPTS = 2
#: Memory to leave to everything else when deciding how many guests may live side by side.
_SPARE_MB = 1024

Report = Callable[[Record, "Campaign"], None]


@dataclass
class Campaign:
    """The state of a run; `run` is the whole of it."""

    plan: Plan
    machine: Machine
    results: ResultsFolder
    report: Report
    done: int = 0
    total: int = 0
    failed: list[Record] = field(default_factory=list)
    _opened: int = 0
    _testbeds: dict[str, Testbed] = field(default_factory=dict)

    async def run(self, steps: Sequence[Step]) -> None:
        """Measure `steps`; everything started is ended on every way out."""
        self.total = len(steps)
        self._secrets = secrets.make(self.plan.settings.fault)
        self._renderer = render.Renderer(self.plan.scenarios, self._secrets, self.results.work)
        try:
            for wave in self._waves(steps):
                # One group for measuring and dissecting: what cannot be recorded ends the run.
                async with asyncio.TaskGroup() as self._group:
                    for processor, queue in self._lanes(wave):
                        self._group.create_task(self._work(processor, queue))
                await self._close_all()
        except ExceptionGroup as group:
            for_user = group.subgroup(UserError)
            raise (for_user or group).exceptions[0] from None
        finally:
            await asyncio.shield(self._close_all())
            await self._renderer.close()

    def _waves(self, steps: Sequence[Step]) -> list[list[Step]]:
        """Steps in waves of as many cells as memory has room for; blocks stay whole in a wave."""
        spare_mb = _available_mb() - _SPARE_MB
        least = len(self.machine.processors) * self.machine.lanes
        waves: list[set[str]] = [set()]
        left_mb = spare_mb
        for name, cell in {step.cell.name: step.cell for step in steps}.items():
            needs_mb = self.machine.memory_mb(len(cell.scenario.network.nodes))
            full = len(waves[-1]) >= self.machine.most_testbeds or (
                left_mb < needs_mb and len(waves[-1]) >= least)
            if full:
                waves.append(set())
                left_mb = spare_mb
            waves[-1].add(name)
            left_mb -= needs_mb
        return [[step for step in steps if step.cell.name in wave] for wave in waves]

    def _lanes(self, steps: Sequence[Step]) -> list[tuple[int, deque[Step]]]:
        """What is measured side by side: each lane's processor and steps.

        A cell stays with one lane, and so does its guest with one processor.
        """
        lanes: list[tuple[int, deque[Step]]] = [
            (processor, deque()) for _ in range(self.machine.lanes)
            for processor in self.machine.processors]
        names = list(dict.fromkeys(step.cell.name for step in steps))
        lane_of = {name: i % len(lanes) for i, name in enumerate(names)}
        for step in steps:
            lanes[lane_of[step.cell.name]][1].append(step)
        return lanes

    async def _work(self, processor: int, queue: deque[Step]) -> None:
        while queue:
            step = queue.popleft()
            await self._measure(step, processor)
            if all(later.cell.name != step.cell.name for later in queue):
                await self._retire(step.cell.name)

    async def _measure(self, step: Step, processor: int) -> None:
        """One repetition, with a second try on a fresh machine when the first was lost."""
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            testbed = self._testbeds.get(step.cell.name)
            try:
                if testbed is None:
                    testbed = await self._open(step, processor)
                out = await testbed.measure(step.name)
            except TestbedLost as loss:
                reason = f"{loss}; tried {attempt} times" if attempt > 1 else str(loss)
                await self._retire(step.cell.name)
                continue
            except TestbedFailed as failure:
                reason = str(failure)
                await self._retire(step.cell.name)
                break
            self._finish_later(step, testbed, out, attempt, lost=reason)
            return
        self._note(assemble.unmeasured(
            step.cell.policy, step.cell.scenario, step.repetition, reason, attempt=attempt,
            environment=self._environment(None)), None)

    async def _open(self, step: Step, processor: int) -> Testbed:
        self._opened += 1
        testbed = Testbed(self.machine, processor, step.cell, self.plan.medium, self.plan.settings,
                          self.results.work, serial=self._opened)
        self._testbeds[step.cell.name] = testbed
        await testbed.open(self._secrets, self._renderer)
        return testbed

    def _finish_later(self, step: Step, testbed: Testbed, out: Path, attempt: int,
                      lost: str) -> None:
        """Dissect and record while the processor goes on to its next repetition."""
        self._group.create_task(self._finish(step, testbed, out, attempt, lost))

    async def _finish(self, step: Step, testbed: Testbed, out: Path, attempt: int,
                      lost: str) -> None:
        environment = self._environment(testbed)
        if lost:
            environment["first_attempt"] = lost
        try:
            found = await asyncio.to_thread(
                assemble.assemble, step.cell.policy, step.cell.scenario, step.repetition, out,
                environment=environment, wep_key=self._secrets["network"]["wep_key"],
                attempt=attempt)
        except (MeasureError, OSError, ValueError, KeyError) as error:
            found = assemble.unmeasured(
                step.cell.policy, step.cell.scenario, step.repetition,
                f"captures cannot be judged: {error}", environment=environment, attempt=attempt)
        self._note(found, out)
        shutil.rmtree(out, ignore_errors=True)

    def _note(self, found: Record, out: Path | None) -> None:
        try:
            self.results.keep(found, out if found.captures else None)
        except OSError as error:
            raise UserError(f"{self.results.path}: {found.name} cannot be kept ({error.strerror}); "
                            "make room and give the same command again, which goes on from here",
                            status=1) from error
        self.done += 1
        if found.status != "ok":
            self.failed.append(found)
        self.report(found, self)

    def _environment(self, testbed: Testbed | None) -> dict[str, Any]:
        medium = self.plan.medium.name if self.plan.medium else None
        return {"machine": self.plan.settings.on, "clock": "real", "medium": medium,
                "plan": self.plan.digest(), "fault": self.plan.settings.fault,
                "code_sha256": code_digest(), "image": self.machine.image_key,
                "load_average": os.getloadavg()[0], "guests": len(self._testbeds),
                **(testbed.environment if testbed else {})}

    async def _retire(self, name: str) -> None:
        """End a cell's testbed; its files stay until the run ends, for what is still dissected."""
        testbed = self._testbeds.pop(name, None)
        if testbed is not None:
            await testbed.close()
            self.results.keep_logs(name, testbed.logs)

    async def _close_all(self) -> None:
        for name in list(self._testbeds):
            await self._retire(name)


def _available_mb() -> int:
    """Memory that can be used without swapping, in MB (Linux' own estimate)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0
