"""The worker's side of `node`: one program on each node, which starts the protocol's."""

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


def environment() -> dict[str, str]:
    """For programs of ours: where they are, and sets in the same order in every run."""
    return {**os.environ, "PYTHONPATH": str(_CODE), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0"}


class Launcher:
    """A service: starts programs on a node without loading them anew each time."""

    needs: Sequence[str] = ()

    def __init__(self, site: Site, node: str) -> None:
        self.name = f"launcher ({node})"
        self._site = site
        self._node = node
        self._folder = site.run_folder(node)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; the same neighbours stay known, so that nobody has to ask for them again."""
        with self._site.log("launcher", self._node).open("ab") as log:
            self._process = subprocess.Popen(
                self._site.testbed.command(self._node, [
                    sys.executable, "-m", "studies.authenticast1998.node"]),
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
    def running(self, document: Mapping[str, Any], log: Path) -> Iterator[Launcher]:
        """A program of the protocol's while this lasts. Raises MeasureError if it does not run."""
        file = self._folder / "config.json"
        file.write_text(json.dumps(document))
        does = "serve" if "source" in document else "receive"
        is_ready = self._ask(run=does, config=str(file), log=str(log))["ready"]
        try:
            if not is_ready:
                raise MeasureError("stream", f"{self._node}: {_last_line(log)}")
            yield self
        finally:
            self._ask(do="stop")

    def wait(self, for_s: float) -> bool:
        """Whether the program has ended by then."""
        return bool(self._ask(do="wait", for_s=for_s)["ended"])

    def _ask(self, **command: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise MeasureError("stream", f"{self.name} has died (log: {self._node}-launcher.log)"
                               ) from None
        return answer


def _last_line(log: Path) -> str:
    lines = log.read_text().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
