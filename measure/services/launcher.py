"""The worker's side of `measure.starter`: the service that starts programs of ours on nodes."""

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
#: What the process of a started program is called.
PROGRAM = "qop-program"


def environment() -> dict[str, str]:
    """For programs of ours: where they are, and sets in the same order in every run."""
    return {**os.environ, "PYTHONPATH": str(_CODE), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0"}


class Launcher:
    """A service: starts programs on nodes without loading them anew each time.

    `programs` are functions by name, as `MODULE:FUNCTION`; each takes its configuration's path.
    """

    name = "launcher"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, programs: Mapping[str, str]) -> None:
        self._site, self._programs = site, programs
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it."""
        with self._site.log("launcher", "machine").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m",
                 "measure.starter", PROGRAM, *(f"{name}={place}"
                                      for name, place in self._programs.items())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=environment())

    def ready(self) -> None:
        """It reads what it is told once it is there."""

    def stop(self) -> None:
        """No more commands: it ends what it has started, and itself."""
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
        """A program by its name while this lasts, from a time of the machine's clock on.

        One that `listens` can be told something.
        """
        file = self._site.run_folder(node) / "config.json"
        file.write_text(json.dumps(document))
        self._ask(run=program, node=node, pid=self._site.testbed.node(node).pid, config=str(file),
                  log=str(log), at_ns=at_ns, listens=listens)
        try:
            yield
        finally:
            self._ask(do="stop", node=node)

    def wait(self, node: str, for_s: float) -> bool:
        """Whether a node's program has ended by then."""
        return bool(self._ask(do="wait", node=node, for_s=for_s)["ended"])

    def tell(self, node: str, command: Mapping[str, Any]) -> bool:
        """Say a JSON line to a node's program; whether it was there to hear it."""
        return bool(self._ask(do="tell", node=node, line=json.dumps(command))["told"])

    def _ask(self, **command: Any) -> dict[str, Any]:
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
