"""Start a testbed (an emulated network on a machine), and measure repetitions on it.

`TestbedClient` takes a planned testbed with its policy. It sends commands to the worker, the
process that builds the network and measures on the machine, and waits for its events.
`measure_repetition` returns the folder with the captures and raw values of one measurement. A
device (processor model) slows a node down relative to this host. So the first testbed measures the
host's speed for each kind of computation, and the others use its values.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any

from guest.cache import cache_root, hash_inputs
from guest.releases import DEFAULT, RELEASES
from harness import render
from harness.engine import programs, setup
from harness.engine.clock_watchdog import ENDED_AFTER_S, Standstill, watch_clock
from harness.engine.machine import Machine, MissingPackages, WorkerProcess
from harness.engine.plan import Plan, PlannedTestbed, find_missing_feature, node_devices
from harness.secrets import Secrets
from measure.charging import library
from measure.cpu import host_load
from measure.services import other_releases
from measure.services.replaced_programs import LINK
from policies import Policy
from topologies import loader, queueing_disciplines

# --- Store of this host's measured speeds ---
# The factors of devices are relative to these speeds.
# Each testbed measures the speeds as it starts, together with other load. Among two dozen testbeds,
# the overhead of a system call was 6.6 to 9.6 us, and authentication times changed with it.
# Therefore the values of the first testbed are used for all on this host, with this kernel, until
# the next boot. For minimum values (names that begin with `least_`) the smallest measurement is
# kept: it had the least other load.

_BOOT_ID, _PROCESSORS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/cpuinfo")


def load_speeds(image: str) -> dict[str, float]:
    """Return the measured computing times of this host with a guest image, by kind of work.

    The result is empty if nothing was measured yet.
    """
    try:
        speeds = json.loads(_find_speeds_file(image).read_text())
        return {str(name): float(value) for name, value in speeds.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def store_speeds(image: str, measured: Mapping[str, float]) -> None:
    """Store the computing times that a testbed measured on this host.

    Values that are stored already are kept, except for new minimum values. If nothing can be
    stored, each testbed measures its own.
    """
    before, file = load_speeds(image), _find_speeds_file(image)
    least = {name: min(value, before.get(name, value))
             for name, value in host_load.select_least_times(measured).items()}
    speeds = {**measured, **before, **least}
    if speeds == before:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as unfinished:
            json.dump(speeds, unfinished)
        Path(unfinished.name).rename(file)


def _find_speeds_file(image: str) -> Path:
    model = re.search(r"^model name\s*: (.*)$", _read_text(_PROCESSORS), re.MULTILINE)
    key = hash_inputs({"image": image.encode(), "boot": _read_text(_BOOT_ID).encode(),
                       "processor": (model[1] if model else "").encode()})
    return cache_root() / "speeds" / f"{key}.json"


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


# --- Client of a testbed ---

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
ReportListener = Callable[[Mapping[str, Any]], None]


class TestbedLost(Exception):
    """An error: the machine of a testbed died, hung or sent invalid data.

    A second attempt on a new testbed may succeed.
    """


class TestbedFailed(Exception):
    """An error: the emulated network (testbed) works, but not with this policy.

    The text is the reason.
    """


class TestbedClient:
    """A client of one emulated network (testbed), which a worker process on a machine builds.

    It has one policy on one network.

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
        self._running: WorkerProcess | None = None
        self._sent = 0
        #: Listener for a standstill of the guest's clock, and for its end (None).
        self._show = show
        self._watch: asyncio.Task[None] | None = None
        self._ended_by_watch = ""

    async def open(self, run_secrets: Secrets, renderer: render.Renderer) -> None:
        """Start the machine, build the network and configure the daemons for the policy.

        The configuration files are rendered in parallel, because this takes longest.

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
            await self._expect_event("hello", READY_S * self.machine.patience)
            ready = await self._expect_event("ready", self.machine.patience * (
                READY_S + len(self.spec.network.nodes) * NODE_S
                + programs.provision_limit_s(self._plan.settings.programs)))
            self.environment = ready["environment"]
            rendered = await rendering
            if rendered is not None:
                shutil.copytree(rendered, self.job_dir / "conf" / self.name)
        except BaseException:
            rendering.cancel()
            await asyncio.gather(rendering, return_exceptions=True)
            raise
        self._send_command(do="configure", conf=self.name if self.spec.policy else None)
        configured = await self._expect_event("configured",
                                              CONFIGURE_S * self.machine.patience)
        store_speeds(self.machine.image_key(), configured.get("speeds") or {})

    def _write_job(self, run_secrets: Secrets) -> None:
        (self.job_dir / "out" / "logs").mkdir(parents=True)
        (self.job_dir / "commands").mkdir()
        if self._plan.settings.programs_folder:
            (self.job_dir / LINK).symlink_to(Path(self._plan.settings.programs_folder).resolve())
        for suite in set(self._plan.daemon_releases.values()):
            try:
                folder = self.machine.release_folder(setup.plain_image_name(suite))
            except MissingPackages as error:
                raise TestbedFailed(str(error)) from None
            (self.job_dir / other_releases.name_link(suite)).symlink_to(folder.resolve())
        job = self.job_dir / "job.json"
        job.touch(0o600)  # it contains the run's keys
        job.write_text(json.dumps(self._job_document(self.machine.mount_path(self.job_dir),
                                                     run_secrets)))

    async def _start_worker(self) -> WorkerProcess:
        if missing := find_missing_feature(self.spec, self._plan.settings.daemons):
            raise TestbedFailed(missing)
        try:
            return await self.machine.start_worker(
                self.job_dir, self.processor, len(self.spec.network.nodes),
                study=self._plan.study.id, packages=self.spec.image_name,
                clock=self._plan.settings.clock, more_mb=self.spec.memory_mb)
        except MissingPackages as error:
            raise TestbedFailed(str(error)) from None

    def begin_rendering(self, renderer: render.Renderer) -> asyncio.Task[Path] | None:
        """Start to make the policy's configuration files, or return None without a policy."""
        policy, mount = self._applied_policy, self.machine.mount_path(self.job_dir)
        # What is rendered by release is for FreeRADIUS' OpenSSL.
        release = other_releases.find_release(
            self._plan.daemon_releases, f"freeradius{other_releases.OPENSSL}", self.spec.release)
        return renderer.begin_rendering(
            policy, self.spec.network, mount, self.spec.medium,
            "" if release == DEFAULT.suite else release) if policy else None

    async def _await_rendering(self, renderer: render.Renderer) -> Path | None:
        """Wait for the policy's configuration files and return their folder.

        The result is None for a testbed without a policy.
        """
        rendering = self.begin_rendering(renderer)
        # Other testbeds may wait for this task, so a cancelled caller must not cancel it.
        return await asyncio.shield(rendering) if rendering else None

    @property
    def _applied_policy(self) -> Policy | None:
        """Return the policy that the nodes get. Results are judged by the one of the cell."""
        return self._plan.apply_fault(self.spec.policy)

    async def measure_repetition(self, name: str, task: Mapping[str, Any], deadline_s: float, *,
                                 repetition: int = 0,
                                 turn: AbstractAsyncContextManager[Any] | None = None,
                                 on_report: ReportListener = lambda _: None) -> Path:
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
                async for report in self._read_reports(
                        self.machine.patience * (_spare_s() + deadline_s)):
                    on_report(report)
                    if report.get("name") == _SHAREABLE:
                        await holding.aclose()
            finally:
                self.is_measuring = False
        return self.job_dir / "out" / name

    async def _read_reports(self, allowed_s: float) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the messages of the running repetition's workload until the repetition ends."""
        until = asyncio.get_running_loop().time() + allowed_s
        while True:
            left_s = max(0.0, until - asyncio.get_running_loop().time())
            event_data = await self._expect_event("measured", left_s, "report", of_s=allowed_s)
            if event_data["event"] == "measured":
                return
            yield event_data

    def send_message(self, message: Mapping[str, Any]) -> None:
        """Send a message of the user to the running repetition.

        The workload's answers show which values it accepted.
        """
        self._send_command(do="tell", **message)

    async def call_command(self, command: str, task: Mapping[str, Any],
                           deadline_s: float = 0.0) -> dict[str, Any]:
        """Have the study's workload execute a further command, and return its answer."""
        self._send_command(do="call", command=command, task=task)
        while (event_data := await self._expect_event(
                "called", self.machine.patience * (_spare_s() + deadline_s),
                "report"))["event"] != "called":
            pass
        answer: dict[str, Any] = event_data["result"]
        return answer

    async def run_shell(self, **command: Any) -> dict[str, Any]:
        """Run a program on a node of the testbed (`./qop lab`), without a time limit.

        Returns:
            The worker's last event, with the exit status.
        """
        self._send_command(do="shell", **command)
        return await self._expect_event("shell_ended", None)

    def move_to(self, processor: int) -> None:
        """Move the testbed's machine to another processor."""
        if processor != self.processor:
            assert self._running is not None
            self._running.move_to(processor)
            self.processor = processor

    async def close(self) -> None:
        """End the testbed's machine. This method may be called at any time and repeatedly."""
        if self._watch is not None:
            self._watch.cancel()
        if self._running is not None:
            await self._running.close()

    async def _watch_clock(self, running: WorkerProcess) -> None:
        """Watch the guest's clock, and kill the guest if the clock stands still."""
        standstill = await watch_clock(running.pid, self._show,
                                       ended_s=max(ENDED_AFTER_S, _spare_s()))
        self._ended_by_watch = f"{standstill}; ended by the watchdog"
        await running.close()

    @property
    def pid(self) -> int:
        """Return the process id of the testbed's guest, or of its worker on the host."""
        assert self._running is not None
        return self._running.pid

    @property
    def logs(self) -> Path:
        """Return the folder with the logs of the testbed's console, worker and daemons."""
        return self.job_dir / "out" / "logs"

    @property
    def _skips_waiting(self) -> bool:
        return not self._plan.settings.is_real_time

    @property
    def _macsec_effect(self) -> str:
        """Return what MACsec does to frames on wires: encrypt, authenticate, or "" for nothing."""
        wire = self._applied_policy.layers.wire if self._applied_policy else None
        if wire is None:
            return ""
        return (queueing_disciplines.ENCRYPTS if wire.is_encrypted
                else queueing_disciplines.AUTHENTICATES)

    def _policy_settings(self, run_secrets: Secrets) -> dict[str, Any]:
        """Return the settings of the job that follow from the nodes' policy.

        They are bytes that ciphers add to frames, MACsec on wires, and the VLANs of stations.
        """
        layers = self._applied_policy.layers if self._applied_policy else None
        link, wire = (layers.link, layers.wire) if layers else (None, None)
        vlan = (link.vlan or 0) if link and run_secrets["gateway"]["vlans"] == "used" else 0
        return {
            "cipher_bytes": link.frame_expansion_bytes if link else 0,
            "more_group_bytes": (link.group_expansion_bytes - link.frame_expansion_bytes
                                 if link else 0),
            "macsec": self._macsec_effect, **({"macsec_suite": wire.macsec} if wire else {}),
            "vlan": vlan,
            **({"further_vlans": link.further_vlans} if link and vlan and link.further_vlans
               else {})}

    def _job_document(self, mount: str, run_secrets: Secrets) -> dict[str, Any]:
        """Return the job description that the worker reads: network, medium, tasks and secrets."""
        plan, spec = self._plan, self.spec
        fault = plan.study.find_fault(plan.settings.fault)
        read_library = functools.partial(self.machine.read_library, packages=spec.image_name)
        return {
            "study": plan.study.id, "inside": plan.study.workload_module, "mount": mount,
            "network": loader.to_json(spec.network),
            "medium": loader.to_json(spec.medium) if spec.medium else None,
            "clock": plan.settings.clock, "builder": plan.settings.builder,
            "seed": plan.settings.seed,
            "packages": setup.list_package_names(
                plan.study.id, spec.packages, RELEASES[spec.release or DEFAULT.suite]),
            "programs": programs.make_job_entry(
                plan.settings.programs_folder, plan.settings.programs,
                is_mounted=plan.settings.on == "guest"),
            "cards": dict(plan.settings.cards),
            "unloads_modules": plan.settings.on == "host",
            "release": ((spec.release or DEFAULT.suite) if plan.settings.on == "guest" else ""),
            "daemons": {name: {"release": suite, "is_asked": plan.settings.daemons.get(name)
                               == suite} for name, suite in plan.daemon_releases.items()},
            "options": dict(spec.options), "devices": node_devices(spec),
            "speeds": (load_speeds(self.machine.image_key())
                       if plan.settings.clock == "processor" else {}),
            # Preloaded into programs on devices, to report the node and the kind of their work.
            "kinds_library": (read_library(library.KINDS)
                              if plan.settings.clock == "processor" else ""),
            # Preloaded into tcpdump: in real time one that hands packets over promptly, and one for
            # the running tcpdump that captures are copies of. Only in guests, because a host may
            # confine its tcpdump.
            "captures_library": (read_library(library.PROMPT)
                                 if plan.settings.is_real_time and plan.settings.on != "host"
                                 else ""),
            "copies_library": (read_library(library.COPIES)
                               if plan.settings.on != "host" else ""),
            # Preloaded into iperf3 clients, so that a stream ends only when all its data has
            # arrived.
            "streams_library": read_library(library.DRAINED),
            # Preloaded into daemons that a study charges for their public-key work.
            "charge_library": read_library(library.CHARGE),
            "tasks": {cell.name: dict(plan.study.task(cell, plan.asked)) for cell in self._cells},
            **self._policy_settings(run_secrets),
            "secrets": run_secrets, "withhold": list(fault.withhold) if fault else [],
            "fault": plan.settings.fault or ""}

    def _send_command(self, **command: Any) -> None:
        assert self._running is not None
        line = json.dumps(command).encode() + b"\n"
        if not self._skips_waiting:
            self._running.stdin.write(line)
            return
        # Write the command to a file, and only then continue the machine: see
        # measure.agent.worker.commands.
        self._sent += 1
        place = self.job_dir / "commands" / f"{self._sent}.json"
        place.with_suffix(".new").write_bytes(line)
        place.with_suffix(".new").rename(place)
        self._running.resume()

    async def _expect_event(self, event: str, deadline_s: float | None, other: str = "", *,
                            of_s: float | None = None) -> dict[str, Any]:
        """Wait for the next event of the worker, which must be `event` or `other`.

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
            event_data: dict[str, Any] = json.loads(line)
        except ValueError:
            raise TestbedLost(f"the worker said {line[:80]!r}, which is not an event") from None
        if self._skips_waiting and event_data["event"] not in _UNDER_WAY:
            self._running.suspend()
        if event_data["event"] not in _GOES_ON:
            self._check_memory()
        if event_data["event"] == "failed":
            raise TestbedFailed(event_data["reason"])
        if event_data["event"] not in (event, other):
            raise TestbedLost(f"the worker said '{event_data['event']}' instead of '{event}'")
        return event_data


    def _check_memory(self) -> None:
        """Raise TestbedLost if the guest's kernel killed a program because memory was exhausted."""
        with contextlib.suppress(OSError):
            ended = _OUT_OF_MEMORY.search((self.logs / "console.log").read_text(errors="replace"))
            if ended is not None:
                memory_mb = self.machine.memory_mb(len(self.spec.network.nodes),
                                                   self.spec.memory_mb)
                raise TestbedLost(
                    f"the guest ran out of memory: its kernel ended {ended[1]}, which had "
                    f"{int(ended[2]) >> 10} of {memory_mb} MB; ask for less at once")


def _spare_s() -> float:
    """Return how long after a study's deadline a machine counts as hung, in seconds.

    QOP_WATCHDOG_S overrides the default, for very slow machines and for tests.
    """
    return float(os.environ.get("QOP_WATCHDOG_S", _SPARE_S))
