"""Machines that run a worker: the embedded guest, or this very machine as root.

Both give the same thing: a process with the worker's JSON lines on its standard streams.
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
#: A guest's memory: a base, and for each node its daemons. Its kernel fills what is left with pages
#: of files, so all of it is taken from the host in the end.
_MEMORY_MB, _NODE_MB = 98, 23
#: What the worker takes more where Mininet-WiFi brings numpy and matplotlib.
_MININET_WIFI_MB = 30
_AT_ONCE = 8
# A worker sends one line an event; records' raw data go by file.
LINE_LIMIT = 1 << 20


class Running(Protocol):
    """A started worker."""

    #: Process and process group of the worker, or of the guest it runs in.
    pid: int

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Where commands go."""

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Where events come from."""

    def hold(self) -> None:
        """Stop it where it is; only machines with virtual time can."""

    def release(self) -> None:
        """Have it go on."""

    def move(self, processor: int) -> None:
        """Have all of it stay on another processor; only guests can."""

    async def close(self, grace_s: float = 0.0) -> None:
        """End it and everything it started, after a time to end by itself; idempotent."""

    def post_mortem(self) -> str:
        """Why it is gone, in a few words, for the reason of a record."""


class Lacking(Exception):
    """A machine has not got a study's packages; the text is the reason."""


class Machine(Protocol):
    """Somewhere to run workers."""

    #: Why packages of a study's are not to be had here, by their name.
    lacking: dict[str, str]

    #: Where workers are kept: each stays on one of these.
    processors: list[int]
    #: How many may measure at once on one of them, if it has the power: while the air is busy, it
    #: has little to do.
    at_once: int
    #: Testbeds that may exist side by side, if memory allows.
    max_testbeds: int

    def image_key(self, packages: str = "") -> str:
        """Which guest image it boots for a study's packages, "" where it boots none."""

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """What a testbed of this many nodes may take of memory, with what its spec asks beside."""

    async def start(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                    packages: str = "", clock: boot.Clock = "real", more_mb: int = 0) -> Running:
        """Start a worker for a job folder of a study; its network has this many nodes.

        `packages` names those of the study that it is to have. Raises Lacking.
        """

    def mount(self, job_dir: Path) -> str:
        """Where daemons inside will find the policy's files."""


class EmbeddedMachine:
    """User-Mode Linux guests, one a testbed, each pinned to one core."""

    def __init__(self, built: image.Image) -> None:
        self.image = built
        #: Further images, by the name of a study's packages.
        self.variants: dict[str, image.Image] = {}
        self.lacking: dict[str, str] = {}
        self.at_once = _AT_ONCE
        self.max_testbeds = 64
        #: Descriptors of a terminal for the guest's ttyS2; the lab's shell runs there.
        self.terminal: tuple[int, int] | None = None
        self.processors = _processors()
        has_mininet_wifi = "mininet_wifi" in built.manifest.get("root", {})
        self._base_mb = _MEMORY_MB + (_MININET_WIFI_MB if has_mininet_wifi else 0)

    def image_key(self, packages: str = "") -> str:
        """The key of the image with these packages."""
        return "" if packages in self.lacking else self._image(packages).key

    def _image(self, packages: str) -> image.Image:
        return self.variants[packages] if packages else self.image

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """The memory that a guest is given; its kernel fills what its programs leave."""
        return self._base_mb + nodes * _NODE_MB + more_mb

    def mount(self, job_dir: Path) -> str:
        """A guest has its own /tmp, so one place serves all."""
        return "/tmp/qop/conf"

    async def start(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                    packages: str = "", clock: boot.Clock = "real", more_mb: int = 0) -> Running:
        """Boot a guest on the job folder, where it finds the worker's code."""
        _refuse_lacking(self, packages)
        give_code(job_dir, study)
        try:
            return _Guest(await boot.boot(
                self._image(packages), job_dir, cpu=processor,
                memory_mb=self.memory_mb(nodes, more_mb),
                console_log=job_dir / "out" / "logs" / "console.log",
                scratch=job_dir.parent.parent / "scratch", extra_tty=self.terminal,
                clock=clock))
        except boot.GuestError as error:
            raise UserError(str(error), status=1) from None


def _processors() -> list[int]:
    """Those that the run may use, or those of `QOP_PROCESSORS`: guests are alone on these then."""
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

    def hold(self) -> None:
        self._guest.hold()

    def release(self) -> None:
        self._guest.release()

    def move(self, processor: int) -> None:
        processes.keep_on(self.pid, processor)

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
    """This machine's own kernel and daemons; needs root and mac80211_hwsim."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise UserError("--on host needs root; run it with sudo, or leave --on host out")
        if not TESTBED_PYTHON.exists():
            raise UserError("--on host: the testbed is not installed here; run "
                            "'./qop provision --on host' first")
        self.lacking: dict[str, str] = {}
        # The testbeds share one kernel and one air, so one at a time.
        self.processors = [min(os.sched_getaffinity(0))]
        self.at_once = 1
        self.max_testbeds = 1
        # Of root's alone, by a name that nobody can have made before; gone with this object.
        self._private = tempfile.TemporaryDirectory(prefix="qop-", dir="/tmp")

    def image_key(self, packages: str = "") -> str:
        """None: it is there already."""
        return ""

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """About what the daemons of one testbed take."""
        return nodes * _NODE_MB + more_mb

    def mount(self, job_dir: Path) -> str:
        """Beside /run, which charon gets privately, and short: socket paths end at 107 bytes."""
        return f"{self._private.name}/conf"

    async def start(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                    packages: str = "", clock: boot.Clock = "real", more_mb: int = 0) -> Running:
        """Start the worker as a process of this machine, which has but the real time."""
        assert clock == "real"
        _refuse_lacking(self, packages)
        code = give_code(job_dir, study)
        log = (job_dir / "out" / "logs" / "console.log").open("wb")
        with log:
            process = await asyncio.create_subprocess_exec(
                *processes.tied("TERM"), str(TESTBED_PYTHON), "-m", "measure.worker",
                str(job_dir.absolute()), cwd=code, env={**os.environ, "PYTHONPATH": str(code)},
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                limit=LINE_LIMIT, start_new_session=True)
        return _Process(process, Path(self.mount(job_dir)))


class _Process:
    _STOP_S = 8.0

    def __init__(self, process: asyncio.subprocess.Process, mount: Path) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self._mount = mount
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.pid = process.pid

    def hold(self) -> None:
        raise NotImplementedError("this machine's time cannot be stopped")

    def release(self) -> None:
        raise NotImplementedError("this machine's time cannot be stopped")

    def move(self, processor: int) -> None:
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
