"""Boot a machine with radios that runs one command on the caller's own root file system.

This is the machine of `./qop radio`: a User-Mode Linux guest with emulated 802.11 radios, without
an image of its own. `boot_radio_machine` takes the command, the radios and the bound folders
(`RadioSettings`). The machine's first process is the static program `guest/programs/radio-init.c`.
It makes an overlay in memory over the caller's root, mounts the bound folders, and starts the
command. `Frame` describes how it exchanges the command's input, output and signals with the host.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import shutil
import socket
import struct
import tempfile
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from guest.boot import Clock, Guest, find_room_for_memory, require_settings, start_kernel
from guest.image import GuestImage

INIT = "radio-init"
#: The kernel's limit for radios that are made at its start.
MOST_RADIOS = 100
#: Memory of a machine without radios, and of each radio, in MB. Pages that no program has used need
#: no memory of the host.
BASE_MB, RADIO_MB = 240, 8
#: Memory that the kernel needs for itself, and for each radio, in MB.
LEAST_BASE_MB, LEAST_RADIO_MB = 64, 1
#: The kernel accepts this many arguments and variables of the command.
MOST_WORDS = 4095


class Stream(enum.IntEnum):
    """A stream between the command and the host, by its number in frames.

    If the caller's input, output or errors are a terminal, TERMINAL takes the place of these
    streams. KEYS has a frame for each key of a radio: its algorithm, a blank, and the key in hex.
    """

    INPUT = 0
    OUTPUT = 1
    ERRORS = 2
    TERMINAL = 3
    CAPTURE = 4
    KEYS = 5


#: Bytes of a stream that may be under way before the receiver acknowledges them.
WINDOW_BYTES = 65536


@dataclass(frozen=True)
class Frame:
    """A message between the host and the machine's first process (not an 802.11 frame).

    A message is its type, the stream's number, two unused bytes, the length of its data (32 bits),
    and the data. All numbers are little-endian. The types are:

    - D: data of a stream,
    - A: the receiver has taken this many bytes of a stream and has room for as many more,
    - C: to the machine: the stream is closed,
    - S, W: to the machine: a signal for the command, rows and columns of the terminal,
    - R: from the machine: the command was started,
    - X: from the machine: the command has ended with this exit status,
    - U: from the machine: the command has read this many bytes of its input,
    - E: from the machine: the command could not be started, with the system's error number,
    - L: from the machine: this many packets are missing in the capture,
    - F: from the machine: a failure before the command was started, as text.
    """

    kind: str
    stream: int = 0
    data: bytes = b""

    _HEADER = struct.Struct("<cBxxI")

    @classmethod
    def from_number(cls, kind: str, number: int, stream: int = 0) -> Frame:
        """Return a message whose data is one 32-bit number."""
        return cls(kind, stream, struct.pack("<I", number))

    def read_number(self) -> int:
        """Return the data of this message as a 32-bit number."""
        return int(struct.unpack("<I", self.data)[0])

    def to_bytes(self) -> bytes:
        """Return the frame as bytes."""
        return self._HEADER.pack(self.kind.encode(), self.stream, len(self.data)) + self.data

    @classmethod
    async def read_frame(cls, reader: StreamReader) -> Frame | None:
        """Read the next frame, or return None at the end of the machine's output."""
        try:
            kind, stream, length = cls._HEADER.unpack(
                await reader.readexactly(cls._HEADER.size))
            return cls(kind.decode(), stream, await reader.readexactly(length))
        except IncompleteReadError:
            return None


@dataclass(frozen=True)
class SetupStep:
    """A step in a network namespace before the command starts.

    It is a shell command, or a netlink request to which the number of an interface is added.
    """

    namespace: str
    command: str = ""
    device: str = ""
    request: bytes = b""

    def to_word(self) -> str:
        """Return the step as a word of the machine's settings."""
        rest = f"{self.device} {self.request.hex()}" if self.request else self.command
        return f"{'q' if self.request else 'x'}{self.namespace} {rest}"


@dataclass(frozen=True)
class RadioSettings:
    """The command of a machine with radios, and the machine's resources.

    Attributes:
        argv: The command and its arguments.
        environment: The command's environment variables.
        folder: The command's working folder. The root's own is taken if it has no such folder. A
            path below `root` is the folder's path in the machine without it.
        root: Folder of the host that is the machine's root. What is written there is thrown away.
        binds: Folders of the host that the command may write to, at their paths in the machine.
        namespaces: Names of network namespaces. The first radio moves to the first one, and so on.
        steps: Steps before the command, after the namespaces are made.
        radios: Number of radios.
        parameters: Parameters of the module mac80211_hwsim, as NAME=VALUE.
        captures: Whether the machine sends what is on the air, on the stream CAPTURE.
        reads_keys: Whether the machine sends the keys of the radios, too.
        clock: How time passes in the machine.
        memory_mb: The machine's memory in MB, 0 for a size by the number of radios.
        terminals: Streams among INPUT, OUTPUT and ERRORS that are a terminal.
        window: Rows and columns of the terminal.
        mask: The mask of permissions of new files (umask).
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    root: Path = Path("/")
    binds: Sequence[Path] = ()
    namespaces: Sequence[str] = ()
    steps: Sequence[SetupStep] = ()
    radios: int = 2
    parameters: Sequence[str] = ()
    captures: bool = False
    reads_keys: bool = False
    clock: Clock = "real"
    memory_mb: int = 0
    terminals: Sequence[Stream] = ()
    window: tuple[int, int] = (24, 80)
    mask: int = 0o022
    host_name: str = field(default_factory=lambda: os.uname().nodename)

    def machine_memory_mb(self) -> int:
        """Return the machine's memory in MB."""
        return self.memory_mb or BASE_MB + RADIO_MB * self.radios

    def path_inside(self, folder: Path) -> Path:
        """Return the path in the machine of a folder of the host."""
        below = folder.is_relative_to(self.root)
        return Path("/") / folder.relative_to(self.root) if below else folder

    def to_bytes(self) -> bytes:
        """Return the settings as the machine's first process reads them."""
        words = [
            f"r{self.root}", f"d{self.path_inside(self.folder)}", f"h{self.host_name}",
            f"m{self.mask:o}",
            "t" + "".join(str(int(stream)) for stream in self.terminals),
            f"w{self.window[0]} {self.window[1]}", *(["c"] if self.captures else []),
            *(["k"] if self.reads_keys else []),
            *(word for folder in self.binds
              for word in (f"b{self.path_inside(folder)}", f"s{folder}")),
            *(f"n{name}" for name in self.namespaces),
            *(step.to_word() for step in self.steps), *(f"a{word}" for word in self.argv),
            *(f"e{name}={value}" for name, value in self.environment.items())]
        return b"".join(os.fsencode(word) + b"\0" for word in words)


@functools.cache
def claim_core() -> int:
    """Return the core for this process's machines: one without another such process, if possible.

    The claim is the name of a socket, which the kernel releases when this process ends.
    """
    cores = sorted(os.sched_getaffinity(0))
    for core in cores:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            claim.bind(f"\0qop-radio-core-{core}")
            _CLAIMS.append(claim)
            return core
        claim.close()
    return cores[os.getpid() % len(cores)]


#: Sockets whose names claim a core. They stay open until this process ends.
_CLAIMS: list[socket.socket] = []


async def boot_radio_machine(image: GuestImage, settings: RadioSettings, scratch: Path) -> Guest:
    """Start a machine with radios. Its standard streams carry frames.

    Args:
        image: Kernel and libraries (`guest.image.ensure_rootless_image`).
        settings: The command and its machine.
        scratch: Folder for the machine's files.

    Raises:
        GuestError: The machine cannot be started with these settings on this host.
    """
    memory_mb = settings.machine_memory_mb()
    require_settings(image, memory_mb, settings.clock)
    memory_dir = find_room_for_memory(memory_mb, scratch, "make room, or give fewer radios or a "
                                      "smaller --memory")
    # This folder is the kernel's first root. Its names are short, for the kernel's options.
    home = Path(tempfile.mkdtemp(prefix="radio-", dir=scratch))
    for name in ("dev", "lower", "memory", "root"):
        (home / name).mkdir()
    shutil.copy(image.libraries / INIT, home / "init")
    (home / "init").chmod(0o700)  # mmdebstrap downloads files without their mode
    (home / "settings").write_bytes(settings.to_bytes())
    options = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/proc/self/cwd", "rw",
               "init=/init", f"mac80211_hwsim.radios={settings.radios}",
               *(f"mac80211_hwsim.{parameter}" for parameter in settings.parameters)]
    return await start_kernel(image, options, home, home, memory_mb=memory_mb,
                              memory_dir=memory_dir, cpu=claim_core(), clock=settings.clock)
