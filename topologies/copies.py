"""Fork captures from one started tcpdump.

Starting tcpdump takes most of the time of a short capture in a guest, and a repetition makes a
dozen. The fork is tcpdump before it read its arguments (`measure/charging/copies.c` is preloaded),
so captures share no state.
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
#: Time limit in seconds for tcpdump's start: a fraction of a second, several on a busy machine.
_START_S = 30.0


class Copies:
    """A started tcpdump that forks captures. It preloads `libraries`.

    A context manager.
    """

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

    def start_copy(self, argv: Sequence[str], output: IO[bytes], error_output: IO[bytes], *,
                   of_process: int | None, promptly_ms: int | None) -> Copy:
        """Fork a capture with these arguments in the network namespace of a process.

        Args:
            argv: Arguments of tcpdump.
            output: Its standard output.
            error_output: Its standard error.
            of_process: Process whose namespace is used; None for the machine's own.
            promptly_ms: Longest time in ms that packets are buffered; None for no limit.

        Raises:
            ChildProcessError: tcpdump did not start or fork.
        """
        words = ["" if of_process is None else str(of_process),
                 "" if promptly_ms is None else str(promptly_ms), *argv]
        try:
            socket.send_fds(self._line, [b"".join(word.encode() + b"\0" for word in words)],
                            [output.fileno(), error_output.fileno()])
            answer = self._line.recv(_NUMBER.size)
        except OSError:
            answer = b""
        (number,) = _NUMBER.unpack(answer) if answer else (-1,)
        if number < 0:
            raise ChildProcessError(f"no copy of {_PROGRAM} could be started; is memory short?")
        return Copy(number)


class Copy:
    """A running fork, a child of this process, with the part of Popen's interface for waiting."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self._wait_for_exit(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end and return the exit status."""
        return self._wait_for_exit(0)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it is known to have ended."""
        self.send_signal(signal.SIGKILL)

    def _wait_for_exit(self, how: int) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, how)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
