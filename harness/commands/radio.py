"""`qop radio`: run a command of the user in a machine with emulated 802.11 radios.

The machine is User-Mode Linux on the user's own root file system, so that programs and files are
those of this machine. The command gets the user's environment, standard streams and signals. The
first process of the machine and this process exchange the command's input and output as frames
(`guest.radio.Frame`). The exit status is that of the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import math
import os
import queue
import re
import select
import shutil
import signal
import struct
import tempfile
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import click

from guest import image, radio
from guest.boot import Clock, Guest, GuestError
from guest.build import BuildError
from guest.radio import Frame, RadioSettings, SetupStep, Stream
from harness.errors import UserError

#: Prefix with which ./qop keeps variables of the caller's that it changes for its own Python.
CALLERS_PREFIX = "QOP_CALLERS_"
#: Environment of this process at its start. The harness itself removes most variables.
ENVIRONMENT = Path("/proc/self/environ")
#: Global header of a capture: pcap with nanoseconds, whole packets of 802.11 with radiotap.
_CAPTURE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 127)
_READ_BYTES = 16384
#: Interval in s in which a job in the background looks whether it has the terminal.
_BACKGROUND_S = 0.2
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
              signal.SIGUSR2)
#: Time that a command has to end after SIGTERM or SIGHUP, in s. Then its machine is killed.
_GRACE_S = 10.0
#: Number of times that the user presses Ctrl-C until the machine is killed.
_INTERRUPTIONS = 3
_NOT_EXECUTABLE, _NOT_FOUND, _SIGNALLED = 126, 127, 128
_CHANNELS = range(1, 15)
#: Channel of the access point on a medium without --channels.
_FIRST_CHANNEL = 1
#: Bytes that CCMP adds to a frame, which the medium does not see.
_CCMP_BYTES = 16
#: Parameters of mac80211_hwsim and their values. Of others the kernel keeps its own, or makes no
#: radio.
_PARAMETER = re.compile(r"channels=[1-9][0-9]?|regtest=([0-9]|10)|"
                        r"(paged_rx|rctbl|support_p2p_device|mlo|multi_radio)=[01yYnN]")
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def _parse_namespaces(_context: click.Context, _parameter: click.Parameter,
                      text: str) -> tuple[str, ...]:
    names = tuple(text.split(",")) if text else ()
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            raise UserError(f"--namespaces {text}: '{name}' is no name of a network namespace; "
                            "write for example sta1,ap1")
    return names


def _parse_parameters(_context: click.Context, _parameter: click.Parameter,
                      texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not _PARAMETER.fullmatch(text):
            raise UserError(f"--hwsim {text}: is no parameter of mac80211_hwsim with one of its "
                            "values; write for example channels=2")
    return texts


def _parse_channels(_context: click.Context, _parameter: click.Parameter,
                    text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        channels = tuple(int(word) for word in text.split(","))
    except ValueError:
        channels = ()
    if not channels or not all(channel in _CHANNELS for channel in channels):
        raise UserError(f"--channels {text}: is no list of channels of the 2.4 GHz band; write for "
                        "example 1,6")
    return channels


def _parse_positions(_context: click.Context, _parameter: click.Parameter,
                     texts: tuple[str, ...]) -> tuple[tuple[float, ...], ...]:
    positions = []
    for text in texts:
        try:
            positions.append(tuple(float(word) for word in text.split(",")))
        except ValueError:
            positions.append(())
        if len(positions[-1]) not in (2, 3) or not all(map(math.isfinite, positions[-1])):
            raise UserError(f"--position {text}: is no position; write for example 0,30")
    return tuple(positions)


@click.command("radio", context_settings={"help_option_names": ["-h", "--help"],
                                          "allow_interspersed_args": False})
@click.option("-n", "--radios", type=click.IntRange(1, radio.MOST_RADIOS), metavar="N",
              help="Make this many radios, wlan0 to wlanN-1 (default: one for each namespace, at "
              "least 2).")
@click.option("--clock", type=click.Choice(["real", "virtual", "processor"]), default="real",
              help="Let time pass in this way. virtual: waiting is skipped, and computing takes no "
              "time. processor: waiting is skipped, and computing in the namespaces takes time "
              "(default: real).")
@click.option("--namespaces", default="", callback=_parse_namespaces, metavar="NAME,NAME...",
              help="Make network namespaces with these names. The first radio moves to the first "
              "one, and so on. A repeated name gets several radios (default: none).")
@click.option("--hwsim", "parameters", multiple=True, callback=_parse_parameters,
              metavar="NAME=VALUE", help="Set a parameter of the kernel's module mac80211_hwsim, "
              "such as channels=2. May be repeated (default: those of the kernel).")
@click.option("--medium", default="", metavar="NAME_OR_FILE",
              help="Let frames contend for the air as this medium says (default: frames take no "
              "time on the air).")
@click.option("--channels", callback=_parse_channels, metavar="CHANNEL,CHANNEL...",
              help="Put access points on these channels of the medium. The first radios are the "
              "access points (default: 1, so wlan0 is one on channel 1).")
@click.option("--position", "positions", multiple=True, callback=_parse_positions, metavar="X,Y",
              help="Put a radio at this position in m, for a medium with distances. Give one for "
              "each radio in their order (default: none).")
@click.option("--capture", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write all frames on the air to this file, as pcap with radiotap (default: no "
              "capture).")
@click.option("--keys", "key_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With --capture, write the keys that the radios used to this file, as lines of "
              "Wireshark's file 80211_keys (default: no keys).")
@click.option("--root", type=click.Path(path_type=Path), default=Path("/"), metavar="DIR",
              help="Use this folder as the root file system of COMMAND (default: /).")
@click.option("--bind", "binds", type=click.Path(path_type=Path), multiple=True, metavar="DIR",
              help="Let COMMAND change this folder. What it writes elsewhere is thrown away. "
              "May be repeated (default: none).")
@click.option("--memory", "memory_mb", type=click.IntRange(1), metavar="MB",
              help=f"Give the machine this much memory (default: {radio.BASE_MB} MB and "
              f"{radio.RADIO_MB} MB for each radio).")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
def run_command(
        radios: int | None, clock: str, namespaces: tuple[str, ...],
        parameters: tuple[str, ...], medium: str,
        channels: tuple[int, ...], positions: tuple[tuple[float, ...], ...], capture: Path | None,
        key_file: Path | None, root: Path, binds: tuple[Path, ...], memory_mb: int | None,
        argv: tuple[str, ...]) -> int:
    """Run COMMAND in a machine with emulated radios, on this system's root file system.

    COMMAND runs as root of the machine, which has no network but its own. Input, output, signals
    and exit status are those of COMMAND. Without COMMAND, a shell is opened.
    """
    number = radios or max(2, len(namespaces))
    if len(namespaces) > number:
        raise UserError(f"-n {number}: --namespaces has {len(namespaces)} names; give at least as "
                        "many radios")
    least_mb = radio.LEAST_BASE_MB + radio.LEAST_RADIO_MB * number
    if memory_mb and memory_mb < least_mb:
        raise UserError(f"--memory {memory_mb}: is too little for {number} radios; give at least "
                        f"{least_mb}")
    if key_file:
        _check_key_file(key_file, capture)
    if not medium and (channels or positions):
        option = "--channels" if channels else "--position"
        raise UserError(f"{option}: belongs to a medium, and there is none; add --medium NAME, or "
                        f"leave out {option}")
    root = _find_folder("--root", root)
    environment = read_callers_environment(ENVIRONMENT.read_bytes())
    argv = argv or (_find_shell(root, environment if root == Path("/") else {}),)
    if not argv[0]:
        raise UserError("radio: COMMAND is empty; name a program, or leave COMMAND out for a shell")
    settings = RadioSettings(
        argv, environment, Path.cwd(), root, binds=[_find_writable(folder) for folder in binds],
        namespaces=namespaces, radios=number, parameters=parameters, captures=capture is not None,
        steps=_make_air(medium, channels or (_FIRST_CHANNEL,), positions, namespaces, number
                        ) if medium else (),
        reads_keys=key_file is not None, clock=cast("Clock", clock), memory_mb=memory_mb or 0,
        terminals=[stream for stream in (Stream.INPUT, Stream.OUTPUT, Stream.ERRORS)
                   if os.isatty(stream)], window=_read_window(), mask=_read_mask())
    if sum(len(part) for part in (argv, environment)) > radio.MOST_WORDS:
        raise UserError(f"radio: COMMAND and its environment have more than {radio.MOST_WORDS} "
                        "words; give fewer")
    try:
        with ExitStack() as stack:
            files = {Stream.CAPTURE: stack.enter_context(_open_file("--capture", capture))
                     } if capture else {}
            if key_file:
                files[Stream.KEYS] = stack.enter_context(_open_file("--keys", key_file))
            _check_command(settings)
            built = _ensure_image()
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="qop-radio-"))
            stack.enter_context(_raw_terminal())
            return asyncio.run(_run_machine(built, settings, Path(scratch), files))
    except BuildError as error:
        raise UserError(str(error), status=1) from None
    except GuestError as error:
        raise UserError(f"radio: {error}", status=1) from None


command = run_command


def _ensure_image() -> image.GuestImage:
    """Return the kernel of machines with radios, built in some minutes if it is missing.

    Raises:
        UserError: This machine cannot build it, or guests cannot run here.
    """
    if found := image.find_rootless_image():
        return found
    from harness.engine import setup  # the container image with radios alone has no such modules

    setup.check_before_build(is_whole=False, measures=False)
    return image.ensure_rootless_image()


def read_callers_environment(text: bytes) -> dict[str, str]:
    """Return the environment that ./qop was called with, from this process's own at its start.

    Args:
        text: Content of /proc/PID/environ.
    """
    present = dict(os.fsdecode(word).split("=", 1) for word in text.split(b"\0") if b"=" in word)
    callers = {name.removeprefix(CALLERS_PREFIX): value for name, value in present.items()
               if name.startswith(CALLERS_PREFIX)}
    if not callers:  # not started by ./qop
        return present
    return {name: value for name, value in present.items()
            if not name.startswith((CALLERS_PREFIX, "PYTHONPATH"))} | {
                name: value for name, value in callers.items() if name}


def _make_air(name: str, channels: Sequence[int], positions: Sequence[Sequence[float]],
              namespaces: Sequence[str], radios: int) -> list[SetupStep]:
    """Return the steps that make a medium for a machine's radios.

    Raises:
        UserError: There is no such medium, or these radios cannot use it.
    """
    from topologies import errors, loader, medium, model

    try:
        chosen = loader.load_medium(name)
    except errors.TopologyError as error:
        raise UserError(f"--medium {error}") from None
    if chosen.air != model.DCF:
        raise UserError(f"--medium {name}: stations take turns on it, which needs a network; "
                        "choose one with 'air: dcf'")
    if len(channels) > radios:
        raise UserError(f"--channels: {len(channels)} access points need as many radios, and there "
                        f"are only {radios}; give -n {len(channels)}")
    if chosen.signal and len(positions) != radios:
        raise UserError(f"--medium {name}: needs the position of each of the {radios} radios, not "
                        f"{len(positions)}; add --position X,Y for each radio")
    if positions and not chosen.signal:
        raise UserError(f"--position: the medium {name} has no signal that falls with distance; "
                        "choose another medium, or leave out --position")
    transmitters = medium.Transmitters.from_radios(
        [f"02:00:00:00:{radio:02x}:00" for radio in range(radios)], channels, positions)
    steps = []
    for channel in dict.fromkeys(channels):
        places = {(*namespaces, *[""] * radios)[radio] for radio, its in enumerate(channels)
                  if its == channel}
        if len(places) > 1:
            raise UserError(f"--medium {name}: the access points on channel {channel} are in "
                            "several namespaces; give them the same name in --namespaces")
        [place] = places
        device, create, request, attach = medium.describe_channel(
            chosen, transmitters, channel, _CCMP_BYTES)
        steps += [SetupStep(place, create), SetupStep(place, device=device, request=request),
                  SetupStep(place, attach)]
    return steps


# --- Bad input ---


def _check_key_file(key_file: Path, capture: Path | None) -> None:
    """Check that keys go with a capture, into a file of their own."""
    if capture is None:
        raise UserError(f"--keys {key_file}: keys are read while frames are captured; add "
                        "--capture FILE")
    if key_file.absolute() == capture.absolute():
        raise UserError(f"--keys {key_file}: is the file of --capture; name another file")


def _find_folder(option: str, folder: Path) -> Path:
    """Return the absolute path of a folder, or raise a UserError if it cannot be used."""
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "there is no such folder"
        raise UserError(f"{option} {folder}: {problem}; name one that exists")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UserError(f"{option} {folder}: no permission to read it; name another folder")
    return folder.resolve()


def _find_writable(folder: Path) -> Path:
    found = _find_folder("--bind", folder)
    if found == Path("/"):
        raise UserError("--bind /: the whole system would be writable; name a folder in it")
    if not os.access(found, os.W_OK):
        raise UserError(f"--bind {folder}: no permission to write to it; name another folder")
    return found


def _find_shell(root: Path, environment: Mapping[str, str]) -> str:
    """Return the path of the shell to run without a command: the caller's own, or /bin/sh."""
    for shell in (environment.get("SHELL", ""), "/bin/sh"):
        if shell.startswith("/") and (root / shell[1:]).exists():
            return shell
    # An absolute link leads to another file outside of the root.
    if (root / "bin/sh").is_symlink() or (root / "bin").is_symlink():
        return "/bin/sh"
    raise UserError(f"--root {root}: there is no /bin/sh; name the root folder of a system, or "
                    "give a COMMAND that is there")


def _check_command(settings: RadioSettings) -> None:
    """Raise UserError if this system has no such command, before a machine is built for it."""
    name, folders = settings.argv[0], settings.environment.get("PATH", "").split(":")
    if settings.root == Path("/") and "/" not in name and all(
            folder.startswith("/") and not os.path.lexists(f"{folder}/{name}")
            for folder in folders):
        raise _make_start_error(settings, errno.ENOENT)


def _read_mask() -> int:
    """Return the umask of this process."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _open_file(option: str, path: Path) -> BinaryIO:
    try:
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise _make_file_error(f"{option} {path}", error) from None


def _make_file_error(name: str, error: OSError) -> UserError:
    return UserError(f"{name}: cannot be written ({error.strerror}); name another file", status=1)


def format_key(text: str) -> bytes:
    """Return the line of Wireshark's file 80211_keys for a key of a radio, b"" if it has none.

    Args:
        text: Algorithm and key in hex, as mac80211's debugfs shows them.
    """
    algorithm, key = text.split()
    if "CMAC" in algorithm or "GMAC" in algorithm:  # keys of management frames, which show all
        return b""
    return f'"{"wep" if algorithm.startswith("WEP") else "tk"}","{key}"\n'.encode()


# --- Terminal ---


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Set a terminal on standard input to raw mode, so that every key reaches the command.

    A program in the background may not change its terminal.
    """
    if not os.isatty(0) or _is_in_background():
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # keys that were pressed before count, too
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _is_in_background() -> bool:
    """Return whether the terminal of standard input belongs to another job of the shell."""
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:  # not the controlling terminal of this process
        return False


def _find_terminal() -> int:
    """Return a descriptor of the caller's terminal for output."""
    return next((number for number in (1, 2, 0) if os.isatty(number)), 1)


def _read_window() -> tuple[int, int]:
    size = shutil.get_terminal_size()
    with contextlib.suppress(OSError):
        rows, columns, *_ = struct.unpack("HHHH", fcntl.ioctl(
            _find_terminal(), termios.TIOCGWINSZ, bytes(8)))
        if rows and columns:
            return rows, columns
    return size.lines, size.columns


# --- Relay between the caller's streams and the machine ---


@dataclass(eq=False)
class _Output:
    """A stream of the caller's that a thread of its own writes to.

    Only that thread waits for a slow reader.
    """

    descriptor: int
    on_written: Callable[[int], None]
    on_closed: Callable[[], None]
    error: OSError | None = None

    def __post_init__(self) -> None:
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_pieces, daemon=True)
        self._thread.start()

    def write_data(self, data: bytes) -> None:
        """Write data as soon as the stream takes it."""
        self._pieces.put(data)

    async def wait_written(self) -> None:
        """Wait until all data is written."""
        self._pieces.put(None)
        while self._thread.is_alive():  # noqa: ASYNC110 - a thread announces nothing
            await asyncio.sleep(0.002)

    def _write_pieces(self) -> None:
        while (data := self._pieces.get()) is not None:
            left = memoryview(data)
            try:
                while left and self.error is None:
                    with contextlib.suppress(BlockingIOError):
                        left = left[os.write(self.descriptor, left):]
            except OSError as error:  # a reader that has gone, a full disk
                self.error = error
                self.on_closed()
            self.on_written(len(data))


@dataclass(eq=False)
class _Relay:
    """The caller's streams and signals, connected to a machine's first process."""

    guest: Guest
    files: Mapping[Stream, BinaryIO]
    signalled: signal.Signals | None = None

    def __post_init__(self) -> None:
        if Stream.CAPTURE in self.files:
            self._write_file(self.files[Stream.CAPTURE], _CAPTURE_HEADER)
        self._loop = asyncio.get_running_loop()
        self._input_room = radio.WINDOW_BYTES
        self._input_sent, self._input_is_over = 0, False
        self._has_room = threading.Condition()
        self._is_started = False
        self._interruptions = 0
        self._outputs = {stream: self._make_output(stream, descriptor) for stream, descriptor in (
            (Stream.OUTPUT, 1), (Stream.ERRORS, 2), (Stream.TERMINAL, _find_terminal()))}

    async def relay_streams(self) -> Frame | None:
        """Relay until the machine has ended, and return the frame with its end or None."""
        for number in _FORWARDED:
            self._loop.add_signal_handler(number, self._forward_signal, number)
        self._loop.add_signal_handler(signal.SIGWINCH, self._forward_window)
        end = None
        while frame := await Frame.read_frame(self.guest.stdout):
            if frame.kind in "XEF":
                end = frame
            else:
                self._take_frame(frame)
        ended = await self.guest.wait()
        # Python's transport reports what it could not write to a machine that has ended.
        self.guest.stdin.close()
        with contextlib.suppress(OSError):
            await self.guest.stdin.wait_closed()
        drained = asyncio.gather(*(output.wait_written() for output in self._outputs.values()))
        while not drained.done() and self.signalled is None:
            await asyncio.wait([drained], timeout=0.05)
        for stream, output in self._outputs.items():
            if output.error and not isinstance(output.error, BrokenPipeError):
                raise UserError(f"radio: standard {stream.name.lower()}: cannot be written "
                                f"({output.error.strerror}); send it somewhere else", status=1)
        if end is None and self.signalled is None:
            raise GuestError(ended.reason or "the machine has ended before its command did")
        return end

    def _take_frame(self, frame: Frame) -> None:
        match frame.kind:
            case "D" if frame.stream in self.files:
                self._write_file(self.files[Stream(frame.stream)], format_key(
                    frame.data.decode()) if frame.stream == Stream.KEYS else frame.data)
            case "D":
                self._outputs[Stream(frame.stream)].write_data(frame.data)
            case "A":
                with self._has_room:
                    self._input_room += frame.read_number()
                    self._has_room.notify()
            case "R":
                self._is_started = True
                threading.Thread(target=self._read_input, daemon=True).start()
            case "U":
                self._leave_input(frame.read_number())
            case "L" if frame.read_number():
                click.echo(f"qop: radio: {frame.read_number()} frames are missing in the capture; "
                           "give the machine less to do at a time", err=True)

    @staticmethod
    def _write_file(file: BinaryIO, data: bytes) -> None:
        try:
            file.write(data)
        except OSError as error:
            raise _make_file_error(str(file.name), error) from None

    def _make_output(self, stream: Stream, descriptor: int) -> _Output:
        return _Output(
            descriptor,
            lambda written: self._send_soon(Frame.from_number("A", written, stream)),
            lambda: self._send_soon(Frame("C", stream)))

    def _read_input(self) -> None:
        """Send standard input to the machine, as far as the command has read it."""
        while data := self._read_piece():
            self._send_soon(Frame("D", Stream.INPUT, data))
        self._send_soon(Frame("C", Stream.INPUT))

    def _read_piece(self) -> bytes:
        """Wait for standard input and return its next bytes, b"" at the end."""
        while os.isatty(0) and _is_in_background():  # reading would stop this process
            time.sleep(_BACKGROUND_S)
        with self._has_room:
            self._has_room.wait_for(lambda: self._input_room)
        select.select([0], [], [])
        # The lock keeps `_leave_input` from going back in a file between reading and counting.
        with self._has_room, contextlib.suppress(OSError):
            data = b"" if self._input_is_over else os.read(0, min(self._input_room, _READ_BYTES))
            self._input_room -= len(data)
            self._input_sent += len(data)
            return data
        return b""

    def _leave_input(self, consumed: int) -> None:
        """Leave the rest of a file on standard input to the caller's next command.

        Args:
            consumed: Bytes that the command has read.
        """
        with self._has_room:
            self._input_is_over = True
            with contextlib.suppress(OSError):  # no file
                os.lseek(0, consumed - self._input_sent, os.SEEK_CUR)

    def _send_soon(self, frame: Frame) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before the thread
            self._loop.call_soon_threadsafe(self._send_frame, frame)

    def _send_frame(self, frame: Frame) -> None:
        if not self.guest.stdin.is_closing():
            self.guest.stdin.write(frame.to_bytes())

    def _forward_window(self) -> None:
        rows, columns = _read_window()
        self._send_frame(Frame("W", data=f"{rows} {columns}".encode()))

    def _forward_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command. A machine whose command does not end is killed."""
        self._interruptions += number == signal.SIGINT
        if not self._is_started or self._interruptions >= _INTERRUPTIONS:
            self._kill_machine(number)
            return
        self._send_frame(Frame.from_number("S", number))
        if number in (signal.SIGTERM, signal.SIGHUP):
            self._loop.call_later(_GRACE_S, self._kill_machine, number)

    def _kill_machine(self, number: signal.Signals) -> None:
        self.signalled = number
        self._ending = asyncio.ensure_future(self.guest.kill(f"ended by {number.name}"))


async def _run_machine(built: image.GuestImage, settings: RadioSettings, scratch: Path,
                       files: Mapping[Stream, BinaryIO]) -> int:
    """Run a machine to its end, and return the exit status of its command."""
    async with await radio.boot_radio_machine(built, settings, scratch) as guest:
        relay = _Relay(guest, files)
        end = await relay.relay_streams()
    if end is None:
        return _SIGNALLED + cast("signal.Signals", relay.signalled)
    if end.kind == "X":
        return end.read_number()
    if end.kind == "E":
        raise _make_start_error(settings, end.read_number())
    text = " ".join(os.fsdecode(end.data).split())
    advice = "the root file system needs 'ip' and 'tc' (package iproute2)" if text.startswith(
        "medium") else "name another folder, or give the machine more memory with --memory"
    raise UserError(f"radio: {text}; {advice}", status=1)


def _make_start_error(settings: RadioSettings, number: int) -> UserError:
    """Return the error of a command that could not be started, with a shell's exit status."""
    name, where = settings.argv[0], "" if settings.root == Path("/") else f" in {settings.root}"
    if number == errno.ENOENT:
        lacks = "; there is no /bin/sh either, is it the root folder of a system?" if not (
            settings.root / "bin").exists() else "; install it or give its path"
        return UserError(f"{name}: command not found{where}{lacks}", status=_NOT_FOUND)
    return UserError(f"{name}: cannot be run{where} ({os.strerror(number)}); name a program that "
                     "is executable", status=_NOT_EXECUTABLE)
