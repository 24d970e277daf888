"""Start a guest, manage its processes and read its clock.

A guest is the User-Mode Linux virtual machine in which a test network runs. `boot_guest` takes a
disk image and starts the kernel as an ordinary process of the host, on one core. The returned
`Guest` has the standard streams of the program that measures there (the worker), or of another
command. It ends the guest on exit. `read_guest_clock` asks the guest's kernel for its time, which
shows whether a guest stands still.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shlex
import shutil
import signal
import socket
import struct
import tempfile
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from guest.image import GuestImage
from guest.processes import PROC, build_tied_command, list_members, read_group_memory

# --- Start and end of a guest ---

SHARED_MEMORY = Path("/dev/shm")
MOUNTS = Path("/proc/self/mountinfo")
INIT = Path(__file__).parent / "init"
#: Name of a job folder's link to the code. The guest mounts it at /opt/qop/code. Modules that the
#: job's own folder `code` lacks are imported from there.
CODE = "shared-code"
LINE_LIMIT = 64 * 1024 * 1024
CONSOLE_LINES = 8
#: How time passes in a guest. "real": waiting takes wall-clock time. "virtual": waiting is skipped
#: and computing takes no time. "processor": waiting is skipped and computing takes the time of the
#: work that was done.
Clock = Literal["real", "virtual", "processor"]
#: Kernel option against the CPU jitter entropy module. Its measurement never ends where computing
#: takes no time.
_NO_JITTER = "initcall_blacklist=jent_mod_init"
_CLOCK_LINES: Mapping[Clock, tuple[str, ...]] = {
    "real": (),
    "virtual": ("time-travel=inf-cpu", _NO_JITTER),
    "processor": ("time-travel=processor", _NO_JITTER),
}
_core_counter = itertools.count()


class GuestError(Exception):
    """An error: a guest cannot be started. The text gives the reason and the remedy."""


@dataclass(frozen=True)
class ExitStatus:
    """The exit status of the command that a guest ran, or the reason why it has none."""

    status: int | None
    reason: str | None

    @property
    def ok(self) -> bool:
        """Return whether the guest's command ran to its end and succeeded."""
        return self.status == 0


class Guest:
    """A running guest, made by `boot_guest`. As a context manager it ends the guest on exit.

    `stdin` feeds the guest's command, at most 500 KB ahead of what it has read: User-Mode Linux
    drops anything beyond. `stdout` carries the command's output, any amount.
    """

    def __init__(self, process: asyncio.subprocess.Process, job_dir: Path, home: Path) -> None:
        assert process.stdin is not None  # it is a pipe
        assert process.stdout is not None
        self.stdin: StreamWriter = process.stdin
        self.stdout: StreamReader = process.stdout
        self.pid = process.pid
        self._process = process
        self._status_file = job_dir / "exit-status"
        self._home = home
        self._killed: str | None = None
        self._exit: ExitStatus | None = None
        self._waiter = asyncio.create_task(self._wait_and_clean_up())

    async def wait(self) -> ExitStatus:
        """Wait until the guest has ended and all of its processes are gone."""
        return await asyncio.shield(self._waiter)

    def suspend(self) -> None:
        """Stop the guest's kernel until `resume` is called.

        Only the kernel is stopped; programs stop at their next system call. Stopping the programs
        as well would report their changed state to the kernel, which treats that as their end.
        """
        self._send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a guest continue that `suspend` has stopped."""
        self._send_signal(signal.SIGCONT)

    async def kill(self, reason: str = "killed") -> ExitStatus:
        """Kill all processes of the guest at once, and return its exit status.

        Args:
            reason: The reason to give in the exit status.
        """
        if self._process.returncode is None:
            self._killed = self._killed or reason
            self._kill_group()
        return await self.wait()

    def memory_bytes(self) -> int:
        """Return how many bytes all processes of the guest use, its own memory included.

        The result is 0 once the guest is gone. The call is expensive: it reads every process of the
        host.
        """
        return read_group_memory(self.pid) if self._process.returncode is None else 0

    def read_console(self, lines: int = CONSOLE_LINES) -> str:
        """Return the last lines that the guest printed on its console."""
        with contextlib.suppress(OSError):
            text = (self._home / "console").read_text(errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    async def __aenter__(self) -> Guest:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill("not needed any more")

    async def _wait_and_clean_up(self) -> ExitStatus:
        code = await self._process.wait()
        # A guest that was killed inside its kernel leaves helper processes that no other process
        # ends.
        self._kill_group()
        while list_members(self.pid):  # noqa: ASYNC110 - nothing announces the end of its helpers
            await asyncio.sleep(0.01)
        console = self.read_console()
        shutil.rmtree(self._home, ignore_errors=True)
        return self._read_exit(code, console)

    def _read_exit(self, code: int, console: str) -> ExitStatus:
        with contextlib.suppress(OSError, ValueError):
            return ExitStatus(int(self._status_file.read_text()), None)
        if self._killed:
            return ExitStatus(None, self._killed)
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        last = f"; its console ended: {console}" if console else ""
        return ExitStatus(None, f"the guest ended {how} before its command did{last}")

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _send_signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


async def boot_guest(  # noqa: PLR0913 - circumstances with defaults, all by name
    image: GuestImage,
    job_dir: Path,
    *,
    cpu: int | None = None,
    memory_mb: int = 256,
    console_log: Path,
    scratch: Path,
    command: Sequence[str] | None = None,
    extra_tty: tuple[int, int] | None = None,
    clock: Clock = "real",
) -> Guest:
    """Start a guest that runs the worker, or `command`.

    Call this function from the main thread: the kernel ends the guest when the thread that started
    it ends. No privileges are needed.

    Args:
        image: Kernel and root file system to boot.
        job_dir: Folder that the guest mounts at /host.
        cpu: The one core that the guest runs on. By default the cores are used in turn.
        memory_mb: The guest's memory in MB, at least 64.
        console_log: File for kernel messages and standard error.
        scratch: Folder for the guest's files. It also holds the guest's memory if no tmpfs can.
        command: Command to run in place of the worker.
        extra_tty: A pair of file descriptors for the guest's /dev/ttyS2.
        clock: How time passes in the guest.

    Returns:
        The running guest.

    Raises:
        GuestError: The guest cannot be started with these settings on this machine.
    """
    require_settings(image, memory_mb, clock)
    prepare_job(job_dir, command)
    memory_dir = find_room_for_memory(memory_mb, scratch)
    home = make_home(image, job_dir, console_log, scratch)
    if clock != "real":
        (job_dir / "image").unlink(missing_ok=True)
        (job_dir / "image").symlink_to(image.root.parent.resolve())
    return await start_kernel(image, _kernel_line(extra_tty), home, job_dir, memory_mb=memory_mb,
                              memory_dir=memory_dir, cpu=cpu, clock=clock,
                              descriptors=extra_tty or ())


def require_settings(image: GuestImage, memory_mb: int, clock: Clock) -> None:
    """Raise a GuestError if no guest of an image can have this memory or this clock."""
    if memory_mb < 64:
        raise GuestError(f"a guest needs 64 MB of memory or more, not {memory_mb}")
    if clock == "processor" and not image.processor_clock:
        raise GuestError(
            f"clock processor: {describe_missing_processor_clock(image)}; use another clock")


async def start_kernel(  # noqa: PLR0913 - circumstances, most by name
    image: GuestImage, options: Sequence[str], home: Path, job_dir: Path, *, memory_mb: int,
    memory_dir: Path, cpu: int | None, clock: Clock, descriptors: Sequence[int] = ()
) -> Guest:
    """Start a guest's kernel in its working folder, which has a file or link `console`.

    Args:
        image: The image with the kernel.
        options: The kernel's options, without those for memory, clock and lines. File names may not
            contain blanks, commas or colons, because these have a meaning there.
        home: The working folder. It is removed at the guest's end.
        job_dir: Folder with the file `exit-status` that the guest may write.
        memory_mb: The guest's memory in MB.
        memory_dir: Folder of the file with the guest's memory.
        cpu: The one core that the guest runs on. By default the cores are used in turn.
        clock: How time passes in the guest.
        descriptors: Further file descriptors that the kernel inherits.

    Raises:
        GuestError: The kernel cannot be started.
    """
    core = cpu if cpu is not None else _next_core()
    line = [*build_tied_command("KILL"), "taskset", "-c", str(core), str(image.kernel),
            *(["seccomp=on"] if image.seccomp else []), f"mem={memory_mb}M",
            *("uml_dir=.", "umid=uml", "quiet"),
            *("con=null", "con0=null,fd:2", "ssl=null", "ssl0=fd:0,null", "ssl1=null,fd:1"),
            *options, *_CLOCK_LINES[clock]]
    try:
        with open(home / "console", "ab") as console:  # noqa: ASYNC230 - opened, never waited for
            process = await asyncio.create_subprocess_exec(
                *line,
                stdin=PIPE,
                stdout=PIPE,
                stderr=console,
                cwd=home,
                env={"TMPDIR": str(memory_dir), "PATH": os.environ.get("PATH", os.defpath)},
                # A separate session, because the harness handles Ctrl-C itself. Killing the process
                # group ends every helper process.
                start_new_session=True,
                pass_fds=descriptors,
                limit=LINE_LIMIT,
            )
    except OSError as error:
        shutil.rmtree(home, ignore_errors=True)
        raise GuestError(f"cannot start the guest: {error}") from error
    return Guest(process, job_dir, home)


def describe_missing_processor_clock(image: GuestImage) -> str:
    """Return why guests of an image cannot use the processor clock, "" if they can."""
    left_out = image.manifest.get("kernel", {}).get("patches_left_out")
    if left_out is None:
        return "the guest's kernel is from before it; ./qop provision builds one that has it"
    kernel = f"the guest's kernel is {image.manifest['kernel']['version']}"
    if not left_out:
        return f"{kernel}, which traps system calls without seccomp"
    return f"{kernel}, to which {', '.join(left_out)} cannot be applied"


def _kernel_line(extra_tty: tuple[int, int] | None) -> list[str]:
    extra = f"fd:{extra_tty[0]},fd:{extra_tty[1]}" if extra_tty else "null"
    return [
        # Relative names below the guest's folder. (hostfs does not accept relative names; its path
        # leads through /proc.)
        *("ubd0r=root", "root=/dev/ubda", "ro", "rootfstype=squashfs"),
        *("init=/sbin/qop-init", "hostfs=/proc/self/cwd/host"),
        *(f"ssl2={extra}", "mac80211_hwsim.radios=0"),
    ]


def prepare_job(job_dir: Path, command: Sequence[str] | None) -> None:
    """Write the files that the guest's init program reads, and remove those of an earlier guest."""
    (job_dir / "exit-status").unlink(missing_ok=True)
    (job_dir / "command").unlink(missing_ok=True)
    if command is not None:
        (job_dir / "command").write_text("exec " + shlex.join(command) + "\n")
    (job_dir / "code/guest").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(INIT, job_dir / "code/guest/init")


def make_home(image: GuestImage, job_dir: Path, console_log: Path, scratch: Path) -> Path:
    """Create the working folder of a guest, with links to kernel and root file system.

    The links have simple names, for the guest's command line.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="guest-", dir=scratch))
    (home / "root").symlink_to(image.root.absolute())
    (home / "host").symlink_to(job_dir.absolute())
    (home / "console").symlink_to(console_log.absolute())
    return home


def find_room_for_memory(memory_mb: int, scratch: Path,
                         advice: str = "make room or choose another folder") -> Path:
    """Return the folder for the guest's memory file.

    A tmpfs is preferred. The folder `scratch` is used if no tmpfs has enough room. `advice` says
    what the user can do if neither a tmpfs nor `scratch` has enough room.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    place = find_memory_folder(memory_mb) or (scratch if has_room_for(scratch, memory_mb) else None)
    if place is None:
        raise GuestError(
            f"neither {SHARED_MEMORY} nor {scratch} can hold a guest's memory of {memory_mb} MB "
            f"(room, write permission, not mounted noexec); {advice}"
        )
    return place.absolute()


def find_memory_folder(memory_mb: int) -> Path | None:
    """Return a tmpfs folder that can hold a guest's memory, or None.

    The candidates are /dev/shm and the folder for temporary files. The /dev/shm of a container is
    small and mounted noexec. Its /tmp often is neither.
    """
    for place in (SHARED_MEMORY, Path(tempfile.gettempdir())):
        if is_in_memory(place) and has_room_for(place, memory_mb):
            return place
    return None


def has_room_for(folder: Path, memory_mb: int) -> bool:
    """Return whether a folder can hold a guest's memory file.

    The file system needs enough free space, write permission, and no noexec option.
    """
    with contextlib.suppress(OSError):
        state = os.statvfs(folder)
        room = state.f_bavail * state.f_frsize >= memory_mb << 20
        return room and not state.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)
    return False


def is_in_memory(folder: Path) -> bool:
    """Return whether a folder is on a tmpfs."""
    with contextlib.suppress(OSError):
        device = folder.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in MOUNTS.read_text().splitlines():
            if line.split()[2] == number:
                return line.partition(" - ")[2].split()[0] == "tmpfs"
    return False


def _next_core() -> int:
    cores = sorted(os.sched_getaffinity(0))
    return cores[next(_core_counter) % len(cores)]


# --- Clock of a guest's kernel, through the User-Mode Linux management console ---
# The kernel answers from an interrupt, so it also answers when no program in the guest makes
# progress.

# Format from arch/um/drivers/mconsole.h. A request is magic, version, length and text. An answer is
# error, a flag for more data, length and text.
_CONSOLE_MAGIC, _CONSOLE_VERSION, _CONSOLE_TEXT_BYTES = 0xCAFEBABE, 2, 512
_CONSOLE_REQUEST, _CONSOLE_ANSWER = f"=III{_CONSOLE_TEXT_BYTES}s", "=III"
_CONSOLE_COMMAND = b"clock"


@dataclass(frozen=True)
class GuestClock:
    """The time of a guest's clock, and the program that the guest ran at that moment.

    `at_s` is the guest's time in seconds.
    """

    at_s: float
    program: str


class GuestClockError(Exception):
    """An error: a guest's kernel cannot report its clock.

    The kernel is gone, or it is too old for the command.
    """


async def read_guest_clock(pid: int, timeout_s: float = 2.0) -> GuestClock | None:
    """Ask a guest's kernel for the time of its clock.

    Args:
        pid: Process id of the guest's kernel.
        timeout_s: Longest wait for the answer, in seconds.

    Returns:
        The clock, or None if there is no answer in time.

    Raises:
        GuestClockError: The kernel is gone or does not know the command.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.settimeout(0)
        line.bind("")  # an abstract address chosen by Linux, for the answer
        try:
            # Through /proc, because the path of the guest's folder may exceed the length of a
            # socket address.
            line.sendto(struct.pack(_CONSOLE_REQUEST, _CONSOLE_MAGIC, _CONSOLE_VERSION,
                                    len(_CONSOLE_COMMAND), _CONSOLE_COMMAND),
                        f"{PROC}/{pid}/cwd/uml/mconsole")
        except BlockingIOError:
            return None
        except OSError as error:
            raise GuestClockError(str(error)) from None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                answer = await asyncio.get_running_loop().sock_recv(line, _CONSOLE_TEXT_BYTES * 2)
                return parse_console_answer(answer)
    return None


def parse_console_answer(answer: bytes) -> GuestClock:
    """Parse the answer of a guest's kernel to a question for its clock.

    Raises GuestClockError if the answer is an error.
    """
    error, _, length = struct.unpack_from(_CONSOLE_ANSWER, answer)
    text = answer[struct.calcsize(_CONSOLE_ANSWER):][:length].rstrip(b"\0").decode(errors="replace")
    at_ns, _, rest = text.partition(" ")
    if error or not at_ns.isdigit():
        raise GuestClockError(text)
    return GuestClock(int(at_ns) / 1e9, rest.partition(" ")[2] or "?")
