"""Programs of ours on nodes, each a fork of one Python that has imported what they are made of.

To start Python and import is most of what such a program's start takes in a guest, and of its
memory; a testbed has four of Mobile IP alone. `python3 -m measure.forks DESCRIPTOR MODULE...`
imports the modules and takes requests from a socket, each one message: four descriptors (standard
input, output and error, and one that its exit status is written to when it has ended) and words
with null bytes behind them: the process in whose network and mounts to be ("" for this one's own),
a module, and the arguments of its `main(arguments)`. It answers with the fork's number. It ends
with whoever asks, and the forks with it.
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
#: What is imported takes a fraction of a second, on a busy machine several.
_START_S = 30.0
# Linux: <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1
_File = IO[bytes] | socket.socket


class Forks:
    """A service: the Python that others are forks of. They may be asked for once it has started."""

    name = "forks"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, modules: Sequence[str]) -> None:
        self._site, self._modules = site, modules
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have it import; who asks for a fork waits for that."""
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(_START_S)
        # There is one where nodes have devices; where others have none, it says what is so anyway.
        libraries = sorted(set(self._site.testbed.preloaded.values()))
        preloaded = {"LD_PRELOAD": ":".join(libraries)} if libraries else {}
        with theirs, self._log.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "measure.forks", str(theirs.fileno()), *self._modules],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=(theirs.fileno(),),
                env={**os.environ, **preloaded})

    def ready(self) -> None:
        """Nothing more: who has forks knows when they are ready."""

    def stop(self) -> None:
        """End it, and whatever forks there are."""
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.wait()

    def program(self, node: str, module: str, *arguments: str) -> Start:
        """What starts a module's program on a node, given its standard output and error.

        That raises MeasureError.
        """
        def start(output: IO[bytes], said: IO[bytes]) -> Fork:
            with open(os.devnull, "rb") as nothing:
                return self._fork(self._words(node, module, arguments), (nothing, output, said))
        return start

    def talking(self, node: str, module: str, *arguments: str) -> StartTalking:
        """The same of one that is told something: its standard input and output are one socket."""
        def start(line: socket.socket, said: IO[bytes]) -> Fork:
            return self._fork(self._words(node, module, arguments), (line, line, said))
        return start

    def _words(self, node: str, module: str, arguments: Sequence[str]) -> Sequence[str]:
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
                               f"it is a fork of has ended (log: {self._log.name})")
        (number,) = _NUMBER.unpack(answer)
        return Fork(number, told)

    @property
    def _log(self) -> Path:
        return self._site.log(self.name, "machine")


class Fork:
    """A running program, no child of this process: as much of Popen as who waits for it needs."""

    def __init__(self, pid: int, told: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._told = told

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            return self.wait()
        return self.returncode

    def wait(self) -> int:
        """Its exit status, when it has ended."""
        if self.returncode is None:
            status = os.read(self._told, _NUMBER.size)
            # Without whom it was a fork of, it was killed.
            self.returncode = _NUMBER.unpack(status)[0] if status else -signal.SIGKILL
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Takes requests, and says what became of each fork."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(line, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until there is nobody to ask any more."""
        while True:
            for key, _ in self._waiting.select():
                if key.data is not None:
                    self._tell(key.fd, *key.data)
                elif not self._take():
                    return

    def _take(self) -> bool:
        text, files, _, _ = socket.recv_fds(self._line, _ROOM, _STANDARD_FILES + 1)
        if not text:
            return False
        *standard, tells = files
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(server, text.decode().split("\0")[:-1], standard)
        for file in standard:
            os.close(file)
        self._waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, tells))
        self._line.sendall(_NUMBER.pack(pid))
        return True

    def _tell(self, descriptor: int, pid: int, tells: int) -> None:
        self._waiting.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        os.write(tells, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(tells)


def _become(server: int, words: Sequence[str], files: Sequence[int]) -> None:
    """The fork from here to its end."""
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
            namespaces.enter(process, "net", "mnt")
        status = importlib.import_module(module).main(arguments)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter would, at the end of a program
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Import, then serve."""
    line = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    # Or each fork would copy all of it when it first looks for garbage.
    gc.freeze()
    ForkServer(line).serve()


if __name__ == "__main__":
    main()
