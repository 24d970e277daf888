"""Drive the mobile node's Mobile IP program: it is told of the link, and says what became of it."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure.errors import MeasureError

_READY_S = 30.0
_STOP_S = 2.0


class RegistrationDaemon:
    """The mobile node's program on one node. A context manager; leaving it ends the program."""

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        self.name = name
        self.history: list[dict[str, Any]] = []
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._log = log.open("ab")
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=self._log)
        self._reader = threading.Thread(target=self._read, daemon=True, name=f"events {name}")
        self._reader.start()

    def __enter__(self) -> RegistrationDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Block until the program runs."""
        self._wait({"ready"}, _READY_S, "did not start")

    def attached(self, deadline_s: float) -> None:
        """Say that there is a link, and wait until the node is registered on it.

        What was said of an earlier link, such as a renewal, says nothing of this one.
        """
        self.history = []
        while not self._events.empty():
            self._events.get()
        self._say(do="attached")
        self._wait({"registered"}, deadline_s, "is not registered")

    def detached(self) -> None:
        """Say that the link is gone."""
        self._say(do="detached")

    def stop(self) -> None:
        """End the program and wait for it."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(_STOP_S)
        self._log.close()

    def _say(self, **command: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise MeasureError("registration", f"{self.name}: Mobile IP has ended") from error

    def _wait(self, names: set[str], deadline_s: float, goal: str) -> None:
        until = time.monotonic() + deadline_s
        while (left_s := until - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left_s)
            except queue.Empty:
                break
            self.history.append(event)
            if event["event"] in names:
                return
            if event["event"] == "failed":
                raise MeasureError("registration", f"{self.name} {goal}: {event['reason']}")
        denied = [event for event in self.history if event["event"] == "denied"]
        clue = f"; denied with code {denied[-1]['code']}" if denied else ""
        raise MeasureError("registration", f"{self.name} {goal} within {deadline_s:g} s{clue}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._log.write(line)
            try:
                self._events.put(json.loads(line))
            except ValueError:
                continue
        self._events.put({"event": "failed", "reason": "Mobile IP has ended"})
