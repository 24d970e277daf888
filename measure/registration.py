"""Control the mobile node's Mobile IP program: send it link events and read its events."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure.deadlines import wait_at_most
from measure.errors import MeasureError
from measure.process import StartTalking, has_ended

_READY_S = 30.0
_STOP_S = 2.0
_ENDED = {"event": "failed", "reason": "Mobile IP has ended"}


class EventLines:
    """Events of a program, one JSON object per line, read on demand and logged.

    No thread reads in the background: in virtual time it would delay the measured processes.
    """

    def __init__(self, connection: socket.socket, log: Path) -> None:
        self._said = connection
        self._log = log.open("ab", buffering=0)
        self._half = b""
        self._waiting: list[dict[str, Any]] = []

    def next_event(self, limit_s: float) -> dict[str, Any] | None:
        """Return the next event, or None if none comes within `limit_s` seconds.

        After the program's end, every call returns the same "failed" event.
        """
        wait_at_most(self._said, limit_s)
        while not self._waiting:
            try:
                self._parse_data(self._said.recv(65536))
            except BlockingIOError:
                return None
        return self._waiting.pop(0)

    def send_command(self, command: Mapping[str, str]) -> None:
        """Send a JSON object on a line to the program.

        Raises:
            OSError: The program has ended.
        """
        self._said.settimeout(0)
        self._said.sendall(json.dumps(command).encode() + b"\n")

    def drop_events(self) -> None:
        """Log the events so far and drop them."""
        self._said.settimeout(0)
        try:
            while data := self._said.recv(65536):
                self._parse_data(data)
        except BlockingIOError:
            pass
        self._waiting = []

    def close(self) -> None:
        """Log the remaining events and close the log."""
        if not self._log.closed:
            self.drop_events()
        self._said.close()
        self._log.close()

    def _parse_data(self, data: bytes) -> None:
        if not data:
            self._waiting.append(_ENDED)
        self._log.write(data)
        *lines, self._half = (self._half + data).split(b"\n")
        for line in lines:
            try:
                self._waiting.append(json.loads(line))
            except ValueError:
                continue


class RegistrationDaemon:
    """The mobile node's program on one node. A context manager; leaving it ends the program."""

    def __init__(self, name: str, start: StartTalking, log: Path) -> None:
        self.name = name
        self.history: list[dict[str, Any]] = []
        ours, its = socket.socketpair()
        self._events = EventLines(ours, log)
        with its, log.open("ab") as errors:
            self._process = start(its, errors)

    def __enter__(self) -> RegistrationDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Wait until the program runs.

        Raises:
            MeasureError: The program did not start in time.
        """
        self._wait_event({"ready"}, _READY_S, "did not start")

    def register(self, deadline_s: float) -> None:
        """Report that the link is up, and wait until the node is registered.

        Earlier events, such as a renewal on an earlier link, are dropped first.

        Args:
            deadline_s: Time limit in s.

        Raises:
            MeasureError: The node is not registered in time, or the registration failed.
        """
        self.history = []
        self._events.drop_events()
        self._send_command(do="attached")
        self._wait_event({"registered"}, deadline_s, "is not registered")

    def report_link_down(self) -> None:
        """Report that the link is down."""
        self._send_command(do="detached")

    def stop(self) -> None:
        """End the program and wait for its end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            if not has_ended(self._process, _STOP_S):
                self._process.kill()
        self._process.wait()
        self._events.close()

    def _send_command(self, **command: str) -> None:
        try:
            self._events.send_command(command)
        except OSError as error:
            raise MeasureError("registration", f"{self.name}: Mobile IP has ended") from error

    def _wait_event(self, names: set[str], deadline_s: float, goal: str) -> None:
        until = time.monotonic() + deadline_s
        while (left_s := until - time.monotonic()) > 0:
            event = self._events.next_event(left_s)
            if event is None:
                break
            self.history.append(event)
            if event["event"] in names:
                return
            if event["event"] == "failed":
                raise MeasureError("registration", f"{self.name} {goal}: {event['reason']}")
        denied = [event for event in self.history if event["event"] == "denied"]
        clue = f"; denied with code {denied[-1]['code']}" if denied else ""
        raise MeasureError("registration", f"{self.name} {goal} within {deadline_s:.3g} s{clue}")
