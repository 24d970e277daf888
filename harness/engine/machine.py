"""Start the machine on which a testbed (emulated network) runs, with a worker process in it.

An `EmbeddedMachine` boots a User-Mode Linux guest for each testbed. A `HostMachine` uses this host
itself, as root. Virtual machines are in `harness.engine.virtual`. `start_worker` starts the worker,
the process that builds the network and measures there. It returns the worker's standard streams,
for commands and events as JSON lines. All testbeds of a run share one compiled copy of the worker's
code, in the cache.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import importlib.util
import os
import py_compile
import shutil
import signal
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from guest import boot, elf, image, libraries, processes
from guest.boot import CODE
from guest.cache import BuildStore, cache_root, hash_inputs
from harness.errors import UserError
from measure.agent.errors import MeasureError
from measure.charging import library
from studies import place_of_study, study_folder

# --- Worker's code: one compiled copy for all testbeds of a run ---
# The copy does not change until the end of the run. A worker would need 1 s to compile the code,
# and each program of ours on a node much of that. Copying it for every testbed takes 0.5 s of disk
# time. So one copy is kept in the cache, keyed by its content, and job folders contain a link to
# the copy.

ROOT = Path(__file__).parent.parent.parent
#: Packages of the project that a worker imports.
_WORKER_PACKAGES = ("documents", "measure", "protocols", "topologies")
#: Folders of a study that the worker does not use: recordings for tests, tables, settings.
_UNUSED_STUDY_FOLDERS = ("recorded", "published", "profiles", "__pycache__")
# The header of a compiled file (PEP 552). It has the magic number and a flag for how the file is
# checked against its source. The source's time and length follow, or its hash.
_COMPILED_HEADER_BYTES = 16
_BY_TIME, _UNCHECKED = 0, 1
_SECOND_NS = 10 ** 9
#: Age in seconds at which an unused copy is removed when another one is made.
_UNUSED_COPY_LIFETIME_S = 30 * 24 * 3600.0


class _CodeFile(NamedTuple):
    """A source file of qop that is copied for the workers, with its content and compiled code."""

    path: Path
    content: bytes
    changed_ns: int
    #: Its compiled file; b"" for a file that is not Python, or cannot be compiled.
    compiled: bytes


def link_worker_code(job_dir: Path, study: str = "") -> Path:
    """Make the worker's code available in a job folder, and return the folder with the code.

    All jobs share one copy in the cache. If the cache cannot be written, as in a container of an
    ordinary user, each job gets its own copy.
    """
    own = job_dir / CODE
    try:
        copied = _cached_copy(study, cache_root())
        os.utime(copied)  # mark the copy as used
    except OSError:
        _write_files(own, dict(_list_files(study)))
        return own
    own.symlink_to(copied)
    return copied


@functools.cache
def _cached_copy(study: str, cache: Path) -> Path:
    """Return the folder with the copy of the worker's code, created on the first call.

    Later calls in this process return the same copy, even if the code has changed since.
    """
    files = dict(_list_files(study))
    store = BuildStore(cache / "code", "copy of the worker's code")

    def build(folder: Path) -> dict[str, str]:
        _remove_old_copies(store.folder)
        _write_files(folder, files)
        return {"study": study}

    return store.find_or_build(_hash_copy(files), build)


def _list_files(study: str) -> Iterator[tuple[str, _CodeFile]]:
    """Yield all files that a worker needs, each with its path in the copy.

    Only the measured study is included. The `__init__.py` files of the studies are empty in the
    copy: their imports need pydantic, which a testbed does not have.
    """
    own = f"studies/{study}"
    emptied = [f"{package}/__init__.py" for package in ("studies", own)] if study else []
    folders = {package: ROOT / package for package in _WORKER_PACKAGES}
    if study:
        folders[own] = study_folder(study)  # may be outside of the checkout
    for package, folder in folders.items():
        for path in _walk_folder(folder):  # protocols/ may be missing
            name = f"{package}/{path.relative_to(folder)}"
            if name not in emptied:
                yield name, _read_file(path)
    for name in emptied:
        yield name, _CodeFile(Path(name), b"", 0, b"")


def find_foreign_object(study: str, architecture: str = "amd64") -> str:
    """Return which program or library of a study cannot run in a guest, and why, "" if none.

    Args:
        study: Name of the study.
        architecture: Debian's name of the guest's architecture.
    """
    folder = study_folder(study)
    for path in _walk_folder(folder):
        with path.open("rb") as file:
            is_object = elf.is_object(file.read(4))
        if is_object and (why := libraries.describe_misfit(path.read_bytes(), architecture)):
            return f"{place_of_study(study)}/{path.relative_to(folder)}: {why}"
    return ""


def _walk_folder(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder):
        # Skip excluded folders in the walk.
        below[:] = [name for name in below if name not in _UNUSED_STUDY_FOLDERS
                    and not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.endswith(".yml"))


def _read_file(path: Path) -> _CodeFile:
    content, changed_ns = path.read_bytes(), path.stat().st_mtime_ns
    return _CodeFile(path, content, changed_ns,
                     _compile_file(path, changed_ns, len(content)) if path.suffix == ".py" else b"")


def _hash_copy(files: dict[str, _CodeFile]) -> str:
    """Return a hash of the copied files, and of the names of those that could be compiled."""
    compiled = sorted(name for name, file in files.items() if file.compiled)
    return hash_inputs({name: file.content for name, file in files.items()}
                       | {"compiled": importlib.util.MAGIC_NUMBER + "\n".join(compiled).encode()})


def _write_files(folder: Path, files: dict[str, _CodeFile]) -> None:
    for name, file in files.items():
        _write_file(folder / name, file)


def _write_file(place: Path, file: _CodeFile) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(file.content)
    os.utime(place, ns=(file.changed_ns, file.changed_ns))
    if file.compiled:
        compiled = _compiled_path(place)
        compiled.parent.mkdir(exist_ok=True)
        compiled.write_bytes(file.compiled)


def _remove_old_copies(folder: Path) -> None:
    for place in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - place.stat().st_mtime > _UNUSED_COPY_LIFETIME_S:
                shutil.rmtree(place, ignore_errors=True)


def _compile_file(source: Path, changed_ns: int, length: int) -> bytes:
    """Return the bytecode (.pyc file) of a Python source, valid for its modification time.

    The result is b"" if the source cannot be compiled. Python's own cache is used where it has the
    bytecode already.
    """
    changed_s = changed_ns // _SECOND_NS
    head = importlib.util.MAGIC_NUMBER + struct.pack(
        "<III", _BY_TIME, changed_s & 0xFFFFFFFF, length & 0xFFFFFFFF)
    with contextlib.suppress(OSError, py_compile.PyCompileError):
        # A file compiled in the same second as the change may belong to the source before the
        # change.
        if code := _read_code(_compiled_path(source), head, since_ns=(changed_s + 1) * _SECOND_NS):
            return head + code
        py_compile.compile(str(source), doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
        return head + _read_code(_compiled_path(source), head)
    return b""


def _read_code(compiled: Path, head: bytes, since_ns: int = 0) -> bytes:
    """Return the bytecode in a .pyc file if its header is `head` or marks it as unchecked.

    The result is b"" for another header, or for a file older than `since_ns`.
    """
    with contextlib.suppress(FileNotFoundError):
        there = compiled.read_bytes()
        unchecked = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED)
        is_this = there.startswith(head) and compiled.stat().st_mtime_ns >= since_ns
        if is_this or there.startswith(unchecked):
            return there[_COMPILED_HEADER_BYTES:]
    return b""


def _compiled_path(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))


# --- Machines and their workers ---

TESTBED_PYTHON = Path("/opt/qop/venv/bin/python3")
#: Memory of a guest in MB: a base, and a share for each node's daemons. Its kernel fills free
#: memory with cached pages, so the guest eventually uses all of its memory on the host.
_MEMORY_MB, _NODE_MB = 98, 23
#: Additional memory of the worker in MB, because Mininet-WiFi imports numpy and matplotlib.
_MININET_WIFI_MB = 30
_SIMULTANEOUS_BOOTS = 8
# Longest line of a worker in bytes. A line is one event; raw data of records is sent in files.
LINE_LIMIT = 1 << 20


class WorkerProcess(Protocol):
    """A running worker: the process that builds a network and measures on a machine."""

    #: Process id and process group of the worker, or of its guest.
    pid: int

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Return the stream on which the worker receives commands."""

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Return the stream on which the worker sends events."""

    def suspend(self) -> None:
        """Stop the worker's machine until `resume` is called. Only guests can be stopped."""

    def resume(self) -> None:
        """Let a stopped machine continue."""

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
        """Return why the worker ended, in a few words for a record."""


class MissingPackages(Exception):
    """An error: a machine lacks packages that a study needs. The text is the reason."""


class Machine(Protocol):
    """A kind of machine on which workers can be started: guest, virtual machine or host."""

    #: Reasons why packages of a study are not available here, by the packages' name.
    lacking: dict[str, str]

    #: Numbers of the processors for workers. Each worker runs on one of them.
    processors: list[int]
    #: Limit of repetitions that one processor measures in parallel. Several are possible because a
    #: guest needs little CPU time while the medium is busy.
    at_once: int
    #: Limit of testbeds that exist in parallel, if memory allows.
    max_testbeds: int
    #: Factor of all time limits for the machine's answers.
    patience: float

    def image_key(self, packages: str = "") -> str:
        """Return the key that identifies the guest image with a study's packages.

        Args:
            packages: The image, as `TestbedSpec.image_name` has it, "" for the plain one.

        Returns:
            The key, or "" if the machine uses no image, or lacks the packages.
        """

    def describe_machine(self) -> dict[str, str]:
        """Return properties of the machine for records, such as the accelerator of QEMU."""

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """Return the memory that one testbed on this machine may use, in MB.

        Args:
            nodes: Number of nodes in the network.
            more_mb: Additional memory that the testbed requests.
        """

    def read_library(self, source: Path, packages: str = "") -> str:
        """Return a shared library, compiled for this machine's programs to preload (LD_PRELOAD).

        Args:
            source: The library's C source.
            packages: As for `image_key`.

        Returns:
            The library in base 64, or "" if it cannot be compiled.
        """

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                           packages: str = "", clock: boot.Clock = "real",
                           more_mb: int = 0) -> WorkerProcess:
        """Start a worker process on this machine.

        Args:
            job_dir: The worker's job folder.
            processor: Processor that the worker runs on.
            nodes: Number of nodes in its network.
            study: Name of the study to measure.
            packages: Name of the image with the study's packages, "" for the plain one.
            clock: How time passes: "real", "virtual" or "processor".
            more_mb: Additional memory in MB.

        Raises:
            MissingPackages: The packages are not available.
        """

    def release_folder(self, image_name: str) -> Path:
        """Return the folder with the root file system of an image, for a guest of another one.

        Args:
            image_name: The image, as for `image_key`.

        Raises:
            MissingPackages: This machine has no such image.
        """

    def mount_path(self, job_dir: Path) -> str:
        """Return the path at which the testbed's daemons find the policy's configuration files.

        Args:
            job_dir: The worker's job folder.
        """


class EmbeddedMachine:
    """User-Mode Linux guests, each on one processor. Each emulated network (testbed) gets one."""

    def __init__(self, built: image.GuestImage) -> None:
        self.image = built
        #: Images with packages, by the packages' name.
        self.variants: dict[str, image.GuestImage] = {}
        self.lacking: dict[str, str] = {}
        self.at_once = _SIMULTANEOUS_BOOTS
        self.max_testbeds = 64
        self.patience = 1.0
        #: File descriptors of a terminal for the guest's ttyS2, where the lab's shell runs.
        self.terminal: tuple[int, int] | None = None
        self.processors = _guest_processors()
        has_mininet_wifi = "mininet_wifi" in built.manifest.get("root", {})
        self._base_mb = _MEMORY_MB + (_MININET_WIFI_MB if has_mininet_wifi else 0)

    def image_key(self, packages: str = "") -> str:
        """Return the key of the guest image that contains these packages."""
        return "" if packages in self.lacking else self._image_with(packages).key

    def _image_with(self, packages: str) -> image.GuestImage:
        return self.variants[packages] if packages else self.image

    def describe_machine(self) -> dict[str, str]:
        """Return no properties, because all guests are of one kind."""
        return {}

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """Return the memory of a guest in MB, for a number of nodes."""
        return self._base_mb + nodes * _NODE_MB + more_mb

    def read_library(self, source: Path, packages: str = "") -> str:
        """Return a library that programs in the guest preload (LD_PRELOAD), in base 64.

        The library was compiled from its C source when the guest image was built. If this machine
        lacks the image with the packages, the library of the plain image is returned.

        Args:
            source: The library's C source, whose name names the library, too.
            packages: As for `image_key`.
        """
        folder = (self.image if packages in self.lacking else self._image_with(packages)).libraries
        return base64.b64encode((folder / f"{source.stem}.so").read_bytes()).decode()

    def release_folder(self, image_name: str) -> Path:
        """Return the folder with the root file system of an image."""
        _refuse_lacking(self, image_name)
        return self._image_with(image_name).root.parent

    def mount_path(self, job_dir: Path) -> str:
        """Return the path of the configuration files, equal in all guests.

        Each guest has its own /tmp.
        """
        return "/tmp/qop/conf"

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                           packages: str = "", clock: boot.Clock = "real",
                           more_mb: int = 0) -> WorkerProcess:
        """Boot a guest whose only program is a worker with this job folder."""
        _refuse_lacking(self, packages)
        link_worker_code(job_dir, study)
        try:
            return _GuestWorker(await self._boot_machine(self._image_with(packages), job_dir,
                                                         processor,
                                                         self.memory_mb(nodes, more_mb), clock))
        except boot.GuestError as error:
            raise UserError(str(error), status=1) from None

    async def _boot_machine(self, built: image.GuestImage, job_dir: Path, processor: int,
                            memory_mb: int,
                            clock: boot.Clock) -> boot.Guest:
        return await boot.boot_guest(
            built, job_dir, cpu=processor, memory_mb=memory_mb, console_log=console_log(job_dir),
            scratch=scratch_folder(job_dir), extra_tty=self.terminal, clock=clock)


def console_log(job_dir: Path) -> Path:
    """Return the path of the file for the console output of a job's machine."""
    return job_dir / "out" / "logs" / "console.log"


def scratch_folder(job_dir: Path) -> Path:
    """Return the folder for temporary files of a run's guests."""
    return job_dir.parent.parent / "scratch"


def _guest_processors() -> list[int]:
    """Return the processors on which guests may run.

    These are the ones listed in `QOP_PROCESSORS`, or else those that this process may use.
    """
    listed = os.environ.get("QOP_PROCESSORS", "")
    try:
        processors = sorted({int(number) for number in listed.split(",") if number})
    except ValueError:
        processors = [-1]
    if not set(processors) <= set(range(os.cpu_count() or 1)):
        raise UserError(f"QOP_PROCESSORS={listed}: it lists processors of this machine, as 0,1")
    return processors or sorted(os.sched_getaffinity(0))


class _GuestWorker:
    def __init__(self, guest: boot.Guest) -> None:
        self._guest = guest
        self._exit: boot.ExitStatus | None = None
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


def require_root() -> None:
    """Raise UserError unless this process may change the host's network."""
    if os.geteuid() != 0:
        raise UserError("--on host needs root; run it with sudo, or leave --on host out")


class HostMachine:
    """The host itself as the machine of emulated networks (--on host), with its own kernel.

    It needs root and the kernel module mac80211_hwsim.
    """

    def __init__(self) -> None:
        require_root()
        if not TESTBED_PYTHON.exists():
            raise UserError("--on host: the testbed is not installed here; run "
                            "'./qop provision --on host' first")
        self.lacking: dict[str, str] = {}
        # All testbeds share one kernel and one medium, so only one can run at a time.
        self.processors = [min(os.sched_getaffinity(0))]
        self.at_once = 1
        self.max_testbeds = 1
        self.patience = 1.0
        # A folder of root with an unpredictable name, removed together with this object.
        self._private = tempfile.TemporaryDirectory(prefix="qop-", dir="/tmp")

    def image_key(self, packages: str = "") -> str:
        """Return "", because a testbed on the host uses no guest image."""
        return ""

    def describe_machine(self) -> dict[str, str]:
        """Return no properties, because the provenance of the results describes the host."""
        return {}

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """Return an estimate of the memory that one testbed's daemons use, in MB."""
        return nodes * _NODE_MB + more_mb

    def read_library(self, source: Path, packages: str = "") -> str:
        """Return a shared library to preload, in base 64, compiled by this host's compiler."""
        return compile_for_host(source)

    def release_folder(self, image_name: str) -> Path:
        """Raise MissingPackages, because a host has no image."""
        raise MissingPackages("a host has no image of another Debian release")

    def mount_path(self, job_dir: Path) -> str:
        """Return a short path for configuration files, outside of /run.

        charon has a private /run. The path of a socket is limited to 107 bytes.
        """
        return f"{self._private.name}/conf"

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                           packages: str = "", clock: boot.Clock = "real",
                           more_mb: int = 0) -> WorkerProcess:
        """Start a worker as a process of this host. Only the real clock is possible."""
        assert clock == "real"
        _refuse_lacking(self, packages)
        code = link_worker_code(job_dir, study)
        log = (job_dir / "out" / "logs" / "console.log").open("wb")
        with log:
            process = await asyncio.create_subprocess_exec(
                *processes.build_tied_command("TERM"), str(TESTBED_PYTHON), "-m",
                "measure.agent.worker",
                str(job_dir.absolute()), cwd=code, env={**os.environ, "PYTHONPATH": str(code)},
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                limit=LINE_LIMIT, start_new_session=True)
        return _HostWorker(process, Path(self.mount_path(job_dir)))


class _HostWorker:
    #: Longest time for the worker's end, in which cards are restored one after the other.
    _STOP_S = 30.0

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
        raise MissingPackages(machine.lacking[packages])


# --- Libraries that this host's own programs preload, compiled once and kept in the cache ---
# Guests have libraries of their own, built with the guest's image (`guest.libraries`).

_LIBRARY_FILE = "library.base64"


def compile_for_host(source: Path) -> str:
    """Return a shared library that this host's compiler made from a C source, in base 64.

    The result is "" if it cannot be compiled. The testbed reports an error if it needs the library.
    """
    def build(folder: Path) -> dict[str, Any]:
        (folder / _LIBRARY_FILE).write_text(library.compile_library(source))
        return {"of": source.name}

    # Hosts with other processors or C libraries may share a cache, in a home folder on a network.
    command = (*library.ARGV, library.COMPILER_FUNCTIONS, os.uname().machine)
    key = hash_inputs({"source": source.read_bytes(), "by": " ".join(command).encode(),
                       "libc": (os.confstr("CS_GNU_LIBC_VERSION") or "").encode()})
    with contextlib.suppress(MeasureError, OSError):
        store = BuildStore(cache_root() / "host-libraries", "preloaded library")
        return (store.find_or_build(key, build) / _LIBRARY_FILE).read_text()
    return library.compile_if_possible(source)  # without a cache, or without a compiler
