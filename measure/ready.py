"""Dissect each capture with a fork of one tshark that has already started.

Starting tshark is half of the processor time of a repetition's dissection. The fork is in the state
before any file was opened (`ready.c` is preloaded), so no capture affects the next. Without a C
compiler, or if tshark cannot be preloaded, tshark is started for each capture.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_SOURCE = Path(__file__).with_name("ready.c")
_COMPILE = ("cc", "-shared", "-fPIC", "-O2", "-s")
_ELF = b"\x7fELF"
_START_S = 60.0
_ANSWER = struct.Struct("@ll")
#: Limit of a request in ready.c; a longer request gets its own tshark.
_ROOM_BYTES = 1 << 16


class NotReadyError(Exception):
    """An error: no started tshark is available, and the input is unread."""


class Ready:
    """A started tshark with one command and one environment.

    The tshark ends when this process ends, for whatever reason.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        library = _compile_library()
        self.used_s = 0.0
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A file in memory: any process that inherits the descriptor can load it, whatever its user.
        with theirs, _open_memory_file() as file:
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
                raise NotReadyError from None
        try:
            has_started = self._read_status(_START_S) is not None
        except TimeoutError:
            has_started = False
        if not has_started:
            self.stop()
            raise NotReadyError

    def run(self, preferences: Sequence[str], stdin: IO[bytes] | IO[str],
            timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Dissect an input with a fork of the started tshark.

        Args:
            preferences: Preferences, as for the option `-o`.
            stdin: The input.
            timeout_s: Time limit of the dissection, in s.

        Returns:
            Status and output. If the server was killed, the status is that of a killed process.

        Raises:
            NotReadyError: The server cannot take the request; do not use the object again.
            TimeoutError: The dissection took too long; do not use the object again.
        """
        request = b"".join(each.encode() + b"\0" for each in preferences)
        if not 0 < len(request) <= _ROOM_BYTES:
            raise NotReadyError
        with _open_memory_file() as said, _open_memory_file() as complaint:
            files = [file.fileno() for file in (stdin, said, complaint)]
            try:
                socket.send_fds(self._line, [request], files)
            except OSError:
                raise NotReadyError from None
            status = self._read_status(timeout_s)
            return subprocess.CompletedProcess(
                self._process.args, -signal.SIGKILL if status is None else status,
                *(_read_text(file) for file in (said, complaint)))

    def _read_status(self, timeout_s: float) -> int | None:
        """Return the next exit status, or None if the server has ended.

        Raises:
            TimeoutError: No answer came in time.
        """
        self._line.settimeout(timeout_s)
        try:
            said = self._line.recv(_ANSWER.size)
        except ConnectionError:
            said = b""
        if not said:
            return None
        status, used_us = _ANSWER.unpack(said)
        self.used_s = used_us / 1e6
        return os.waitstatus_to_exitcode(status)

    def stop(self) -> None:
        """End tshark and its fork.

        Safe to call twice.
        """
        self._line.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class _Kept:
    """A holder of this process's started tshark, for one command at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ready: Ready | None = None
        self.of: object = None
        self.failed: object = None

    def get_or_start(self, command: Sequence[str], environment: Mapping[str, str]) -> Ready:
        """Return the started tshark of a command, after starting it if necessary.

        Raises:
            NotReadyError: tshark cannot be started in this way.
        """
        of = (os.getpid(), _tshark_path(), *command, *sorted(environment.items()))
        if self.failed == of:
            raise NotReadyError
        if self.ready is None or self.of != of:
            self.stop()
            try:
                self.ready = Ready(command, environment)
            except NotReadyError:
                self.failed = of
                raise NotReadyError from None
            self.of = of
        return self.ready

    def stop(self) -> None:
        """End tshark, unless it belongs to a parent process of this fork."""
        if self.ready is not None and isinstance(self.of, tuple) and self.of[0] == os.getpid():
            self.ready.stop()
        self.ready = None


_kept = _Kept()
atexit.register(_kept.stop)


def run_tshark(command: Sequence[str], preferences: Sequence[str], stdin: IO[bytes] | IO[str], *,
               environment: Mapping[str, str],
               timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run `command` with `-o` before each preference, like subprocess.run with text output."""
    if _tshark_path() and _kept.lock.acquire(blocking=False):
        try:
            return _run_by_fork(command, preferences, stdin, environment, timeout_s)
        except NotReadyError:
            pass
        finally:
            _kept.lock.release()
    given = [word for each in preferences for word in ("-o", each)]
    return subprocess.run([*command, *given], stdin=stdin, capture_output=True, text=True,
                          timeout=timeout_s, check=False, env=environment)


def _run_by_fork(command: Sequence[str], preferences: Sequence[str], stdin: IO[bytes] | IO[str],
                 environment: Mapping[str, str],
                 timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return _kept.get_or_start(command, environment).run(preferences, stdin, timeout_s)
    except TimeoutError:
        _kept.stop()
        raise subprocess.TimeoutExpired([*command], timeout_s) from None
    except NotReadyError:
        _kept.stop()
        raise


def used_s() -> float:
    """Return the processor time of this process's started tshark and its forks, in s."""
    return _kept.ready.used_s if _kept.ready is not None else 0.0


def _tshark_path() -> str | None:
    """Return the path of tshark, if it is an ELF program that can be preloaded."""
    found = shutil.which("tshark")
    if found is None:
        return None
    with contextlib.suppress(OSError), open(found, "rb") as file:
        return found if file.read(len(_ELF)) == _ELF else None
    return None


@functools.cache
def _compile_library() -> bytes:
    """Compile the preloaded library and return it.

    Raises:
        NotReadyError: The compiler is missing or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "ready.so"
        try:
            subprocess.run([*_COMPILE, "-o", str(library), str(_SOURCE)], capture_output=True,
                           check=True)
            return library.read_bytes()
        except (OSError, subprocess.CalledProcessError):
            raise NotReadyError from None


def _open_memory_file() -> IO[bytes]:
    return open(os.memfd_create("qop-dissected"), "w+b")


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
