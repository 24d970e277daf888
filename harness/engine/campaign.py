"""Measure all repetitions of a run, and write one record (JSON file) for each.

A repetition is one measurement, for example of one policy in one scenario. `Campaign` takes the
plan of the run and its results folder. It distributes testbeds (emulated networks in guest
machines) over the processors, keeps the order of the plan, and retries lost repetitions
(harness.engine.retries). A testbed measures all its repetitions one after the other, so that it
boots only once. While one repetition is measured, the packet captures of the previous one are
dissected in parallel. Repetitions that had to wait too long for a processor are measured again at
the end, with nothing else running.
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

from harness import errors, secrets
from harness.engine import control_socket, cpu_contention, host, postprocessing, recording, retries
from harness.engine.events import EventLog
from harness.engine.machine import Machine
from harness.engine.plan import Plan, Step, TestbedKey
from harness.engine.postprocessing import DissectorLost, DissectorPool
from harness.engine.results import ResultsFolder
from harness.engine.scheduler import Scheduler
from harness.engine.testbed import TestbedClient, TestbedFailed, TestbedLost
from harness.engine.testbed_pool import TestbedPool
from measure.records.record import Record
from studies.study import Judgement, Repetition

#: Memory in MB that is not given to guests when the number of parallel guests is chosen.
_SPARE_MB = 1024
_BACKLOG = 4


@dataclass(frozen=True)
class _Measurement:
    """A finished measurement of one repetition, with its emulated network and its files.

    - `step`, `attempt`: the repetition, and the number of this attempt
    - `out`: folder of its files
    - `waits`: samples of the guest's running and waiting time
    - `exclusive`: whether no other guest ran at that time
    """

    step: Step
    testbed: TestbedClient
    out: Path
    waits: cpu_contention.CpuWaitSampler
    attempt: int
    #: The reason why the attempt before was lost, "" if none was.
    lost: str
    exclusive: bool
    #: Start by the host's wall clock (s): guests' clocks run ahead when they skip waiting.
    began_s: float


@dataclass
class Campaign:
    """A run in progress: its plan, its emulated networks (testbeds) and its results.

    `run` performs the whole run.
    """

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
    background_work: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        self._secrets = secrets.make_secrets(self.plan.study.find_fault(self.plan.settings.fault))
        self.scheduler = Scheduler(
            self.plan, self.machine.processors, self._at_once, self.machine.max_testbeds,
            host.read_available_mb() - _SPARE_MB, memory_mb=defaultdict(int, self._memory_mb()))
        self._testbeds = TestbedPool(self.plan, self.machine, self.results,
                                     scheduler=self.scheduler,
                                     secrets=self._secrets, events=self.events)

    async def run(self, steps: Sequence[Step], exclusive_steps: Sequence[Step] = ()) -> None:
        """Measure all repetitions.

        Testbeds and processes are ended in every case.

        Args:
            steps: Repetitions to measure in parallel, in this order.
            exclusive_steps: Repetitions to measure afterwards, with nothing else running.

        Raises:
            UserError: Results cannot be written.
        """
        self._exclusive_retries: deque[Step] = deque(exclusive_steps)
        self.scheduler.add_steps(steps)
        self._changed = asyncio.Event()
        self._dissecting: set[asyncio.Task[None]] = set()
        self._background: asyncio.Task[None] | None = None
        # The part of a repetition before "shareable" is CPU-bound: one at a time per processor. The
        # part after it mostly waits.
        self._turns = {processor: asyncio.Lock() for processor in self.machine.processors}
        # Dissection is CPU-bound: more processes than processors would only be slower.
        self._dissectors = DissectorPool(len(self.machine.processors))
        try:
            # One task group for measuring and dissecting: a record that cannot be written ends the
            # run.
            with host.keep_processors_awake(
                    self.machine.processors if self.plan.settings.needs_idle_burners else ()):
                async with control_socket.listen_for_messages(self.results.path,
                                                              self.send_message), \
                        asyncio.TaskGroup() as self._group:
                    await self._all_side_by_side()
                    await self._retry_exclusively()
        except ExceptionGroup as group:
            raise errors.select_error(self.results.path, group) from None
        finally:
            await asyncio.shield(self._testbeds.close())
            self._dissectors.close()

    def send_message(self, name: str | None, message: Mapping[str, Any]) -> list[str]:
        """Send a message of the user (`./qop tell`) to running repetitions.

        Args:
            name: Name of the repetition, None for all that are running.
            message: The message, a JSON object.

        Returns:
            The names of the repetitions that received it.
        """
        recipients = []
        for step in self.scheduler.running:
            testbed = self._testbeds.active_testbed(self.plan.testbed_of(step.cell))
            if name in (None, step.name) and testbed is not None:
                testbed.send_message(message)
                recipients.append(step.name)
        return recipients

    def _start_background(self) -> asyncio.Task[None]:
        """Start the campaign's background work in a thread once, and return its task."""
        if self._background is None:
            self._background = self._group.create_task(asyncio.to_thread(self.background_work))
        return self._background

    @property
    def _backlog(self) -> int:
        """Return the largest number of measured repetitions that may wait for packet dissection.

        No further repetition starts while more are waiting.
        """
        return _BACKLOG * len(self.machine.processors)

    @property
    def _at_once(self) -> int:
        """Return how many repetitions one processor measures in parallel.

        The number is 1 with the virtual and processor clocks. These skip idle time, so one
        repetition uses the whole processor.
        """
        return self.machine.at_once if self.plan.settings.is_real_time else 1

    def _memory_mb(self) -> dict[TestbedKey, int]:
        return {key: self.machine.memory_mb(len(testbed.spec.network.nodes),
                                            testbed.spec.memory_mb)
                for key, testbed in self.plan.testbeds.items()}

    async def _all_side_by_side(self) -> None:
        """Measure all repetitions in parallel, as the scheduler allows."""
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

    async def _retry_exclusively(self) -> None:
        """Retry, one at a time, the repetitions that had to wait for a processor."""
        while self._exclusive_retries:
            self.scheduler.add_steps([self._exclusive_retries.popleft()])
            start = self.scheduler.start_next()
            assert start is not None
            await self._run_step(*start, exclusive=True)
            await self._wait_for_dissection()

    async def _wait_for_dissection(self) -> None:
        """Wait until the captures of all measured repetitions are dissected."""
        while self._dissecting:
            await asyncio.wait(self._dissecting)

    async def _run_step(self, step: Step, processor: int, *, exclusive: bool = False) -> None:
        """Measure one repetition. If its guest machine is lost, try once more on a new one."""
        used, reason, attempt, began_s = None, "", 0, time.time()
        key = self.plan.testbed_of(step.cell)
        try:
            for attempt in range(1, retries.ATTEMPTS + 1):
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
                if retries.has_failed(out):  # before dissection: the next one may start now
                    self._testbeds.record_outcome(key, testbed, is_good=False)
                self._start_dissection(_Measurement(step, testbed, out, waits, attempt, reason,
                                                    exclusive,
                                                    began_s))
                return
            await self._start_background()
            self._keep_record(step, recording.make_unmeasured_record(
                self.plan, step, reason, environment=self._record_environment(step, None, began_s),
                attempt=attempt, is_skipped=(
                    self.plan.testbeds[key].spec.image_name in self.machine.lacking
                    or bool(self.plan.find_lack(step.cell)))),
                None, exclusive=exclusive)
        finally:
            self.scheduler.note_end(step, used)
            self._changed.set()

    async def _measure_step(self, step: Step, testbed: TestbedClient,
                            attempt: int) -> tuple[Path, cpu_contention.CpuWaitSampler, float]:
        """Measure one repetition on a testbed.

        Returns:
            The folder with its files, samples of the time that the guest waited for the processor,
            and the CPU time that the guest used, as a fraction of the elapsed time.
        """
        study, asked = self.plan.study, self.plan.asked
        waits = cpu_contention.CpuWaitSampler(testbed.pid)
        watching = asyncio.create_task(waits.sample_until_cancelled())
        begun, used = asyncio.get_running_loop().time(), cpu_contention.CpuTimeCounter(testbed.pid)
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
        return out, waits, used.elapsed_cpu_s / lasted_s

    def _note_report(self, name: str, report: Mapping[str, Any]) -> None:
        """Append a message of the running repetition to its event file.

        If the message says why the repetition waits, announce that as an event of the run.
        """
        self.results.append_report(name, report)
        if report.get("name") == "waits":
            self.events.emit_event("repetition-waits", name=name, waits=str(report.get("what", "")))

    def _start_dissection(self, measured: _Measurement) -> None:
        """Dissect the captures of a repetition and write its record, in a background task."""
        task = self._group.create_task(self._judge_and_record(measured))
        self._dissecting.add(task)
        task.add_done_callback(self._dissecting.discard)
        task.add_done_callback(lambda _: self._changed.set())

    async def _judge_and_record(self, measured: _Measurement) -> None:
        step, out, attempt = measured.step, measured.out, measured.attempt
        verdict: Judgement | None = None
        environment = self._record_environment(step, measured.testbed, measured.began_s)
        if measured.lost:
            environment["first_attempt"] = measured.lost
        try:
            environment |= self._judge_contention(measured) | self._describe_cards(measured)
            verdict = await self._dissectors.run_task(functools.partial(
                recording.judge_repetition, self.plan.study,
                Repetition(step.cell, self.plan.asked, out, self._secrets,
                           self.plan.settings.clock, self.plan.settings.fault or "")))
            if verdict.flags:
                environment |= {"flags": [*environment.get("flags", ()), *verdict.flags],
                                "alone": measured.exclusive}
            entry = recording.make_judged_record(self.plan, step, verdict, environment=environment,
                                                 attempt=attempt, secrets=self._secrets)
        except Exception as error:  # noqa: BLE001 - a study's own judge may raise anything
            entry = recording.make_unmeasured_record(
                self.plan, step, f"captures cannot be judged: {error}", environment=environment,
                attempt=attempt)
        self._testbeds.record_outcome(self.plan.testbed_of(step.cell), measured.testbed,
                                      is_good=entry.status == "ok")
        if verdict is not None:
            sums = await self._pack_files(entry, out)
            entry = recording.add_checksums(entry, sums, keeps=self.results.keeps_captures(entry))
        await self._start_background()
        self._keep_record(step, entry, out, exclusive=measured.exclusive)
        shutil.rmtree(out, ignore_errors=True)

    async def _pack_files(self, entry: Record, out: Path) -> dict[str, str]:
        """Compress the files of a repetition that are kept, and return checksums of all its files.

        A low-priority process does this work. If those processes were killed, this one does it.
        """
        pack = functools.partial(
            postprocessing.pack_files, out, [capture["file"] for capture in entry.captures],
            [name for name in entry.files if name != postprocessing.PACKED_RAW],
            keeps_captures=self.results.keeps_captures(entry))
        with errors.report_disk_errors(self.results.path, f"{entry.name} cannot be kept"):
            try:
                return await self._dissectors.run_task(pack)
            except DissectorLost:
                return pack()

    def _judge_contention(self, measured: _Measurement) -> dict[str, Any]:
        """Return CPU use and waiting times of a repetition, for its record's environment."""
        if self.plan.settings.on != "guest":
            return {}
        raw = json.loads((measured.out / "raw.json").read_text())
        if not self.plan.settings.is_real_time:
            counted = raw.get("processor_clock")
            return {"processor_clock": counted} if counted else {}
        shares = cpu_contention.judge_contention(measured.waits, raw, self.plan.study.stages)
        if not measured.exclusive:
            self.scheduler.note_wait(shares["severity"])
        return {"processor": shares, "flags": [cpu_contention.FLAG] if shares["limits"] else [],
                "alone": measured.exclusive}

    def _describe_cards(self, measured: _Measurement) -> dict[str, Any]:
        """Return the cards that were radios of a repetition, for its record's environment."""
        if not self.plan.settings.cards:
            return {}
        return {"cards": json.loads((measured.out / "raw.json").read_text()).get("cards", {})}

    def _keep_record(self, step: Step, entry: Record, out: Path | None, *, exclusive: bool) -> None:
        # A failed second measurement must not replace the first, flagged record.
        is_kept = entry.status == "ok" or not exclusive
        with errors.report_disk_errors(self.results.path, f"{entry.name} cannot be kept"):
            if is_kept:
                self.results.keep_record(entry, out)
            self.results.append_log(step.cell.name, _log_line(entry))
        if retries.needs_exclusive_retry(entry.environment):
            self._exclusive_retries.append(step)
        recording.announce_record(self.plan.study, entry, self.events, is_kept=is_kept)
        if is_kept:
            self.kept(entry)

    def _record_environment(self, step: Step, testbed: TestbedClient | None,
                            began_s: float) -> dict[str, Any]:
        spec = self.plan.testbeds[self.plan.testbed_of(step.cell)].spec
        return {**recording.describe_circumstances(self.plan, step),
                "image": self.machine.image_key(spec.image_name),
                "guests": len(self._testbeds), "side_by_side": len(self.scheduler.running),
                "measured_at_s": round(began_s, 3), **self.machine.describe_machine(),
                **(testbed.environment if testbed else {})}


def _log_line(entry: Record) -> str:
    """Return the log line about a repetition: status, attempt, duration and reason."""
    what = f": {entry.reason}" if entry.reason else ""
    return (f"{entry.name}: {entry.status}, attempt {entry.attempt}, {entry.elapsed_s:.1f} s, "
            f"processor {entry.environment.get('processor')}{what}")
