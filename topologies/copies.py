"""A tcpdump that has started stays ready: each capture is made by a copy of it, a fork.

Starting is most of what a short capture takes in a guest, where a repetition makes a dozen. The
copy is tcpdump as it was before it read its arguments (`measure/charging/copies.c` is preloaded),
so nothing of one capture is known to the next.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_PROGRAM = "tcpdump"
_NUMBER = struct.Struct("@l")
#: It takes a fraction of a second until it has started, on a busy machine several.
_START_S = 30.0


class Copies:
    """The tcpdump that is ready, which loads `libraries` first. A context manager."""

    def __init__(self, *libraries: Path) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(_START_S)
        with theirs:
            self._process = subprocess.Popen(
                [_PROGRAM], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), env={
                    **os.environ, "LD_PRELOAD": ":".join(map(str, libraries)), "LD_BIND_NOW": "1",
                    "QOP_COPIES_LINE": str(theirs.fileno())})

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._process.wait()

    def start(self, argv: Sequence[str], output: IO[bytes], said: IO[bytes], *,
              of_process: int | None, promptly_ms: int | None) -> Copy:
        """A copy with these arguments, in the network of a process (None: the machine's own).

        `output` and `said` are its standard output and error; with `promptly_ms`, packets are kept
        back so long at most. Raises ChildProcessError.
        """
        words = ["" if of_process is None else str(of_process),
                 "" if promptly_ms is None else str(promptly_ms), *argv]
        try:
            socket.send_fds(self._line, [b"".join(word.encode() + b"\0" for word in words)],
                            [output.fileno(), said.fileno()])
            answer = self._line.recv(_NUMBER.size)
        except OSError:
            answer = b""
        (number,) = _NUMBER.unpack(answer) if answer else (-1,)
        if number < 0:
            raise ChildProcessError(f"no copy of {_PROGRAM} could be started; is memory short?")
        return Copy(number)


class Copy:
    """A running copy, a child of this process: as much of Popen as those need who wait for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        """Its exit status, when it has ended."""
        return self._waited(0)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, unless it is known to have ended."""
        self.send_signal(signal.SIGKILL)

    def _waited(self, how: int) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, how)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
