"""Start a daemon on a node, know when it is ready, and end it by its own pid."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.errors import MeasureError

_STOP_S = 2.0
# Daemons take a fraction of a second; more than 10 s were seen on an emulated, shared processor.
_READY_S = 30.0
_TAIL_LINES = 12


class Daemon:
    """A running daemon whose output goes to `log` and is watched for a line that says "ready".

    With `data`, standard output is what it makes and goes to that file, and only standard error is
    looked at. A context manager; leaving it ends the daemon.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path, ready: str, *,
                 timeout_s: float = _READY_S, env: Mapping[str, str] | None = None,
                 stop_signal: signal.Signals = signal.SIGTERM, data: Path | None = None) -> None:
        self.name = name
        self.log = log
        self._ready = re.compile(ready)
        self._timeout_s = timeout_s
        self._stop_signal = stop_signal
        self._seen = threading.Event()
        self._is_ready = False
        self._tail: list[str] = []
        with data.open("wb") if data else contextlib.nullcontext(subprocess.PIPE) as output:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.PIPE if data else subprocess.STDOUT,
                env=dict(env) if env else None)
        self._pump = threading.Thread(target=self._read, daemon=True, name=f"log {name}")
        self._pump.start()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the daemon itself (the wrappers it is started by replace themselves)."""
        return self.process.pid

    def wait_ready(self) -> Daemon:
        """Block until the ready line was seen; raises MeasureError when it is not to come."""
        self._seen.wait(self._timeout_s)
        if not self._is_ready:
            state = self._status_if_ended()
            fate = "gave no sign of being ready" if state is None else f"ended with status {state}"
            self.stop()
            raise MeasureError("testbed", f"{self.name} {fate} within {self._timeout_s:g} s: "
                               f"{self.last_words()} (log: {self.log.name})")
        return self

    def _status_if_ended(self) -> int | None:
        """Its exit status if its output is at an end; the process itself ends a moment later."""
        if not self._seen.is_set():
            return self.process.poll()
        try:
            return self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return None

    def last_words(self) -> str:
        """The last line of output that says anything."""
        return next((line for line in reversed(self._tail) if line.strip()), "no output")

    def output(self) -> list[str]:
        """The last lines of output, oldest first."""
        return list(self._tail)

    def stop(self) -> None:
        """End the daemon and wait for it and for its output."""
        if self.process.poll() is None:
            self.process.send_signal(self._stop_signal)
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._pump.join(_STOP_S)

    def _read(self) -> None:
        said = self.process.stderr or self.process.stdout
        assert said is not None
        try:
            with said as output, self.log.open("ab", buffering=0) as log:
                for raw in output:
                    log.write(raw)
                    line = raw.decode("utf-8", "replace").rstrip()
                    self._tail = [*self._tail[-_TAIL_LINES + 1:], line]
                    if not self._is_ready and self._ready.search(line):
                        self._is_ready = True
                        self._seen.set()
        finally:
            self._seen.set()
