"""Perform a run, from its plan to its last record.

The campaign distributes testbeds over processors, keeps the order of blocks, and repeats failed
attempts. A testbed serves its cells from the first repetition to the last, so that the blocked
order costs no reboots. While one repetition is measured, the captures of the last one are dissected
in parallel. Repetitions that were limited by contention for the processor are measured again at the
end, with nothing else running.
"""

from __future__ import annotations

import asyncio
import functools
import json
import shutil
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import secrets
from harness.engine import (
    contention,
    control,
    disk_full,
    memory,
    packing,
    recording,
    wakefulness,
)
from harness.engine.dissectors import DissectorLost, Dissectors
from harness.engine.events import EventLog
from harness.engine.machine import Machine
from harness.engine.plan import Plan, Step, TestbedKey
from harness.engine.restart import has_failed
from harness.engine.results import ResultsFolder
from harness.engine.scheduler import Scheduler
from harness.engine.testbed import TestbedClient, TestbedFailed, TestbedLost
from harness.engine.testbeds import Testbeds
from measure.record import Record
from studies.study import Judged, Repetition

#: Attempts to measure a repetition in all, if its testbed is lost.
ATTEMPTS = 2
#: Memory in MB that is not given to guests when the number of parallel guests is chosen.
_SPARE_MB = 1024
_BACKLOG = 4


@dataclass(frozen=True)
class _Measured:
    """A measured repetition with its testbed and its files."""

    step: Step
    testbed: TestbedClient
    out: Path
    waits: contention.Waits
    attempt: int
    #: The reason why the attempt before was lost, "" if none was.
    lost: str
    exclusive: bool
    #: Start by the host's wall clock (s): guests' clocks run ahead when they skip waiting.
    began_s: float


@dataclass
class Campaign:
    """The state of a run. The method `run` performs the whole run."""

    plan: Plan
    machine: Machine
    results: ResultsFolder
    events: EventLog
    #: Returns further steps to measure. Called when all other steps are measured.
    more: Callable[[], Sequence[Step]] = tuple
    #: Called with every record after it was written.
    kept: Callable[[Record], None] = field(default=lambda _: None)
    #: Called in a thread after the first testbed has started, and before any record is written.
    #: Until then all processors are busy, so that an earlier call would delay the first
    #: measurement.
    beside: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        self._secrets = secrets.make_secrets(self.plan.study.find_fault(self.plan.settings.fault))
        self.scheduler = Scheduler(
            self.plan, self.machine.processors, self._at_once, self.machine.max_testbeds,
            memory.available_mb() - _SPARE_MB, memory_mb=defaultdict(int, self._memory_mb()))
        self._testbeds = Testbeds(self.plan, self.machine, self.results, scheduler=self.scheduler,
                                  secrets=self._secrets, events=self.events)

    async def run(self, steps: Sequence[Step], exclusive_steps: Sequence[Step] = ()) -> None:
        """Measure all steps. Testbeds and processes are ended in every case.

        Args:
            steps: Steps to measure in parallel, in this order.
            exclusive_steps: Steps to measure afterwards, with nothing else running.

        Raises:
            UserError: Results cannot be written.
        """
        self._again: deque[Step] = deque(exclusive_steps)
        self.scheduler.add_steps(steps)
        self._changed = asyncio.Event()
        self._dissecting: set[asyncio.Task[None]] = set()
        self._beside: asyncio.Task[None] | None = None
        # The part of a repetition before "shareable" is CPU-bound: one at a time per processor. The
        # part after it mostly waits.
        self._turns = {processor: asyncio.Lock() for processor in self.machine.processors}
        # Dissection is CPU-bound: more processes than processors would only be slower.
        self._dissectors = Dissectors(len(self.machine.processors))
        try:
            # One task group for measuring and dissecting: a record that cannot be written ends the
            # run.
            with wakefulness.keep_awake(
                    self.machine.processors if self.plan.settings.needs_idle_burners else ()):
                async with control.listen_for_messages(self.results.path, self.send_message), \
                        asyncio.TaskGroup() as self._group:
                    await self._all_side_by_side()
                    await self._all_exclusively()
        except ExceptionGroup as group:
            raise disk_full.error_of_group(self.results.path, group) from None
        finally:
            await asyncio.shield(self._testbeds.close())
            self._dissectors.close()

    def send_message(self, name: str | None, message: Mapping[str, Any]) -> list[str]:
        """Send a message to running repetitions.

        Args:
            name: Name of the repetition, None for all that are running.
            message: The message, a JSON object.

        Returns:
            The names of the repetitions that received it.
        """
        told = []
        for step in self.scheduler.running:
            testbed = self._testbeds.active_testbed(self.plan.testbed_of(step.cell))
            if name in (None, step.name) and testbed is not None:
                testbed.send_message(message)
                told.append(step.name)
        return told

    def _start_background(self) -> asyncio.Task[None]:
        """Return the task of the background work, started by the first call."""
        if self._beside is None:
            self._beside = self._group.create_task(asyncio.to_thread(self.beside))
        return self._beside

    @property
    def _backlog(self) -> int:
        """Return how many repetitions may wait for dissection before no further one is started."""
        return _BACKLOG * len(self.machine.processors)

    @property
    def _at_once(self) -> int:
        """Return how many repetitions one processor measures in parallel.

        It is 1 where waiting is skipped, because one repetition then uses the whole processor.
        """
        return self.machine.at_once if self.plan.settings.is_real_time else 1

    def _memory_mb(self) -> dict[TestbedKey, int]:
        return {key: self.machine.memory_mb(len(testbed.spec.network.nodes),
                                            testbed.spec.memory_mb)
                for key, testbed in self.plan.testbeds.items()}

    async def _all_side_by_side(self) -> None:
        """Start repetitions as the scheduler allows, until no step is left."""
        if self.plan.settings.is_real_time:
            await self._testbeds.start_ahead()
        while True:
            # Measuring may be faster than dissecting; without this limit captures would pile up on
            # the disk.
            while len(self._dissecting) < self._backlog and \
                    (start := self.scheduler.start_next()) is not None:
                self._group.create_task(self._run_step(*start))
            if not self.scheduler.running and not self.scheduler.waiting:
                await self._wait_for_dissection()
                steps = self.more()
                if not steps:
                    return
                self.events.emit_event("run-extended", more=len(steps))
                self.scheduler.add_steps(steps)
                continue
            self._changed.clear()
            await self._changed.wait()
            if self.scheduler.is_short_of_memory():
                for key in self.scheduler.idle_testbeds():
                    await self._testbeds.end_testbed(key)

    async def _all_exclusively(self) -> None:
        """Measure repetitions that waited for the processor again, with nothing else running."""
        while self._again:
            self.scheduler.add_steps([self._again.popleft()])
            start = self.scheduler.start_next()
            assert start is not None
            await self._run_step(*start, exclusive=True)
            await self._wait_for_dissection()

    async def _wait_for_dissection(self) -> None:
        """Wait until no repetition is being dissected."""
        while self._dissecting:
            await asyncio.wait(self._dissecting)

    async def _run_step(self, step: Step, processor: int, *, exclusive: bool = False) -> None:
        """Measure one repetition, with a second attempt if the first testbed was lost."""
        used, reason, attempt, began_s = None, "", 0, time.time()
        key = self.plan.testbed_of(step.cell)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                self.events.emit_event("repetition-started", name=step.name, testbed=key,
                                       attempt=attempt,
                                       exclusive=exclusive)
                try:
                    testbed = await self._testbeds.get_or_start(key, processor)
                    self._start_background()
                    began_s = time.time()
                    out, waits, used = await self._measure_step(step, testbed, attempt)
                except TestbedLost as loss:
                    reason = f"{loss}; tried {attempt} times" if attempt > 1 else str(loss)
                    self.results.append_log(step.cell.name, f"{step.name}: lost: {loss}")
                    self.events.emit_event("testbed-lost", testbed=key, reason=str(loss))
                    await self._testbeds.end_testbed(key, release_slot=False)
                    continue
                except TestbedFailed as failure:
                    reason = str(failure)
                    await self._testbeds.end_testbed(key, release_slot=False)
                    break
                if has_failed(out):  # before dissection: the next one may start now
                    self._testbeds.record_outcome(key, testbed, is_good=False)
                self._start_dissection(_Measured(step, testbed, out, waits, attempt, reason,
                                                 exclusive,
                                                 began_s))
                return
            await self._start_background()
            self._keep_record(step, recording.unmeasured_record(
                self.plan, step, reason, environment=self._record_environment(step, None, began_s),
                attempt=attempt, is_skipped=(
                    self.plan.testbeds[key].spec.packages in self.machine.lacking)),
                None, exclusive=exclusive)
        finally:
            self.scheduler.note_end(step, used)
            self._changed.set()

    async def _measure_step(self, step: Step, testbed: TestbedClient,
                            attempt: int) -> tuple[Path, contention.Waits, float]:
        """Measure a repetition.

        Returns:
            Its folder, the samples of waiting for the processor, and the share of the processor it
                used.
        """
        study, asked = self.plan.study, self.plan.asked
        waits = contention.Waits(testbed.pid)
        watching = asyncio.create_task(waits.sample_until_cancelled())
        begun, used = asyncio.get_running_loop().time(), contention.Used(testbed.pid)
        self.results.append_report(step.name, {"event": "attempt", "number": attempt})
        try:
            out = await testbed.measure_repetition(
                step.name, study.task(step.cell, asked), study.deadline_s(step.cell, asked),
                repetition=step.repetition, turn=self._turns[testbed.processor],
                on_report=used.make_listener(functools.partial(self._note_report, step.name)))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        lasted_s = asyncio.get_running_loop().time() - begun
        used.write_file(out)
        self.events.emit_event("repetition-measured", name=step.name, lasted_s=round(lasted_s, 3))
        return out, waits, used.by_now_s / lasted_s

    def _note_report(self, name: str, report: Mapping[str, Any]) -> None:
        """Write a repetition's report to its file, and announce a reported reason for waiting."""
        self.results.append_report(name, report)
        if report.get("name") == "waits":
            self.events.emit_event("repetition-waits", name=name, waits=str(report.get("what", "")))

    def _start_dissection(self, measured: _Measured) -> None:
        """Dissect and record a repetition while the processor continues with the next one."""
        task = self._group.create_task(self._judge_and_record(measured))
        self._dissecting.add(task)
        task.add_done_callback(self._dissecting.discard)
        task.add_done_callback(lambda _: self._changed.set())

    async def _judge_and_record(self, measured: _Measured) -> None:
        step, out, attempt = measured.step, measured.out, measured.attempt
        verdict: Judged | None = None
        environment = self._record_environment(step, measured.testbed, measured.began_s)
        if measured.lost:
            environment["first_attempt"] = measured.lost
        try:
            environment |= self._judge_contention(measured)
            verdict = await self._dissectors.run_task(functools.partial(
                recording.judge_repetition, self.plan.study,
                Repetition(step.cell, self.plan.asked, out, self._secrets,
                           self.plan.settings.clock, self.plan.settings.fault or "")))
            if verdict.flags:
                environment |= {"flags": [*environment.get("flags", ()), *verdict.flags],
                                "alone": measured.exclusive}
            entry = recording.judged_record(self.plan, step, verdict, environment=environment,
                                            attempt=attempt, secrets=self._secrets)
        except Exception as error:  # noqa: BLE001 - a study's own judge may raise anything
            entry = recording.unmeasured_record(
                self.plan, step, f"captures cannot be judged: {error}", environment=environment,
                attempt=attempt)
        self._testbeds.record_outcome(self.plan.testbed_of(step.cell), measured.testbed,
                                      is_good=entry.status == "ok")
        if verdict is not None:
            sums = await self._pack_files(entry, out)
            entry = recording.with_checksums(entry, sums, keeps=self.results.keeps_captures(entry))
        await self._start_background()
        self._keep_record(step, entry, out, exclusive=measured.exclusive)
        shutil.rmtree(out, ignore_errors=True)

    async def _pack_files(self, entry: Record, out: Path) -> dict[str, str]:
        """Compress the files to keep and return the checksums of all files.

        A dissector does this work, at low priority. If the dissectors are lost, this process does
        it.
        """
        pack = functools.partial(
            packing.pack_files, out, [capture["file"] for capture in entry.captures],
            [name for name in entry.files if name != packing.PACKED_RAW],
            keeps_captures=self.results.keeps_captures(entry))
        with disk_full.report_errors(self.results.path, f"{entry.name} cannot be kept"):
            try:
                return await self._dissectors.run_task(pack)
            except DissectorLost:
                return pack()

    def _judge_contention(self, measured: _Measured) -> dict[str, Any]:
        """Return the part of a record's environment about the processor.

        It holds the repetition's use of the processor and its waiting times.
        """
        if self.plan.settings.on != "guest":
            return {}
        raw = json.loads((measured.out / "raw.json").read_text())
        if not self.plan.settings.is_real_time:
            counted = raw.get("processor_clock")
            return {"processor_clock": counted} if counted else {}
        shares = contention.judge_contention(measured.waits, raw, self.plan.study.stages)
        if not measured.exclusive:
            self.scheduler.note_wait(shares["severity"])
        return {"processor": shares, "flags": [contention.FLAG] if shares["limits"] else [],
                "alone": measured.exclusive}

    def _keep_record(self, step: Step, entry: Record, out: Path | None, *, exclusive: bool) -> None:
        # A failed second measurement must not replace the first, flagged record.
        is_kept = entry.status == "ok" or not exclusive
        with disk_full.report_errors(self.results.path, f"{entry.name} cannot be kept"):
            if is_kept:
                self.results.keep_record(entry, out)
            self.results.append_log(step.cell.name, _log_line(entry))
        if contention.is_due_again(entry.environment):
            self._again.append(step)
        recording.announce_record(self.plan.study, entry, self.events, is_kept=is_kept)
        if is_kept:
            self.kept(entry)

    def _record_environment(self, step: Step, testbed: TestbedClient | None,
                            began_s: float) -> dict[str, Any]:
        spec = self.plan.testbeds[self.plan.testbed_of(step.cell)].spec
        return {**recording.describe_circumstances(self.plan, step),
                "image": self.machine.image_key(spec.packages),
                "guests": len(self._testbeds), "side_by_side": len(self.scheduler.running),
                "measured_at_s": round(began_s, 3),
                **(testbed.environment if testbed else {})}


def _log_line(entry: Record) -> str:
    """Return the line about a repetition for its cell's log."""
    what = f": {entry.reason}" if entry.reason else ""
    return (f"{entry.name}: {entry.status}, attempt {entry.attempt}, {entry.elapsed_s:.1f} s, "
            f"processor {entry.environment.get('processor')}{what}")
