"""Keep one started tshark process, and fork it for each capture to save CPU time.

`run_tshark` takes a tshark command and a capture as its standard input. It returns tshark's output,
like `subprocess.run`. `measure.capture.tshark` uses it, because starting tshark takes half of the
CPU time of dissecting a repetition's captures. `fork_tshark` returns a fork whose output can be
read while it dissects, for `measure.capture.stream`. The preloaded library
`measure/capture/ready.c` stops tshark before it opens a file, and forks it there. So no capture
affects the next. If the library cannot be compiled or preloaded, tshark is started for each
capture.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from topologies.fork_server import ForkLine, ForkServerLost

_SOURCE = Path(__file__).with_name("ready.c")
_COMPILE = ("cc", "-shared", "-fPIC", "-O2", "-s")
_ELF = b"\x7fELF"
_START_S = 60.0
_ANSWER = struct.Struct("@ll")
#: Limit of a request in ready.c; a longer request gets its own tshark.
_ROOM_BYTES = 1 << 16
#: Variable that pytest changes for each test, and that tshark does not read.
_CURRENT_TEST = "PYTEST_CURRENT_TEST"


class TsharkServerError(Exception):
    """An error: no started tshark can take this input. The input was not read yet."""


class StartedTshark:
    """A tshark process that has started, and forks itself for each input.

    It has one command and one environment. It ends when this process ends, for whatever reason.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        library = _compile_library()
        self.used_s = 0.0
        self._line = ForkLine(_ANSWER.size)
        # A file in memory: any process that inherits the descriptor can load it, whatever its user.
        with self._line.server_end as theirs, _open_memory_file() as file:
            file.write(library)
            file.flush()
            preloaded = {"LD_PRELOAD": f"/proc/self/fd/{file.fileno()}",
                         "QOP_READY_LINE": str(theirs.fileno())}
            try:
                self._process = subprocess.Popen(
                    command, env={**environment, **preloaded}, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), file.fileno()))
            except OSError:
                self._line.close()
                raise TsharkServerError from None
        try:
            has_started = self._read_status(_START_S) is not None
        except TimeoutError:
            has_started = False
        if not has_started:
            self.stop()
            raise TsharkServerError

    def run_request(self, preferences: Sequence[str], stdin: IO[bytes] | IO[str],
                    timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Dissect an input with a fork of the started tshark.

        Args:
            preferences: Preferences, as for the option `-o`.
            stdin: The input.
            timeout_s: Time limit of the dissection, in s.

        Returns:
            Status and output. If the server was killed, the status is that of a killed process.

        Raises:
            TsharkServerError: The server cannot take the request; do not use the object again.
            TimeoutError: The dissection took too long; do not use the object again.
        """
        with _open_memory_file() as output, _open_memory_file() as complaint:
            self.start_fork(preferences, [file.fileno() for file in (stdin, output, complaint)])
            return subprocess.CompletedProcess(
                self._process.args, self.wait_for_fork(timeout_s),
                *(_read_text(file) for file in (output, complaint)))

    def start_fork(self, preferences: Sequence[str], descriptors: Sequence[int]) -> None:
        """Start a fork with these preferences.

        Args:
            preferences: Preferences, as for the option `-o`.
            descriptors: Descriptors of the fork's standard input, output and error.

        Raises:
            TsharkServerError: The server cannot take the request; do not use the object again.
        """
        if not 0 < sum(len(each.encode()) + 1 for each in preferences) <= _ROOM_BYTES:
            raise TsharkServerError
        try:
            self._line.send(preferences, descriptors)
        except ForkServerLost:
            raise TsharkServerError from None

    def wait_for_fork(self, timeout_s: float) -> int:
        """Return the exit status of the fork, or that of a killed process if the server has ended.

        Raises:
            TimeoutError: The fork did not end in time; do not use the object again.
        """
        status = self._read_status(timeout_s)
        return -signal.SIGKILL if status is None else status

    def _read_status(self, timeout_s: float) -> int | None:
        """Return the exit status of the next fork, or None if the started tshark has ended.

        Raises:
            TimeoutError: No answer came in time.
        """
        try:
            answer = self._line.receive(timeout_s)
        except ForkServerLost:
            return None
        status, used_us = _ANSWER.unpack(answer)
        self.used_s = used_us / 1e6
        return os.waitstatus_to_exitcode(status)

    def stop(self) -> None:
        """End the started tshark and its fork. A second call has no effect."""
        self._line.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class _ServerHolder:
    """The started tshark of this process, replaced when another command is needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ready: StartedTshark | None = None
        self.of: object = None
        self.failed: object = None
        self.last: object = None

    def is_repeated(self, command: Sequence[str]) -> bool:
        """Return whether the last call of this function had the same command, too."""
        last, self.last = self.last, (os.getpid(), *command)
        return self.last == last

    def get_or_start(self, command: Sequence[str], environment: Mapping[str, str]) -> StartedTshark:
        """Return a tshark that was started with this command, started now if necessary.

        Raises:
            TsharkServerError: tshark cannot be started in this way.
        """
        of = (os.getpid(), _tshark_path(), *command,
              *sorted(item for item in environment.items() if item[0] != _CURRENT_TEST))
        if self.failed == of:
            raise TsharkServerError
        if self.ready is None or self.of != of:
            self.stop()
            try:
                self.ready = StartedTshark(command, environment)
            except TsharkServerError:
                self.failed = of
                raise TsharkServerError from None
            self.of = of
        return self.ready

    def stop(self) -> None:
        """End the started tshark, unless this process is a fork that inherited it."""
        if self.ready is not None and isinstance(self.of, tuple) and self.of[0] == os.getpid():
            self.ready.stop()
        self.ready = None


@dataclass
class ForkedTshark:
    """A fork of a started tshark, whose output can be read while it dissects."""

    stdout: IO[bytes]
    _holder: _ServerHolder
    _started: StartedTshark
    _status: int | None = None

    def wait_for_exit(self) -> int:
        """Return the exit status of the fork. Call this after the end of the output."""
        if self._status is None:
            try:
                self._status = self._started.wait_for_fork(_START_S)
            except TimeoutError:
                self.kill_fork()
                return -signal.SIGKILL
        return self._status

    def kill_fork(self) -> None:
        """Kill the fork together with the started tshark."""
        self._holder.stop()
        self._status = -signal.SIGKILL

    def close_output(self) -> None:
        """Close the output, and kill the fork unless it has ended."""
        self.stdout.close()
        if self._status is None:
            self.kill_fork()
        self._holder.lock.release()


_server = _ServerHolder()
#: For captures whose output is read while tshark dissects them.
_stream_server = _ServerHolder()
atexit.register(_server.stop)
atexit.register(_stream_server.stop)


def run_tshark(command: Sequence[str], preferences: Sequence[str], stdin: IO[bytes] | IO[str], *,
               environment: Mapping[str, str],
               timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a tshark command in a fork of a started tshark if possible.

    The result is that of subprocess.run with text output. Each preference is an option `-o`.
    """
    if _tshark_path() and _server.lock.acquire(blocking=False):
        try:
            return _run_by_fork(command, preferences, stdin, environment, timeout_s)
        except TsharkServerError:
            pass
        finally:
            _server.lock.release()
    given = [word for each in preferences for word in ("-o", each)]
    return subprocess.run([*command, *given], stdin=stdin, capture_output=True, text=True,
                          timeout=timeout_s, check=False, env=environment)


def _run_by_fork(command: Sequence[str], preferences: Sequence[str], stdin: IO[bytes] | IO[str],
                 environment: Mapping[str, str],
                 timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return _server.get_or_start(command, environment).run_request(preferences, stdin, timeout_s)
    except TimeoutError:
        _server.stop()
        raise subprocess.TimeoutExpired([*command], timeout_s) from None
    except TsharkServerError:
        _server.stop()
        raise


def fork_tshark(command: Sequence[str], preferences: Sequence[str], stdin: IO[bytes],
                stderr: IO[bytes], *, environment: Mapping[str, str]) -> ForkedTshark | None:
    """Run a tshark command in a fork of a started tshark, if it is repeated.

    A command that is used once would only get slower.

    Args:
        command: The command.
        preferences: Preferences, as for the option `-o`.
        stdin: The capture.
        stderr: File for tshark's messages.
        environment: The environment of the started tshark.

    Returns:
        The fork, whose output has to be closed. None if the caller has to start the command.
    """
    holder = _stream_server
    if not _tshark_path() or not holder.lock.acquire(blocking=False):
        return None
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, writer)
        on_failure = stack.enter_context(contextlib.ExitStack())
        on_failure.callback(holder.lock.release)
        on_failure.callback(os.close, reader)
        if not holder.is_repeated(command):
            return None
        try:
            started = holder.get_or_start(command, environment)
            started.start_fork(preferences, [stdin.fileno(), writer, stderr.fileno()])
        except TsharkServerError:
            holder.stop()
            return None
        on_failure.pop_all()
        return ForkedTshark(open(reader, "rb", buffering=0), holder, started)


def used_s() -> float:
    """Return the CPU time of this process's started tshark and its forks, in s."""
    return _server.ready.used_s if _server.ready is not None else 0.0


def _tshark_path() -> str | None:
    """Return the path of tshark if a library can be preloaded into it, else None."""
    found = shutil.which("tshark")
    if found is None:
        return None
    with contextlib.suppress(OSError), open(found, "rb") as file:
        return found if file.read(len(_ELF)) == _ELF else None
    return None


@functools.cache
def _compile_library() -> bytes:
    """Compile the library that is preloaded into tshark, and return its bytes.

    Raises:
        TsharkServerError: The compiler is missing or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "ready.so"
        try:
            subprocess.run([*_COMPILE, "-o", str(library), str(_SOURCE)], capture_output=True,
                           check=True)
            return library.read_bytes()
        except (OSError, subprocess.CalledProcessError):
            raise TsharkServerError from None


def _open_memory_file() -> IO[bytes]:
    return open(os.memfd_create("qop-dissected"), "w+b")


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
