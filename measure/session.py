"""The worker's connection to the harness, which carries commands and events in order.

Commands are JSON lines on standard input. In virtual time they are numbered files, because virtual
time advances whenever the machine is idle. The worker must therefore not wait idly: polling for a
file takes no virtual time. Meanwhile the harness stops the whole machine, so polling costs the host
little.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from measure import kernel

_CHUNK_BYTES = 1 << 16


def send_event(event: str, **fields: Any) -> None:
    """Send one event to the harness."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class Source(Protocol):
    """A source of commands."""

    def take_command(self, *, wait: bool) -> dict[str, Any] | None:
        """Return the next command, or None if there is none.

        Args:
            wait: Wait for a command; None then means that no command will follow.
        """


class Lines:
    """A source of commands that reads JSON lines from a descriptor."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self._has_ended = False

    def take_command(self, *, wait: bool) -> dict[str, Any] | None:
        """Return the next command, or None if there is none (see `Source.take_command`)."""
        while b"\n" not in self._pending:
            if self._has_ended or not (wait or self._has_more()):
                return None
            chunk = os.read(self._descriptor, _CHUNK_BYTES)
            self._has_ended = not chunk
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        command: dict[str, Any] = json.loads(line)
        return command

    def _has_more(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])


class Files:
    """A source of commands that reads numbered files of a folder.

    The files are 1.json, 2.json and so on. Each appears complete.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._next = self._next_path()

    def take_command(self, *, wait: bool) -> dict[str, Any] | None:
        """Return the next command, or None if there is none (see `Source.take_command`).

        Waiting is polling for the file.
        """
        while not self._next.exists():
            if not wait:
                return None
        command: dict[str, Any] = json.loads(self._next.read_text())
        self._next = self._next_path()
        return command

    def _next_path(self) -> Path:
        return self._folder / f"{next(self._numbers)}.json"


class Inbox:
    """A queue of commands in order of arrival.

    A repetition can take the commands for itself early.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._waiting: deque[dict[str, Any]] = deque()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield every command that is not for a repetition, until the input ends."""
        while True:
            command = self._waiting.popleft() if self._waiting else self._source.take_command(
                wait=True)
            if command is None:
                return
            # A message for a repetition that has ended is dropped.
            if command["do"] != "tell":
                yield command

    def take_messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages for the repetition so far, without waiting.

        Other commands stay queued.
        """
        while (command := self._source.take_command(wait=False)) is not None:
            if command["do"] == "tell":
                yield {key: value for key, value in command.items() if key != "do"}
            else:
                self._waiting.append(command)

    def drop_messages(self) -> None:
        """Drop earlier messages, which were meant for an earlier repetition."""
        for _ in self.take_messages():
            pass


class RepetitionSession:
    """A session of one repetition: raw values, stamps, reports and commands."""

    def __init__(self, inbox: Inbox, divide_out: Callable[[], None] | None = None) -> None:
        self.raw: dict[str, Any] = {"stamps": {}}
        self._inbox = inbox
        self._divide_out = divide_out
        self._has_looked = False

    def stamp(self, name: str) -> None:
        """Store the wall-clock time and the harness's own work so far under a name.

        The first stamp marks the start of a timed part. Host load is measured before it, unless
        that was done.
        """
        if not self._has_looked:
            self.before_timing()
        self.raw["stamps"][name] = time.time()
        if work := kernel.harness_work():
            self.raw.setdefault("harness_work", {})[name] = work

    def before_timing(self) -> None:
        """Measure the host load and scale the nodes' CPU factors to compensate."""
        self._has_looked = True
        if self._divide_out is not None:
            self._divide_out()

    def report(self, name: str, **fields: Any) -> None:
        """Send a report at once, with the machine's time."""
        send_event("report", **fields, name=name, time_s=time.time())

    def create_part(self, name: str) -> RepetitionSession:
        """Return a session for one part, whose raw values are stored within the whole's."""
        part = RepetitionSession(self._inbox, self._divide_out)
        self.raw.setdefault("parts", {})[name] = part.raw
        return part

    def report_shareable(self) -> None:
        """Report that other repetitions may use the processor from here on."""
        self.report("shareable")

    def take_commands(self) -> Iterator[Mapping[str, Any]]:
        """Yield the commands received so far and report each."""
        for command in self._inbox.take_messages():
            self.report("told", command=command)
            yield command
