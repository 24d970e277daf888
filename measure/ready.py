"""A tshark that has started stays ready: each capture is dissected by a copy of it, a fork.

Starting is half of what a repetition's dissection takes of the processor, and the same each time.
The copy is tshark as it was before it opened anything (`ready.c` is preloaded), so nothing of one
capture is known to the next. Without a C compiler, or where tshark cannot be preloaded, it is
started for each.
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
#: As ready.c has it; what is longer is asked of a tshark of its own.
_ROOM_BYTES = 1 << 16


class NotReadyError(Exception):
    """There is no tshark that has started, or none any more; nobody has read the input."""


class Ready:
    """One of them, which has started with a command and an environment.

    It ends with the process that asks it, however that ends.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        library = _compiled()
        self.used_s = 0.0
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # As a file in memory, which whoever inherits it can load, with whatever rights.
        with theirs, _in_memory() as file:
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
            has_started = self._answer(_START_S) is not None
        except TimeoutError:
            has_started = False
        if not has_started:
            self.end()
            raise NotReadyError

    def run(self, preferences: Sequence[str], stdin: IO[bytes] | IO[str],
            timeout_s: float) -> subprocess.CompletedProcess[str]:
        """What a copy with these preferences (as `-o` takes them) does with this input.

        One that is killed counts as its copy. Raises NotReadyError, and TimeoutError; after either
        it is of no more use.
        """
        request = b"".join(each.encode() + b"\0" for each in preferences)
        if not 0 < len(request) <= _ROOM_BYTES:
            raise NotReadyError
        with _in_memory() as said, _in_memory() as complaint:
            files = [file.fileno() for file in (stdin, said, complaint)]
            try:
                socket.send_fds(self._line, [request], files)
            except OSError:
                raise NotReadyError from None
            status = self._answer(timeout_s)
            return subprocess.CompletedProcess(
                self._process.args, -signal.SIGKILL if status is None else status,
                *(_text(file) for file in (said, complaint)))

    def _answer(self, timeout_s: float) -> int | None:
        """The exit status that comes next, None where nothing ever will. Raises TimeoutError."""
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

    def end(self) -> None:
        """End it with its copy, if there is one; safe twice."""
        self._line.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class _Kept:
    """The one that this process has, for one command at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ready: Ready | None = None
        self.of: object = None
        self.failed: object = None

    def get(self, command: Sequence[str], environment: Mapping[str, str]) -> Ready:
        """That of a command, started if there is none. Raises NotReadyError."""
        of = (os.getpid(), _executable(), *command, *sorted(environment.items()))
        if self.failed == of:
            raise NotReadyError
        if self.ready is None or self.of != of:
            self.drop()
            try:
                self.ready = Ready(command, environment)
            except NotReadyError:
                self.failed = of
                raise NotReadyError from None
            self.of = of
        return self.ready

    def drop(self) -> None:
        """End it, unless it is another process's, of which this one is a copy."""
        if self.ready is not None and isinstance(self.of, tuple) and self.of[0] == os.getpid():
            self.ready.end()
        self.ready = None


_kept = _Kept()
atexit.register(_kept.drop)


def run(command: Sequence[str], preferences: Sequence[str], stdin: IO[bytes] | IO[str], *,
        environment: Mapping[str, str],
        timeout_s: float) -> subprocess.CompletedProcess[str]:
    """As subprocess.run of `command` with `-o` before each preference; texts are its outputs."""
    if _executable() and _kept.lock.acquire(blocking=False):
        try:
            return _by_copy(command, preferences, stdin, environment, timeout_s)
        except NotReadyError:
            pass
        finally:
            _kept.lock.release()
    given = [word for each in preferences for word in ("-o", each)]
    return subprocess.run([*command, *given], stdin=stdin, capture_output=True, text=True,
                          timeout=timeout_s, check=False, env=environment)


def _by_copy(command: Sequence[str], preferences: Sequence[str], stdin: IO[bytes] | IO[str],
             environment: Mapping[str, str],
             timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return _kept.get(command, environment).run(preferences, stdin, timeout_s)
    except TimeoutError:
        _kept.drop()
        raise subprocess.TimeoutExpired([*command], timeout_s) from None
    except NotReadyError:
        _kept.drop()
        raise


def used_s() -> float:
    """Processor time that the one of this process has taken, its copies' included."""
    return _kept.ready.used_s if _kept.ready is not None else 0.0


def _executable() -> str | None:
    """The tshark that a command would start, if it is one to preload something into."""
    found = shutil.which("tshark")
    if found is None:
        return None
    with contextlib.suppress(OSError), open(found, "rb") as file:
        return found if file.read(len(_ELF)) == _ELF else None
    return None


@functools.cache
def _compiled() -> bytes:
    """What is preloaded. Raises NotReadyError where it cannot be compiled."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "ready.so"
        try:
            subprocess.run([*_COMPILE, "-o", str(library), str(_SOURCE)], capture_output=True,
                           check=True)
            return library.read_bytes()
        except (OSError, subprocess.CalledProcessError):
            raise NotReadyError from None


def _in_memory() -> IO[bytes]:
    return open(os.memfd_create("qop-dissected"), "w+b")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
