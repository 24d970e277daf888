"""The session is the worker's line to the harness: commands come in, events go out, in order.

Commands are JSON lines on standard input or, where the clock is virtual, numbered files. Virtual
time runs off whenever the machine has nothing to do, so it must not wait for the harness idly:
looking for a file over and over takes none of it. (The harness stops the whole machine in the
meantime, so that it takes little of the processor, either.)
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


def say(event: str, **fields: Any) -> None:
    """One event to the harness."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class Source(Protocol):
    """Where commands come from."""

    def take(self, *, wait: bool) -> dict[str, Any] | None:
        """The next command; None if there is none (yet), or with `wait`, never again."""


class Lines:
    """Commands as JSON lines on a descriptor."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self._has_ended = False

    def take(self, *, wait: bool) -> dict[str, Any] | None:
        """As `Source.take`."""
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
    """Commands as numbered files in a folder, 1.json, 2.json and so on; each appears whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._next = self._following()

    def take(self, *, wait: bool) -> dict[str, Any] | None:
        """As `Source.take`; waiting is looking over and over."""
        while not self._next.exists():
            if not wait:
                return None
        command: dict[str, Any] = json.loads(self._next.read_text())
        self._next = self._following()
        return command

    def _following(self) -> Path:
        return self._folder / f"{next(self._numbers)}.json"


class Inbox:
    """Commands in the order in which they came; those for a repetition can be taken during it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._waiting: deque[dict[str, Any]] = deque()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every command that is not for a repetition, until there will be no more."""
        while True:
            command = self._waiting.popleft() if self._waiting else self._source.take(wait=True)
            if command is None:
                return
            # What is told to a repetition that has ended is of no use to anybody.
            if command["do"] != "tell":
                yield command

    def told(self) -> Iterator[dict[str, Any]]:
        """What was told to the repetition so far, without waiting; the rest stays for later."""
        while (command := self._source.take(wait=False)) is not None:
            if command["do"] == "tell":
                yield {key: value for key, value in command.items() if key != "do"}
            else:
                self._waiting.append(command)

    def forget(self) -> None:
        """Drop what was told before now: it was meant for an earlier repetition."""
        for _ in self.told():
            pass


class RepetitionSession:
    """One repetition's session: raw values, stamps, reports, and commands from the harness."""

    def __init__(self, inbox: Inbox, divide_out: Callable[[], None] | None = None) -> None:
        self.raw: dict[str, Any] = {"stamps": {}}
        self._inbox = inbox
        self._divide_out = divide_out
        self._has_looked = False

    def stamp(self, name: str) -> None:
        """Note the machine's wall clock under a name, and what was computed for nothing so far.

        The first is where something begins: company is divided out before it, unless it was.
        """
        if not self._has_looked:
            self.before_timing()
        self.raw["stamps"][name] = time.time()
        if work := kernel.work_of_nobody():
            self.raw.setdefault("harness_work", {})[name] = work

    def before_timing(self) -> None:
        """Divide out of nodes' times what company there is on the host now; see `company`."""
        self._has_looked = True
        if self._divide_out is not None:
            self._divide_out()

    def report(self, name: str, **fields: Any) -> None:
        """Say something at once, with the machine's time."""
        say("report", **fields, name=name, time_s=time.time())

    def part(self, name: str) -> RepetitionSession:
        """A part with raw values and stamps of its own, which are kept among the whole's."""
        part = RepetitionSession(self._inbox, self._divide_out)
        self.raw.setdefault("parts", {})[name] = part.raw
        return part

    def shareable(self) -> None:
        """Say that from here on others may use the processor beside this repetition."""
        self.report("shareable")

    def commands(self) -> Iterator[Mapping[str, Any]]:
        """Commands that have come in so far; each is reported as it is taken."""
        for command in self._inbox.told():
            self.report("told", command=command)
            yield command
