"""Start programs quickly, as forks of one process that has already loaded them.

Starting a program takes most of its time, and forking a started one skips that. Captures, Python
programs on the nodes of an emulated network, and Ansible are started this way. A client object
(`PythonForks`, `TcpdumpForks`) starts a server process and sends requests. All servers use the
protocol of `ForkLine`: a request is one message with words, each ended by a null byte, and
descriptors of the fork's files.

- `python3 -m topologies.fork_server DESCRIPTOR MODULE...` serves Python programs (`PythonForks`).
  It imports the modules, and calls their `preload()` where they have one. Words are a process, the
  namespaces of it to enter (such as "net,mnt"), a module and the arguments of its
  `main(arguments)`. Descriptors are standard input, output and error, and a pipe for the exit
  status. The answer is the fork's pid.
- tcpdump with `measure/charging/copies.c` preloaded (`TcpdumpForks`).
- tshark with `measure/capture/ready.c` preloaded (measure.capture.tshark_server).

A server and its forks end when the socket is closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from topologies import namespaces

#: A pid or an exit status.
_NUMBER = struct.Struct("@l")
_ROOM_BYTES = 1 << 16
_STANDARD_FILES = 3
#: Time limit in seconds for a start: a fraction of a second, several on a busy machine.
_START_S = 30.0
# Linux: <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1
ForkFile = IO[bytes] | IO[str] | socket.socket


class ForkServerLost(Exception):
    """An error: the process that forks programs has ended."""


# --- Clients ---

class ForkLine:
    """The client's end of the socket to a process that forks programs (fork server)."""

    def __init__(self, answer_bytes: int = _NUMBER.size) -> None:
        self.socket, self.server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._answer_bytes = answer_bytes

    def send(self, words: Sequence[str], descriptors: Sequence[int]) -> None:
        """Send a request to fork a program.

        Args:
            words: Words of the request.
            descriptors: Descriptors of the fork's files.

        Raises:
            ForkServerLost: The server has ended.
        """
        try:
            socket.send_fds(self.socket, [b"".join(word.encode() + b"\0" for word in words)],
                            descriptors)
        except OSError:
            raise ForkServerLost from None

    def receive(self, timeout_s: float | None = None) -> bytes:
        """Wait for an answer of the fork server and return it.

        Args:
            timeout_s: Time limit in s; None for no limit.

        Raises:
            ForkServerLost: The server has ended.
            TimeoutError: No answer came in time.
        """
        self.socket.settimeout(timeout_s)
        try:
            answer = self.socket.recv(self._answer_bytes)
        except ConnectionError:
            answer = b""
        if not answer:
            raise ForkServerLost
        return answer

    def close(self) -> None:
        """Close the socket, which ends the fork server. A second call has no effect."""
        self.socket.close()


class PythonForks:
    """A client of a fork server: a Python process that forks itself for each requested program.

    The server process starts at once, and imports `modules` while this process continues. Its
    output goes to `errors`. `wrapper` is a command prefix to run it by. With `new_session`, signals
    of the terminal do not reach it.
    """

    def __init__(self, modules: Sequence[str], *, environment: Mapping[str, str],
                 errors: IO[bytes] | int, wrapper: Sequence[str] = (),
                 new_session: bool = False) -> None:
        self._line = ForkLine()
        with self._line.server_end as theirs:
            self.process = subprocess.Popen(
                [*wrapper, sys.executable, "-P", "-m", "topologies.fork_server",
                 str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=dict(environment),
                pass_fds=(theirs.fileno(),), start_new_session=new_session)

    def start_program(self, words: Sequence[str], files: Sequence[ForkFile], *,
                      timeout_s: float = _START_S) -> ForkedProgram:
        """Start a Python program as a fork of the fork server, and return it.

        Args:
            words: The request: the pid of a process, the namespaces of that process to enter (such
                as "net,mnt"), the module to run, and its arguments.
            files: Standard input, output and error of the program.
            timeout_s: Longest time to wait for the fork, in s. The server may still be importing
                modules when it gets the request.

        Raises:
            ForkServerLost: The server has ended, or did not answer in time.
        """
        status = self.request_program(words, files)
        try:
            return ForkedProgram(self.receive_pid(timeout_s), status)
        except ForkServerLost:
            os.close(status)
            raise

    def request_program(self, words: Sequence[str], files: Sequence[ForkFile]) -> int:
        """Request a program, and return the descriptor on which its exit status will arrive.

        Raises:
            ForkServerLost: The server has ended.
        """
        status, status_sink = os.pipe()
        try:
            self._line.send(words, [*(file.fileno() for file in files), status_sink])
        except ForkServerLost:
            os.close(status)
            raise
        finally:
            os.close(status_sink)
        return status

    def receive_pid(self, timeout_s: float | None = None) -> int:
        """Return the process id of the program that was requested last.

        Raises:
            ForkServerLost: The server has ended, or did not answer in time.
        """
        try:
            (pid,) = _NUMBER.unpack(self._line.receive(timeout_s))
        except TimeoutError:
            raise ForkServerLost from None
        return int(pid)

    def close(self) -> None:
        """End the process that forks, and all its forks."""
        self._line.close()
        self.process.wait()


class ForkedProgram:
    """A running program that was forked by a fork server, so it is no child of this process.

    It has the part of Popen's interface that a daemon needs. `status_pipe` is the descriptor on
    which the exit status arrives.
    """

    def __init__(self, pid: int, status_pipe: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status_pipe = status_pipe

    def poll(self) -> int | None:
        """Return the exit status, or None while the program runs."""
        if self.returncode is None and select.select([self._status_pipe], [], [], 0)[0]:
            return self.wait()
        return self.returncode

    def wait(self) -> int:
        """Wait for the program's end and return its exit status."""
        if self.returncode is None:
            status = read_status(self._status_pipe)
            # Without a server, the fork was killed with it.
            self.returncode = -signal.SIGKILL if status is None else status
            os.close(self._status_pipe)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the program, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def read_status(descriptor: int) -> int | None:
    """Read a program's exit status from a descriptor, None if the fork server has ended."""
    status = os.read(descriptor, _NUMBER.size)
    return int(_NUMBER.unpack(status)[0]) if status else None


class TcpdumpForks:
    """A tcpdump process that has started, and forks itself for each capture.

    `libraries` are preloaded into it. A context manager. A short capture in a guest spends most of
    its time on tcpdump's start, and a repetition makes a dozen. The fork is tcpdump before it read
    its arguments, so captures do not affect each other.
    """

    def __init__(self, *libraries: Path) -> None:
        self._line = ForkLine()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        with self._line.server_end as theirs:
            self._process = subprocess.Popen(
                ["tcpdump"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=self._errors, pass_fds=(theirs.fileno(),), env={
                    **os.environ, "LD_PRELOAD": ":".join(map(str, libraries)), "LD_BIND_NOW": "1",
                    "QOP_COPIES_LINE": str(theirs.fileno())})

    def __enter__(self) -> TcpdumpForks:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._process.wait()
        self._errors.close()

    def start_fork(self, argv: Sequence[str], output: IO[bytes], error_output: IO[bytes], *,
                   of_process: int | None, promptly_ms: int | None) -> TcpdumpFork:
        """Start a capture as a fork of tcpdump, in the network namespace of a process.

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
            self._line.send(words, [output.fileno(), error_output.fileno()])
            (number,) = _NUMBER.unpack(self._line.receive(_START_S))
        except (ForkServerLost, TimeoutError):
            number = -1
        if number < 0:
            raise ChildProcessError("no copy of tcpdump could be started"
                                    f"{self._read_cause() or '; is memory short?'}")
        return TcpdumpFork(number)

    def _read_cause(self) -> str:
        """Return the last line that tcpdump or its loader printed, as ": LINE" or ""."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        written = [line.strip() for line in lines if line.strip()]
        return f": {written[-1]}" if written else ""


class TcpdumpFork:
    """A running capture, which is a fork of tcpdump, with a part of Popen's interface."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, or None while the capture runs."""
        return self._wait_for_exit(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for the end of the capture and return the exit status."""
        return self._wait_for_exit(0)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the capture has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the capture, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _wait_for_exit(self, how: int) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, how)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


# --- Server of Python programs ---

class ForkServer:
    """A server process that forks Python programs on request and reports their exit status."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(line, selectors.EVENT_READ)

    def serve(self) -> None:
        """Fork a program for each request until the socket is closed."""
        while True:
            for key, _ in self._waiting.select():
                if key.data is not None:
                    self._report_exit(key.fd, *key.data)
                elif not self._handle_request():
                    return

    def _handle_request(self) -> bool:
        text, files, _, _ = socket.recv_fds(self._line, _ROOM_BYTES, _STANDARD_FILES + 1)
        if not text:
            return False
        *standard, status_sink = files
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _run_fork(server, text.decode().split("\0")[:-1], standard)
        for file in standard:
            os.close(file)
        self._waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status_sink))
        self._line.sendall(_NUMBER.pack(pid))
        return True

    def _report_exit(self, descriptor: int, pid: int, status_sink: int) -> None:
        self._waiting.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(status_sink, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(status_sink)


def _run_fork(server: int, words: Sequence[str], files: Sequence[int]) -> None:
    """Run a program in the forked process, in the namespaces of its node, until its end."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            return
        for target, file in enumerate(files):
            os.dup2(file, target)
        os.closerange(_STANDARD_FILES, os.sysconf("SC_OPEN_MAX"))
        process, kinds, module, *arguments = words
        if process:
            namespaces.enter_namespaces(process, *kinds.split(","))
        status = importlib.import_module(module).main(arguments)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does at a program's end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Import the modules of the command line, then serve requests to fork them."""
    line = socket.socket(fileno=int(sys.argv[1]))
    # Loaded objects are never freed. Searching them for garbage takes a tenth of the loading time,
    # and each fork would copy all memory at its first search.
    gc.disable()
    for name in sys.argv[2:]:
        module = importlib.import_module(name)
        if hasattr(module, "preload"):
            module.preload()
    gc.freeze()
    gc.enable()
    ForkServer(line).serve()


if __name__ == "__main__":
    main()
