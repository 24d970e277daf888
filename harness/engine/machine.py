"""Machines that run a worker: an embedded guest, or this host as root.

Both provide a process with the worker's JSON lines on its standard streams.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Protocol

from guest import boot, image, processes
from harness.engine.code import give_code
from harness.errors import UserError

ROOT = Path(__file__).parent.parent.parent
TESTBED_PYTHON = Path("/opt/qop/venv/bin/python3")
#: Memory of a guest in MB: a base, and a share for each node's daemons. Its kernel fills free
#: memory with cached pages, so the guest eventually uses all of its memory on the host.
_MEMORY_MB, _NODE_MB = 98, 23
#: Additional memory of the worker in MB, because Mininet-WiFi imports numpy and matplotlib.
_MININET_WIFI_MB = 30
_AT_ONCE = 8
# Longest line of a worker in bytes. A line is one event; raw data of records is sent in files.
LINE_LIMIT = 1 << 20


class Running(Protocol):
    """A running worker."""

    #: Process id and process group of the worker, or of its guest.
    pid: int

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Return the stream for commands."""

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Return the stream of events."""

    def suspend(self) -> None:
        """Stop the machine until `resume`. Only guests can be stopped."""

    def resume(self) -> None:
        """Continue a stopped machine."""

    def move_to(self, processor: int) -> None:
        """Move the machine to another processor. Only guests can be moved.

        Args:
            processor: Number of the processor.
        """

    async def close(self, grace_s: float = 0.0) -> None:
        """End the worker and all processes that it started. Further calls have no effect.

        Args:
            grace_s: Seconds to wait for the worker to end by itself.
        """

    def post_mortem(self) -> str:
        """Return the reason for the worker's end in a few words, for a record."""


class Lacking(Exception):
    """An error for a machine that lacks a study's packages. The text is the reason."""


class Machine(Protocol):
    """A machine that can run workers."""

    #: Reasons why packages of a study are not available here, by the packages' name.
    lacking: dict[str, str]

    #: Numbers of the processors for workers. Each worker runs on one of them.
    processors: list[int]
    #: Limit of repetitions that one processor measures in parallel. Several are possible because a
    #: guest needs little CPU time while the medium is busy.
    at_once: int
    #: Limit of testbeds that exist in parallel, if memory allows.
    max_testbeds: int

    def image_key(self, packages: str = "") -> str:
        """Return the key of the guest image with a study's packages.

        Args:
            packages: Name of the packages, "" for none.

        Returns:
            The key, or "" if the machine uses no image, or lacks the packages.
        """

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """Return the memory that a testbed may use, in MB.

        Args:
            nodes: Number of nodes in the network.
            more_mb: Additional memory that the testbed's spec requests.
        """

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                           packages: str = "", clock: boot.Clock = "real",
                           more_mb: int = 0) -> Running:
        """Start a worker.

        Args:
            job_dir: The worker's job folder.
            processor: Processor that the worker runs on.
            nodes: Number of nodes in its network.
            study: Name of the study to measure.
            packages: Name of the study's packages to provide, "" for none.
            clock: How time passes.
            more_mb: Additional memory in MB.

        Raises:
            Lacking: The packages are not available.
        """

    def mount_path(self, job_dir: Path) -> str:
        """Return the path at which daemons of the testbed find the policy's files.

        Args:
            job_dir: The worker's job folder.
        """


class EmbeddedMachine:
    """User-Mode Linux guests, one for each testbed and each on one processor."""

    def __init__(self, built: image.Image) -> None:
        self.image = built
        #: Images with packages, by the packages' name.
        self.variants: dict[str, image.Image] = {}
        self.lacking: dict[str, str] = {}
        self.at_once = _AT_ONCE
        self.max_testbeds = 64
        #: File descriptors of a terminal for the guest's ttyS2, where the lab's shell runs.
        self.terminal: tuple[int, int] | None = None
        self.processors = _guest_processors()
        has_mininet_wifi = "mininet_wifi" in built.manifest.get("root", {})
        self._base_mb = _MEMORY_MB + (_MININET_WIFI_MB if has_mininet_wifi else 0)

    def image_key(self, packages: str = "") -> str:
        """Return the key of the image with these packages."""
        return "" if packages in self.lacking else self._image_with(packages).key

    def _image_with(self, packages: str) -> image.Image:
        return self.variants[packages] if packages else self.image

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """Return the memory of a guest, in MB. Its kernel uses what its programs leave."""
        return self._base_mb + nodes * _NODE_MB + more_mb

    def mount_path(self, job_dir: Path) -> str:
        """Return the same path for all guests, because each has a /tmp of its own."""
        return "/tmp/qop/conf"

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                           packages: str = "", clock: boot.Clock = "real",
                           more_mb: int = 0) -> Running:
        """Boot a guest with this job folder, which contains the worker's code."""
        _refuse_lacking(self, packages)
        give_code(job_dir, study)
        try:
            return _Guest(await boot.boot_guest(
                self._image_with(packages), job_dir, cpu=processor,
                memory_mb=self.memory_mb(nodes, more_mb),
                console_log=job_dir / "out" / "logs" / "console.log",
                scratch=job_dir.parent.parent / "scratch", extra_tty=self.terminal,
                clock=clock))
        except boot.GuestError as error:
            raise UserError(str(error), status=1) from None


def _guest_processors() -> list[int]:
    """Return the processors for guests: those of `QOP_PROCESSORS`, or those of this process.

    With QOP_PROCESSORS, this process itself may run on other processors.
    """
    listed = os.environ.get("QOP_PROCESSORS", "")
    try:
        processors = sorted({int(number) for number in listed.split(",") if number})
    except ValueError:
        processors = [-1]
    if not set(processors) <= set(range(os.cpu_count() or 1)):
        raise UserError(f"QOP_PROCESSORS={listed}: it lists processors of this machine, as 0,1")
    return processors or sorted(os.sched_getaffinity(0))


class _Guest:
    def __init__(self, guest: boot.Guest) -> None:
        self._guest = guest
        self._exit: boot.Exit | None = None
        self.stdin = guest.stdin
        self.stdout = guest.stdout
        self.pid = guest.pid

    def suspend(self) -> None:
        self._guest.suspend()

    def resume(self) -> None:
        self._guest.resume()

    def move_to(self, processor: int) -> None:
        processes.move_to_processor(self.pid, processor)

    async def close(self, grace_s: float = 0.0) -> None:
        try:
            async with asyncio.timeout(grace_s):
                self._exit = await self._guest.wait()
        except TimeoutError:
            self._exit = await self._guest.kill()

    def post_mortem(self) -> str:
        if self._exit is None:
            return "the guest is running"
        reason = self._exit.reason or f"the worker ended with status {self._exit.status}"
        return " ".join(reason.split())[:300]


class HostMachine:
    """A machine that is this host, with its own kernel and daemons.

    It needs root and the module mac80211_hwsim.
    """

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise UserError("--on host needs root; run it with sudo, or leave --on host out")
        if not TESTBED_PYTHON.exists():
            raise UserError("--on host: the testbed is not installed here; run "
                            "'./qop provision --on host' first")
        self.lacking: dict[str, str] = {}
        # All testbeds share one kernel and one medium, so only one can run at a time.
        self.processors = [min(os.sched_getaffinity(0))]
        self.at_once = 1
        self.max_testbeds = 1
        # A folder of root with an unpredictable name, removed together with this object.
        self._private = tempfile.TemporaryDirectory(prefix="qop-", dir="/tmp")

    def image_key(self, packages: str = "") -> str:
        """Return "", because no image is used."""
        return ""

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """Return about what the daemons of one testbed use, in MB."""
        return nodes * _NODE_MB + more_mb

    def mount_path(self, job_dir: Path) -> str:
        """Return a short path outside of /run, because charon has a private /run.

        It is short because the path of a socket is limited to 107 bytes.
        """
        return f"{self._private.name}/conf"

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                           packages: str = "", clock: boot.Clock = "real",
                           more_mb: int = 0) -> Running:
        """Start the worker as a process of this host. Only the real clock is possible."""
        assert clock == "real"
        _refuse_lacking(self, packages)
        code = give_code(job_dir, study)
        log = (job_dir / "out" / "logs" / "console.log").open("wb")
        with log:
            process = await asyncio.create_subprocess_exec(
                *processes.tied_command("TERM"), str(TESTBED_PYTHON), "-m", "measure.worker",
                str(job_dir.absolute()), cwd=code, env={**os.environ, "PYTHONPATH": str(code)},
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                limit=LINE_LIMIT, start_new_session=True)
        return _Process(process, Path(self.mount_path(job_dir)))


class _Process:
    _STOP_S = 8.0

    def __init__(self, process: asyncio.subprocess.Process, mount: Path) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self._mount = mount
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.pid = process.pid

    def suspend(self) -> None:
        raise NotImplementedError("this machine's time cannot be stopped")

    def resume(self) -> None:
        raise NotImplementedError("this machine's time cannot be stopped")

    def move_to(self, processor: int) -> None:
        raise NotImplementedError("this machine has all of its processors")

    async def close(self, grace_s: float = 0.0) -> None:
        self.stdin.close()
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(grace_s + self._STOP_S):
                    await self._process.wait()
            except TimeoutError:
                os.killpg(self._process.pid, signal.SIGKILL)
                await self._process.wait()
        shutil.rmtree(self._mount, ignore_errors=True)

    def post_mortem(self) -> str:
        return f"the worker ended with status {self._process.returncode}"


def _refuse_lacking(machine: Machine, packages: str) -> None:
    if packages in machine.lacking:
        raise Lacking(machine.lacking[packages])
