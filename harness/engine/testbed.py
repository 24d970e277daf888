"""One testbed as the harness sees it: start it, give it a policy, have repetitions measured.

It serves all cells of its spec, one repetition after the other.
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
from harness.engine.plan import Plan, PlannedTestbed, devices
from harness.engine.standstill import ENDED_S, Standstill, watch_clock
from harness.secrets import Secrets
from measure.charging import library
from policies import Policy
from topologies import loader, wires

READY_S = 60.0
#: More for each node, whose daemons a busy machine starts one after the other.
NODE_S = 3.0
CONFIGURE_S = 60.0
#: What a machine may take to answer, beside what the study allows a repetition.
_SPARE_S = 30.0
# What a worker says in the middle of something.
_UNDER_WAY = ("hello", "report")
#: The report by which a repetition leaves the processor to others, too.
_SHAREABLE = "shareable"
_LAST_WORDS_S = 2.0

#: What the guest's kernel says on its console when it ends a program for want of memory.
_OUT_OF_MEMORY = re.compile(r"Out of memory: Killed process \d+ \((.+?)\).*?anon-rss:(\d+)kB")
#: Events behind which a repetition goes on; a program that is gone spoils all others.
_GOES_ON = (*_UNDER_WAY, "ready", "configured")

#: Takes what a repetition reports while it runs.
Heard = Callable[[Mapping[str, Any]], None]


class TestbedLost(Exception):
    """The machine died, hung or spoke nonsense; a fresh one may do better."""


class TestbedFailed(Exception):
    """The testbed works, but not with this policy; the text is the reason."""


class TestbedClient:
    """A worker on a machine, with one policy in force on one network."""

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
        # A folder of its own for every testbed: an earlier one's files may still be read.
        self.job_dir = work / "jobs" / f"{serial}-{self.name}"
        self.environment: dict[str, Any] = {}
        #: Whether a repetition is under way, which can be told something.
        self.is_measuring = False
        self._running: Running | None = None
        self._sent = 0
        #: Gets a standstill of the guest's clock, and None once it moves again.
        self._show = show
        self._watch: asyncio.Task[None] | None = None
        self._ended_by_watch = ""

    async def open(self, made: Secrets, renderer: render.Renderer) -> None:
        """Boot, build and configure; the policy is rendered meanwhile."""
        rendering = asyncio.create_task(self._rendered(renderer))  # which takes longest
        try:
            self._write_job(made)
            self._running = await self._started()
            if self._skips_waiting:
                self._watch = asyncio.create_task(self._watch_clock(self._running))
            await self._expect("hello", READY_S)
            ready = await self._expect("ready", READY_S + len(self.spec.network.nodes) * NODE_S)
            self.environment = ready["environment"]
            rendered = await rendering
            if rendered is not None:
                shutil.copytree(rendered, self.job_dir / "conf" / self.name)
        except BaseException:
            rendering.cancel()
            await asyncio.gather(rendering, return_exceptions=True)
            raise
        self._send(do="configure", conf=self.name if self.spec.policy else None)
        configured = await self._expect("configured", CONFIGURE_S)
        speeds.keep(self.machine.image_key(), configured.get("speeds") or {})

    def _write_job(self, made: Secrets) -> None:
        (self.job_dir / "out" / "logs").mkdir(parents=True)
        (self.job_dir / "commands").mkdir()
        job = self.job_dir / "job.json"
        job.touch(0o600)  # the run's keys are in it
        job.write_text(json.dumps(self._job(self.machine.mount(self.job_dir), made)))

    async def _started(self) -> Running:
        try:
            return await self.machine.start(
                self.job_dir, self.processor, len(self.spec.network.nodes),
                study=self._plan.study.id, packages=self.spec.packages,
                clock=self._plan.settings.clock, more_mb=self.spec.memory_mb)
        except Lacking as error:
            raise TestbedFailed(str(error)) from None

    def begin_rendering(self, renderer: render.Renderer) -> asyncio.Task[Path] | None:
        """Begin to have the policy rendered, if it is not yet; None where the testbed has none."""
        policy, mount = self._in_force, self.machine.mount(self.job_dir)
        return renderer.begin(policy, self.spec.network, mount) if policy else None

    async def _rendered(self, renderer: render.Renderer) -> Path | None:
        """The folder with the policy's files; None where the testbed has no policy."""
        rendering = self.begin_rendering(renderer)
        # Others may wait for it, too: who gives up must not take it from them.
        return await asyncio.shield(rendering) if rendering else None

    @property
    def _in_force(self) -> Policy | None:
        """The policy that the nodes get: the spec's, unless a negative control has another."""
        fault = self._plan.study.fault(self._plan.settings.fault)
        policy = self.spec.policy
        return fault.policy(policy) if policy and fault and fault.policy else policy

    async def measure(self, name: str, task: Mapping[str, Any], deadline_s: float, *,
                      repetition: int = 0,
                      turn: AbstractAsyncContextManager[Any] | None = None,
                      heard: Heard = lambda _: None) -> Path:
        """Measure one repetition, which has this number; the folder with captures and raw values.

        Until it says that others may share the processor it takes all of it; `turn` is held for
        that long. `heard` gets what it reports.
        """
        async with AsyncExitStack() as holding:
            await holding.enter_async_context(turn or nullcontext())
            self._send(do="measure", name=name, task=task, repetition=repetition)
            self.is_measuring = True
            try:
                async for report in self._reports(_spare_s() + deadline_s):
                    heard(report)
                    if report.get("name") == _SHAREABLE:
                        await holding.aclose()
            finally:
                self.is_measuring = False
        return self.job_dir / "out" / name

    async def _reports(self, allowed_s: float) -> AsyncIterator[Mapping[str, Any]]:
        """What the repetition under way reports, until it has ended."""
        until = asyncio.get_running_loop().time() + allowed_s
        while True:
            left_s = max(0.0, until - asyncio.get_running_loop().time())
            said = await self._expect("measured", left_s, "report", of_s=allowed_s)
            if said["event"] == "measured":
                return
            yield said

    def tell(self, message: Mapping[str, Any]) -> None:
        """Say something to the repetition under way; what it took is among its reports."""
        self._send(do="tell", **message)

    async def call(self, command: str, task: Mapping[str, Any],
                   deadline_s: float = 0.0) -> dict[str, Any]:
        """Have the workload do one of its further commands; what it answers."""
        self._send(do="call", command=command, task=task)
        while (said := await self._expect("called", _spare_s() + deadline_s,
                                          "report"))["event"] != "called":
            pass
        answer: dict[str, Any] = said["result"]
        return answer

    async def shell(self, **command: Any) -> dict[str, Any]:
        """Run the worker's `shell` command to its end, however long; its last event."""
        self._send(do="shell", **command)
        return await self._expect("shell_ended", None)

    def move(self, processor: int) -> None:
        """Have the machine stay on this processor from now on."""
        if processor != self.processor:
            assert self._running is not None
            self._running.move(processor)
            self.processor = processor

    async def close(self) -> None:
        """End the machine; safe at any time and twice."""
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
        """Process id of the machine's worker, or of its guest."""
        assert self._running is not None
        return self._running.pid

    @property
    def logs(self) -> Path:
        """Console, worker's and daemons' logs."""
        return self.job_dir / "out" / "logs"

    @property
    def _skips_waiting(self) -> bool:
        return not self._plan.settings.waits

    @property
    def _macsec(self) -> str:
        """What MACsec does to frames on wires; "" where the policy in force has none."""
        wire = self._in_force.layers.wire if self._in_force else None
        if wire is None:
            return ""
        return wires.ENCRYPTS if wire.is_encrypted else wires.AUTHENTICATES

    def _job(self, mount: str, made: Secrets) -> dict[str, Any]:
        """What the worker is told of its testbed."""
        plan, spec = self._plan, self.spec
        link = self._in_force.layers.link if self._in_force else None
        fault = plan.study.fault(plan.settings.fault)
        return {
            "study": plan.study.id, "inside": plan.study.inside, "mount": mount,
            "network": loader.to_json(spec.network),
            "medium": loader.to_json(spec.medium) if spec.medium else None,
            "clock": plan.settings.clock, "builder": plan.settings.builder,
            "seed": plan.settings.seed,
            "packages": variants.listed(plan.study.id, spec.packages),
            "options": dict(spec.options), "devices": devices(spec),
            "speeds": (speeds.known(self.machine.image_key())
                       if plan.settings.clock == "processor" else {}),
            # What tools and programs on devices load first, to say whose and which their work is.
            "kinds_library": (libraries.to_send(library.KINDS)
                              if plan.settings.clock == "processor" else ""),
            # What captures load first where they are waited for, and the tcpdump that they are
            # copies of; a host may confine its own.
            "captures_library": (libraries.to_send(library.PROMPT)
                                 if plan.settings.waits and plan.settings.on == "guest" else ""),
            "copies_library": (libraries.to_send(library.COPIES)
                               if plan.settings.on == "guest" else ""),
            # What iperf3's clients load first, so that streams end when all of them has arrived.
            "streams_library": libraries.to_send(library.DRAINED),
            "tasks": {cell.name: dict(plan.study.task(cell, plan.asked)) for cell in self._cells},
            "cipher_bytes": link.frame_expansion_bytes if link else 0,
            "macsec": self._macsec,
            "secrets": made, "withhold": list(fault.withhold) if fault else [],
            "fault": plan.settings.fault or ""}

    def _send(self, **command: Any) -> None:
        assert self._running is not None
        line = json.dumps(command).encode() + b"\n"
        if not self._skips_waiting:
            self._running.stdin.write(line)
            return
        # By file, and only then may the machine go on: see measure.worker.commands.
        self._sent += 1
        place = self.job_dir / "commands" / f"{self._sent}.json"
        place.with_suffix(".new").write_bytes(line)
        place.with_suffix(".new").rename(place)
        self._running.release()

    async def _expect(self, event: str, deadline_s: float | None, other: str = "", *,
                      of_s: float | None = None) -> dict[str, Any]:
        """The next event, which must be `event`, or where it is given, `other`.

        `of_s` is the whole time allowed where `deadline_s` is only what is left of it.
        """
        assert self._running is not None
        try:
            # Not wait_for, which may take a cancellation for an answer that comes with it.
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
            self._running.hold()
        if said["event"] not in _GOES_ON:
            self._check_memory()
        if said["event"] == "failed":
            raise TestbedFailed(said["reason"])
        if said["event"] not in (event, other):
            raise TestbedLost(f"the worker said '{said['event']}' instead of '{event}'")
        return said


    def _check_memory(self) -> None:
        """Raise TestbedLost if the guest's kernel has ended a program for want of memory."""
        with contextlib.suppress(OSError):
            ended = _OUT_OF_MEMORY.search((self.logs / "console.log").read_text(errors="replace"))
            if ended is not None:
                memory_mb = self.machine.memory_mb(len(self.spec.network.nodes),
                                                   self.spec.memory_mb)
                raise TestbedLost(
                    f"the guest ran out of memory: its kernel ended {ended[1]}, which had "
                    f"{int(ended[2]) >> 10} of {memory_mb} MB; ask for less at once")


def _spare_s() -> float:
    """What a repetition may take besides its study's deadline before its machine counts as hung.

    QOP_WATCHDOG_S overrides it, for machines far slower than any we know (and for tests).
    """
    return float(os.environ.get("QOP_WATCHDOG_S", _SPARE_S))
