"""Service that starts Python programs on nodes: the worker's side of `measure.starter`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure.errors import MeasureError
from measure.workload import Site

_CODE = Path(__file__).parents[2]
_STOP_S = 10.0
#: Process name of a started program.
PROGRAM = "qop-program"


def program_environment() -> dict[str, str]:
    """Return the environment of qop's own Python programs.

    PYTHONPATH leads to this code, and the fixed hash seed iterates sets in the same order in every
    run.
    """
    return {**os.environ, "PYTHONPATH": str(_CODE), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0"}


class Launcher:
    """A service that starts programs on nodes without importing them each time.

    `programs` maps names to functions, as `MODULE:FUNCTION`. Each function takes the path of its
    configuration.
    """

    name = "launcher"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, programs: Mapping[str, str]) -> None:
        self._site, self._programs = site, programs
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the launcher process."""
        with self._site.log_path("launcher", "machine").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m",
                 "measure.starter", PROGRAM, *(f"{name}={place}"
                                      for name, place in self._programs.items())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=program_environment())

    def wait_ready(self) -> None:
        """Return at once: the process reads its commands when it has started."""

    def stop(self) -> None:
        """End the launcher and the programs that it has started."""
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @contextmanager
    def running(self, program: str, node: str, document: Mapping[str, Any], log: Path,
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
        self._request(run=program, node=node, pid=self._site.testbed.node(node).pid,
                      config=str(file),
                      log=str(log), at_ns=at_ns, listens=listens)
        try:
            yield
        finally:
            self._request(do="stop", node=node)

    def wait_ended(self, node: str, for_s: float) -> bool:
        """Return whether a node's program ends within `for_s` seconds."""
        return bool(self._request(do="wait", node=node, for_s=for_s)["ended"])

    def send_line(self, node: str, command: Mapping[str, Any]) -> bool:
        """Send a JSON line to a node's program and return whether it listens."""
        return bool(self._request(do="tell", node=node, line=json.dumps(command))["told"])

    def _request(self, **command: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise MeasureError("stream", "the launcher has died (log: machine-launcher.log)"
                               ) from None
        return answer
