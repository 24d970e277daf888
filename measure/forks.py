"""Start Python programs on nodes as forks of one process with all imports done.

In a guest, starting Python and importing takes most of a program's start time and memory. A testbed
runs four such programs for Mobile IP alone.

`python3 -m measure.forks DESCRIPTOR MODULE...` imports the modules and reads requests from a
socket. A request is one message:

- Four descriptors: standard input, output and error, and a pipe for the exit status.
- Words that end with null bytes: a process, a module and the arguments of its `main(arguments)`.
  The fork enters the network and mount namespaces of the process; "" keeps its own.

The answer is the fork's pid. The process and its forks end when the socket is closed.
"""

from __future__ import annotations

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
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from measure.errors import MeasureError
from measure.process import Start, StartTalking
from measure.workload import Site
from topologies import namespaces

_NUMBER = struct.Struct("@l")
_ROOM = 1 << 16
_STANDARD_FILES = 3
#: The imports take a fraction of a second, and several seconds on a busy machine.
_START_S = 30.0
# Linux: <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1
_File = IO[bytes] | socket.socket


class Forks:
    """A service: the Python process that programs are forked from, usable after `start`."""

    name = "forks"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, modules: Sequence[str]) -> None:
        self._site, self._modules = site, modules
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process.

        The first request waits until the imports are done.
        """
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(_START_S)
        # The library is preloaded if any node has a device. On nodes without a device it changes
        # nothing.
        libraries = sorted(set(self._site.testbed.preloaded.values()))
        preloaded = {"LD_PRELOAD": ":".join(libraries)} if libraries else {}
        with theirs, self._log_path.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "measure.forks", str(theirs.fileno()), *self._modules],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=(theirs.fileno(),),
                env={**os.environ, **preloaded})

    def wait_ready(self) -> None:
        """Return at once: the programs' own services wait until they are ready."""

    def stop(self) -> None:
        """End the process and all forks."""
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.wait()

    def program_starter(self, node: str, module: str, *arguments: str) -> Start:
        """Return a function that starts a module's program on a node.

        The function gets standard output and error, and raises MeasureError.
        """
        def start(output: IO[bytes], errors: IO[bytes]) -> Fork:
            with open(os.devnull, "rb") as nothing:
                return self._fork(self._request_words(node, module, arguments),
                                  (nothing, output, errors))
        return start

    def socket_program_starter(self, node: str, module: str, *arguments: str) -> StartTalking:
        """Return a function that starts a program with a socket as standard input and output.

        The function gets the socket and standard error, and raises MeasureError.
        """
        def start(line: socket.socket, errors: IO[bytes]) -> Fork:
            return self._fork(self._request_words(node, module, arguments), (line, line, errors))
        return start

    def _request_words(self, node: str, module: str, arguments: Sequence[str]) -> Sequence[str]:
        return [str(self._site.testbed.node(node).pid), module, *arguments]

    def _fork(self, words: Sequence[str], files: Sequence[_File]) -> Fork:
        assert self._line is not None
        told, tells = os.pipe()
        try:
            socket.send_fds(self._line, [b"".join(word.encode() + b"\0" for word in words)],
                            [*(file.fileno() for file in files), tells])
            answer = self._line.recv(_NUMBER.size)
        except OSError:
            answer = b""
        finally:
            os.close(tells)
        if not answer:
            os.close(told)
            raise MeasureError("testbed", f"no program could be started on a node: the Python that "
                               f"it is a fork of has ended (log: {self._log_path.name})")
        (number,) = _NUMBER.unpack(answer)
        return Fork(number, told)

    @property
    def _log_path(self) -> Path:
        return self._site.log_path(self.name, "machine")


class Fork:
    """A running program that is no child of this process.

    It has the part of Popen's interface that `Daemon` needs.
    """

    def __init__(self, pid: int, status_pipe: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._told = status_pipe

    def poll(self) -> int | None:
        """Return the exit status, or None while the program runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            return self.wait()
        return self.returncode

    def wait(self) -> int:
        """Wait for the program's end and return its exit status."""
        if self.returncode is None:
            status = os.read(self._told, _NUMBER.size)
            # No status: the parent of the fork has ended, and the fork was killed with it.
            self.returncode = _NUMBER.unpack(status)[0] if status else -signal.SIGKILL
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the program, unless it has ended."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """A server that forks programs on request and reports their exit status."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(line, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answer requests until the socket is closed."""
        while True:
            for key, _ in self._waiting.select():
                if key.data is not None:
                    self._report_exit(key.fd, *key.data)
                elif not self._handle_request():
                    return

    def _handle_request(self) -> bool:
        text, files, _, _ = socket.recv_fds(self._line, _ROOM, _STANDARD_FILES + 1)
        if not text:
            return False
        *standard, tells = files
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _run_fork(server, text.decode().split("\0")[:-1], standard)
        for file in standard:
            os.close(file)
        self._waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, tells))
        self._line.sendall(_NUMBER.pack(pid))
        return True

    def _report_exit(self, descriptor: int, pid: int, tells: int) -> None:
        self._waiting.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        os.write(tells, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(tells)


def _run_fork(server: int, words: Sequence[str], files: Sequence[int]) -> None:
    """Run the fork until its end."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            return
        for target, file in enumerate(files):
            os.dup2(file, target)
        os.closerange(_STANDARD_FILES, os.sysconf("SC_OPEN_MAX"))
        process, module, *arguments = words
        if process:
            namespaces.enter_namespaces(process, "net", "mnt")
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
    """Import the modules, then serve."""
    line = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    # Otherwise each fork would copy all memory at its first garbage collection.
    gc.freeze()
    ForkServer(line).serve()


if __name__ == "__main__":
    main()
