"""A client for a testbed: start, configure and measure it.

A testbed serves all cells of its spec, one repetition after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any

from harness import render
from harness.engine import libraries, speeds, variants
from harness.engine.machine import Lacking, Machine, Running
from harness.engine.plan import Plan, PlannedTestbed, node_devices
from harness.engine.standstill import ENDED_S, Standstill, watch_clock
from harness.secrets import Secrets
from measure.charging import library
from policies import Policy
from topologies import loader, wires

READY_S = 60.0
#: Additional seconds for each node: a busy host starts its daemons one after the other.
NODE_S = 3.0
CONFIGURE_S = 60.0
#: Seconds that a machine may take to answer, in addition to the study's deadline.
_SPARE_S = 30.0
# Events of a worker during an operation.
_UNDER_WAY = ("hello", "report")
#: The report after which a repetition shares the processor with others.
_SHAREABLE = "shareable"
_LAST_WORDS_S = 2.0

#: The message of the guest's kernel when it ends a program because memory is exhausted.
_OUT_OF_MEMORY = re.compile(r"Out of memory: Killed process \d+ \((.+?)\).*?anon-rss:(\d+)kB")
#: Events after which a repetition continues. After any other event, the console is checked for a
#: program that was ended because memory was exhausted.
_GOES_ON = (*_UNDER_WAY, "ready", "configured")

#: A listener for the reports of a running repetition.
Heard = Callable[[Mapping[str, Any]], None]


class TestbedLost(Exception):
    """An error for a machine that died, hung or sent invalid data.

    A fresh testbed may work.
    """


class TestbedFailed(Exception):
    """An error for a testbed that works, but not with this policy.

    The text is the reason.
    """


class TestbedClient:
    """A client of a worker on a machine, with one policy on one network.

    Args:
        machine: The machine that runs the worker.
        processor: Processor that the worker runs on.
        planned: The testbed in the plan.
        plan: The plan.
        work: Working folder of the run.
        serial: Number that distinguishes testbeds of the same key in the run.
        show: Called with a standstill of the guest's clock, and with None once it advances again.
    """

    def __init__(self, machine: Machine, processor: int, planned: PlannedTestbed, plan: Plan,
                 work: Path, *, serial: int = 1,
                 show: Callable[[Standstill | None], None] = lambda _: None) -> None:
        self.machine = machine
        self.processor = processor
        self.spec = planned.spec
        self.name = planned.key
        self._cells = planned.cells
        self._plan = plan
        self.work = work
        # A separate folder for every testbed: an earlier one's files may still be read.
        self.job_dir = work / "jobs" / f"{serial}-{self.name}"
        self.environment: dict[str, Any] = {}
        #: Whether a repetition is running, so that it can receive messages.
        self.is_measuring = False
        self._running: Running | None = None
        self._sent = 0
        #: Listener for a standstill of the guest's clock, and for its end (None).
        self._show = show
        self._watch: asyncio.Task[None] | None = None
        self._ended_by_watch = ""

    async def open(self, run_secrets: Secrets, renderer: render.Renderer) -> None:
        """Start the machine, build the network and configure the policy.

        The policy is rendered in parallel, because this takes longest.

        Args:
            run_secrets: The run's secrets.
            renderer: Renders the policy.

        Raises:
            TestbedLost: The machine ended or did not answer.
            TestbedFailed: The testbed cannot be started with this policy.
        """
        rendering = asyncio.create_task(self._await_rendering(renderer))  # this takes longest
        try:
            self._write_job(run_secrets)
            self._running = await self._start_worker()
            if self._skips_waiting:
                self._watch = asyncio.create_task(self._watch_clock(self._running))
            await self._expect_event("hello", READY_S)
            ready = await self._expect_event("ready", READY_S
                                             + len(self.spec.network.nodes) * NODE_S)
            self.environment = ready["environment"]
            rendered = await rendering
            if rendered is not None:
                shutil.copytree(rendered, self.job_dir / "conf" / self.name)
        except BaseException:
            rendering.cancel()
            await asyncio.gather(rendering, return_exceptions=True)
            raise
        self._send_command(do="configure", conf=self.name if self.spec.policy else None)
        configured = await self._expect_event("configured", CONFIGURE_S)
        speeds.store_speeds(self.machine.image_key(), configured.get("speeds") or {})

    def _write_job(self, run_secrets: Secrets) -> None:
        (self.job_dir / "out" / "logs").mkdir(parents=True)
        (self.job_dir / "commands").mkdir()
        job = self.job_dir / "job.json"
        job.touch(0o600)  # it contains the run's keys
        job.write_text(json.dumps(self._job_document(self.machine.mount_path(self.job_dir),
                                                     run_secrets)))

    async def _start_worker(self) -> Running:
        try:
            return await self.machine.start_worker(
                self.job_dir, self.processor, len(self.spec.network.nodes),
                study=self._plan.study.id, packages=self.spec.packages,
                clock=self._plan.settings.clock, more_mb=self.spec.memory_mb)
        except Lacking as error:
            raise TestbedFailed(str(error)) from None

    def begin_rendering(self, renderer: render.Renderer) -> asyncio.Task[Path] | None:
        """Start to render the policy, if that was not started before.

        The result is None for a testbed without a policy.
        """
        policy, mount = self._in_force, self.machine.mount_path(self.job_dir)
        return renderer.begin_rendering(policy, self.spec.network, mount) if policy else None

    async def _await_rendering(self, renderer: render.Renderer) -> Path | None:
        """Return the folder with the policy's files.

        The result is None for a testbed without a policy.
        """
        rendering = self.begin_rendering(renderer)
        # Other testbeds may wait for this task, so a cancelled caller must not cancel it.
        return await asyncio.shield(rendering) if rendering else None

    @property
    def _in_force(self) -> Policy | None:
        """Return the policy of the nodes: the spec's, unless a negative control replaces it."""
        fault = self._plan.study.find_fault(self._plan.settings.fault)
        policy = self.spec.policy
        return fault.policy(policy) if policy and fault and fault.policy else policy

    async def measure_repetition(self, name: str, task: Mapping[str, Any], deadline_s: float, *,
                                 repetition: int = 0,
                                 turn: AbstractAsyncContextManager[Any] | None = None,
                                 on_report: Heard = lambda _: None) -> Path:
        """Measure one repetition and return the folder with its captures and raw values.

        The repetition uses the whole processor until it reports that others may share it.

        Args:
            name: Name of the repetition.
            task: The workload's task, as plain data.
            deadline_s: The study's deadline, in seconds.
            repetition: Number of the repetition.
            turn: A lock of the processor, held until the processor may be shared.
            on_report: Called with each report.

        Raises:
            TestbedLost: The machine ended or did not answer in time.
            TestbedFailed: The testbed does not work with this policy.
        """
        async with AsyncExitStack() as holding:
            await holding.enter_async_context(turn or nullcontext())
            self._send_command(do="measure", name=name, task=task, repetition=repetition)
            self.is_measuring = True
            try:
                async for report in self._read_reports(_spare_s() + deadline_s):
                    on_report(report)
                    if report.get("name") == _SHAREABLE:
                        await holding.aclose()
            finally:
                self.is_measuring = False
        return self.job_dir / "out" / name

    async def _read_reports(self, allowed_s: float) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the reports of the running repetition until it ends."""
        until = asyncio.get_running_loop().time() + allowed_s
        while True:
            left_s = max(0.0, until - asyncio.get_running_loop().time())
            said = await self._expect_event("measured", left_s, "report", of_s=allowed_s)
            if said["event"] == "measured":
                return
            yield said

    def send_message(self, message: Mapping[str, Any]) -> None:
        """Send a message to the running repetition.

        The repetition's reports show which values it accepted.
        """
        self._send_command(do="tell", **message)

    async def call_command(self, command: str, task: Mapping[str, Any],
                           deadline_s: float = 0.0) -> dict[str, Any]:
        """Run another command of the workload and return its answer."""
        self._send_command(do="call", command=command, task=task)
        while (said := await self._expect_event("called", _spare_s() + deadline_s,
                                                "report"))["event"] != "called":
            pass
        answer: dict[str, Any] = said["result"]
        return answer

    async def run_shell(self, **command: Any) -> dict[str, Any]:
        """Run the worker's `run_shell` command to its end, without a time limit.

        Returns:
            The last event.
        """
        self._send_command(do="shell", **command)
        return await self._expect_event("shell_ended", None)

    def move_to(self, processor: int) -> None:
        """Move the machine to another processor."""
        if processor != self.processor:
            assert self._running is not None
            self._running.move_to(processor)
            self.processor = processor

    async def close(self) -> None:
        """End the machine. The call is allowed at any time and repeatedly."""
        if self._watch is not None:
            self._watch.cancel()
        if self._running is not None:
            await self._running.close()

    async def _watch_clock(self, running: Running) -> None:
        """End the guest if its clock stands still."""
        standstill = await watch_clock(running.pid, self._show,
                                       ended_s=max(ENDED_S, _spare_s()))
        self._ended_by_watch = f"{standstill}; ended by the watchdog"
        await running.close()

    @property
    def pid(self) -> int:
        """Return the process id of the machine's worker, or of its guest."""
        assert self._running is not None
        return self._running.pid

    @property
    def logs(self) -> Path:
        """Return the folder with the logs of console, worker and daemons."""
        return self.job_dir / "out" / "logs"

    @property
    def _skips_waiting(self) -> bool:
        return not self._plan.settings.is_real_time

    @property
    def _macsec_effect(self) -> str:
        """Return what MACsec does to frames on wires.

        The result is "" if the policy does not use MACsec.
        """
        wire = self._in_force.layers.wire if self._in_force else None
        if wire is None:
            return ""
        return wires.ENCRYPTS if wire.is_encrypted else wires.AUTHENTICATES

    def _job_document(self, mount: str, run_secrets: Secrets) -> dict[str, Any]:
        """Return the worker's job: the description of its testbed."""
        plan, spec = self._plan, self.spec
        link = self._in_force.layers.link if self._in_force else None
        fault = plan.study.find_fault(plan.settings.fault)
        return {
            "study": plan.study.id, "inside": plan.study.inside, "mount": mount,
            "network": loader.to_json(spec.network),
            "medium": loader.to_json(spec.medium) if spec.medium else None,
            "clock": plan.settings.clock, "builder": plan.settings.builder,
            "seed": plan.settings.seed,
            "packages": variants.package_names(plan.study.id, spec.packages),
            "options": dict(spec.options), "devices": node_devices(spec),
            "speeds": (speeds.stored_speeds(self.machine.image_key())
                       if plan.settings.clock == "processor" else {}),
            # Preloaded into programs on devices, to report the node and the kind of their work.
            "kinds_library": (libraries.to_send(library.KINDS)
                              if plan.settings.clock == "processor" else ""),
            # Preloaded into tcpdump: in real time one that hands packets over promptly, and one for
            # the running tcpdump that captures are copies of. Only in guests, because a host may
            # confine its tcpdump.
            "captures_library": (libraries.to_send(library.PROMPT)
                                 if plan.settings.is_real_time and plan.settings.on == "guest"
                                 else ""),
            "copies_library": (libraries.to_send(library.COPIES)
                               if plan.settings.on == "guest" else ""),
            # Preloaded into iperf3 clients, so that a stream ends only when all its data has
            # arrived.
            "streams_library": libraries.to_send(library.DRAINED),
            "tasks": {cell.name: dict(plan.study.task(cell, plan.asked)) for cell in self._cells},
            "cipher_bytes": link.frame_expansion_bytes if link else 0,
            "macsec": self._macsec_effect,
            "secrets": run_secrets, "withhold": list(fault.withhold) if fault else [],
            "fault": plan.settings.fault or ""}

    def _send_command(self, **command: Any) -> None:
        assert self._running is not None
        line = json.dumps(command).encode() + b"\n"
        if not self._skips_waiting:
            self._running.stdin.write(line)
            return
        # Write the command to a file, and only then continue the machine: see
        # measure.worker.commands.
        self._sent += 1
        place = self.job_dir / "commands" / f"{self._sent}.json"
        place.with_suffix(".new").write_bytes(line)
        place.with_suffix(".new").rename(place)
        self._running.resume()

    async def _expect_event(self, event: str, deadline_s: float | None, other: str = "", *,
                            of_s: float | None = None) -> dict[str, Any]:
        """Return the next event, which must be `event` or `other`.

        Args:
            event: The expected event.
            deadline_s: Longest wait in seconds, None for no limit.
            other: Another event that is allowed, "" for none.
            of_s: The whole time allowed, if `deadline_s` is only the rest of it.

        Raises:
            TestbedLost: The machine ended, did not answer in time or sent another event.
            TestbedFailed: The worker reports a failure.
        """
        assert self._running is not None
        try:
            # asyncio.wait_for may lose a cancellation that arrives together with the answer.
            async with asyncio.timeout(deadline_s):
                line = await self._running.stdout.readline()
        except TimeoutError:
            await self._running.close()
            self._check_memory()
            raise TestbedLost(f"no '{event}' within {of_s or deadline_s:g} s; killed by the "
                              "watchdog") from None
        except (ConnectionError, ValueError) as error:
            raise TestbedLost(f"the worker's line broke ({error})") from error
        if not line:
            await self._running.close(grace_s=_LAST_WORDS_S)
            self._check_memory()
            raise TestbedLost(self._ended_by_watch or self._running.post_mortem())
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            raise TestbedLost(f"the worker said {line[:80]!r}, which is not an event") from None
        if self._skips_waiting and said["event"] not in _UNDER_WAY:
            self._running.suspend()
        if said["event"] not in _GOES_ON:
            self._check_memory()
        if said["event"] == "failed":
            raise TestbedFailed(said["reason"])
        if said["event"] not in (event, other):
            raise TestbedLost(f"the worker said '{said['event']}' instead of '{event}'")
        return said


    def _check_memory(self) -> None:
        """Raise TestbedLost if the guest's kernel ended a program because memory was exhausted."""
        with contextlib.suppress(OSError):
            ended = _OUT_OF_MEMORY.search((self.logs / "console.log").read_text(errors="replace"))
            if ended is not None:
                memory_mb = self.machine.memory_mb(len(self.spec.network.nodes),
                                                   self.spec.memory_mb)
                raise TestbedLost(
                    f"the guest ran out of memory: its kernel ended {ended[1]}, which had "
                    f"{int(ended[2]) >> 10} of {memory_mb} MB; ask for less at once")


def _spare_s() -> float:
    """Return the seconds beyond the study's deadline until a machine counts as hung.

    QOP_WATCHDOG_S overrides the default, for very slow machines and for tests.
    """
    return float(os.environ.get("QOP_WATCHDOG_S", _SPARE_S))
