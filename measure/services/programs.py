"""Start Python programs on the nodes of a test network, and control them.

`ForkService` starts programs as forks of one process that has done all imports, because imports
take most of the start time. `Launcher` also gives each program a start time and a JSON
configuration, for a study's own programs. `HostProgram` starts a program as a process of its own:
it sends commands as lines of text, and waits for the answers. `ForkService` and `Launcher` take a
`Site`: a running network with the settings of its run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from measure.agent.errors import MeasureError
from measure.agent.process import Start, StartTalking, has_ended
from measure.agent.workload import Site
from topologies.fork_server import ForkedProgram, ForkFile, ForkServerLost, PythonForks

_CODE = Path(__file__).parents[2]
_STOP_S = 5.0
_TIMED_PROGRAM = "measure.agent.timed_program"


def program_environment() -> dict[str, str]:
    """Return the environment variables of qop's own Python programs.

    PYTHONPATH leads to this code, and the fixed hash seed iterates sets in the same order in every
    run.
    """
    return {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(_CODE),
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}


class ForkService:
    """The service that starts Python programs on nodes as forks of one prepared process.

    In a guest, starting Python and importing takes most of a program's start time and memory. With
    `preloads`, the process loads the library that counts the CPU time of nodes with a device (a
    model of a processor). On nodes without a device this library changes nothing.
    """

    name = "forks"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, modules: Sequence[str], *, preloads: bool = True) -> None:
        self._site, self._modules, self._preloads = site, modules, preloads
        self._forks: PythonForks | None = None

    def start(self) -> None:
        """Start the process that will be forked.

        The first request waits until its imports are done.
        """
        libraries = sorted(set(self._site.testbed.preloaded.values())) if self._preloads else []
        preloaded = {"LD_PRELOAD": ":".join(libraries)} if libraries else {}
        with self._log_path.open("ab") as log:
            self._forks = PythonForks(self._modules, errors=log,
                                      environment=program_environment() | preloaded)

    def wait_ready(self) -> None:
        """Return at once: each forked program is awaited by its own service."""

    def stop(self) -> None:
        """End the process and all programs that were forked from it."""
        if self._forks is not None:
            self._forks.close()

    def program_starter(self, node: str, module: str, *arguments: str) -> Start:
        """Return a function that starts a module's `main` on a node by a fork.

        The function gets standard output and error, and raises MeasureError.
        """
        def start(output: IO[bytes], errors: IO[bytes]) -> ForkedProgram:
            with open(os.devnull, "rb") as nothing:
                return self._fork(node, "net,mnt", (module, *arguments), (nothing, output, errors))
        return start

    def socket_program_starter(self, node: str, module: str, *arguments: str) -> StartTalking:
        """Return a function that starts a module's `main` on a node, controlled by a socket.

        The function gets the socket (standard input and output) and standard error. It raises
        MeasureError.
        """
        def start(line: socket.socket, errors: IO[bytes]) -> ForkedProgram:
            return self._fork(node, "net,mnt", (module, *arguments), (line, line, errors))
        return start

    def _fork(self, node: str, namespaces: str, words: Sequence[str],
              files: Sequence[ForkFile]) -> ForkedProgram:
        assert self._forks is not None
        process = str(self._site.testbed.node(node).pid)
        try:
            return self._forks.start_program([process, namespaces, *words], files)
        except ForkServerLost:
            raise MeasureError("testbed", f"no program could be started on a node: the Python that "
                               f"it is a fork of has ended (log: {self._log_path.name})") from None

    @property
    def _log_path(self) -> Path:
        return self._site.log_path(self.name, "machine")


class Launcher(ForkService):
    """The service that starts Python programs on nodes, each at a time and with a configuration.

    `programs` maps names to functions, as `MODULE:FUNCTION`. Each function takes the path of its
    configuration.
    """

    name = "launcher"

    def __init__(self, site: Site, programs: Mapping[str, str]) -> None:
        super().__init__(site, [_TIMED_PROGRAM, *(
            dict.fromkeys(place.partition(":")[0] for place in programs.values()))],
            preloads=False)
        self._programs = programs
        self._running: dict[str, ForkedProgram] = {}
        #: Standard input of the programs that listen, by node.
        self._inputs: dict[str, IO[bytes]] = {}

    @contextmanager
    def run_program(self, program: str, node: str, document: Mapping[str, Any], log: Path,
                    *, at_ns: int = 0, listens: bool = False) -> Iterator[None]:
        """Run a program on a node inside the context.

        Args:
            program: The program's name.
            node: The node's name.
            document: The program's configuration.
            log: File for the program's output.
            at_ns: Start time on the machine's monotonic clock, in ns.
            listens: Whether `send_line` can send lines to the program.
        """
        file = self._site.run_folder(node) / "config.json"
        file.write_text(json.dumps(document))
        words = [_TIMED_PROGRAM, self._programs[program], str(file), str(at_ns)]
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(log.open("ab"))
            if listens:
                read, write = os.pipe()
                source = stack.enter_context(open(read, "rb"))
                self._inputs[node] = os.fdopen(write, "wb", 0)
            else:
                source = stack.enter_context(open(os.devnull, "rb"))
            self._running[node] = self._fork(node, "net", words, (source, output, output))
        try:
            yield
        finally:
            self._end_program(node)

    def wait_ended(self, node: str, for_s: float) -> bool:
        """Return whether the program of a node ends within `for_s` seconds."""
        return has_ended(self._running[node], for_s)

    def send_line(self, node: str, command: Mapping[str, Any]) -> bool:
        """Send a JSON line to the program of a node, and return whether it reads its input."""
        if node not in self._inputs:
            return False
        try:
            self._inputs[node].write(json.dumps(command).encode() + b"\n")
        except BrokenPipeError:
            return False
        return True

    def _end_program(self, node: str) -> None:
        program = self._running.pop(node)
        program.send_signal(signal.SIGTERM)
        if not has_ended(program, _STOP_S):
            program.kill()
        program.wait()
        if node in self._inputs:
            self._inputs.pop(node).close()


# --- A study's own program, controlled by lines on standard input and output ---

class HostProgram:
    """A running program, controlled by lines of text that it answers. A context manager."""

    def __init__(self, name: str, argv: Sequence[str], log: Path,
                 environment: Mapping[str, str] | None = None) -> None:
        self._name, self._log = name, log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=errors, text=True, env=environment)
        self.expect_line("ready")

    def __enter__(self) -> HostProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # the last command may still be unread
                    stream.close()

    def kill(self) -> None:
        """Kill the program, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def run_command(self, command: str) -> None:
        """Send a command to the program, and wait until it answers that it has completed.

        Raises:
            MeasureError: The program has ended.
        """
        self.send_command(command)
        self.expect_line(f"done {command}")

    def send_command(self, command: str) -> None:
        """Send a command to the program, without waiting for its completion.

        Raises:
            MeasureError: The program has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended_error() from None

    def finish(self) -> None:
        """Make the program write its log and exit.

        Raises:
            MeasureError: The program exited with an error.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait():
            raise self._ended_error()

    def expect_line(self, line: str) -> None:
        """Read one line of the program's output, and check that it is the expected one.

        Raises:
            MeasureError: The program printed another line or has ended.
        """
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != line:
            raise self._ended_error()

    def _ended_error(self) -> MeasureError:
        last = (self._log.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]
        return MeasureError("data", f"the {self._name} has ended: {last} (log: {self._log.name})")
