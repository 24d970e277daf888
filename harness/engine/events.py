"""Write the events of a run to a file while it measures, and read them to show its state.

An event is a JSON object on a line, for example that a repetition (measurement) has started or
ended. `EventLog` writes events. `read_events` returns the events of a file, and `RunState` computes
the present state of the run from them. The progress display, `./qop status` and the fault benchmark
use both.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = "events.jsonl"
#: Folder below a results folder with the reports of each repetition.
REPORTS = "events"

Event = Mapping[str, Any]
Listener = Callable[[Event], None]


class EventLog:
    """A writer of a run's events, which also passes each event to listeners.

    Events are only informative. So an event that cannot be written to a full disk is still passed
    on. The next record then reports the full disk.
    """

    def __init__(self, folder: Path, *listeners: Listener) -> None:
        self._path = folder / FILE
        self._listeners = listeners

    def emit_event(self, event: str, **fields: Any) -> None:
        """Write an event with the present time and pass it to all listeners.

        Args:
            event: The kind of event.
            fields: Its further fields.
        """
        document = {"at": round(time.time(), 3), "event": event, **fields}
        with contextlib.suppress(OSError):
            append_line(self._path, document)
        for listener in self._listeners:
            listener(document)


def append_line(path: Path, document: Event) -> None:
    """Append an event to a file as one JSON line.

    If the last line of the file is incomplete, the new line starts on a line of its own.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("a+b") as file:
        line = json.dumps(document).encode() + b"\n"
        if file.tell():
            file.seek(-1, 2)
            line = line if file.read() == b"\n" else b"\n" + line
        file.write(line)


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield all events of a file. Incomplete lines, as a full disk leaves them, are skipped."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            document = json.loads(line)
            if isinstance(document, dict) and isinstance(document.get("event"), str):
                yield document


@dataclass
class RunState:
    """The present state of a run, computed from its events. Times are wall-clock seconds.

    - `began`, `ended`: start of the run, and whether it has ended
    - `total`, `done`: number of planned repetitions, and of repetitions that have a record
    - `already`: number of `done` repetitions that earlier runs in the folder have measured
    - `failed`, `flagged`: names of failed and of flagged repetitions
    - `testbeds`: names of the running testbeds
    - `running`: start of each running repetition
    - `still`: last event of each repetition whose guest's clock does not advance
    - `waits`: reported reason for waiting of each repetition
    - `open_claims`: claims that were undecided when they were judged last
    - `last`: event of the last record
    """

    began: float = 0.0
    total: int = 0
    done: int = 0
    already: int = 0
    failed: set[str] = field(default_factory=set)
    flagged: set[str] = field(default_factory=set)
    testbeds: set[str] = field(default_factory=set)
    running: dict[str, float] = field(default_factory=dict)
    still: dict[str, Event] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)
    open_claims: list[str] = field(default_factory=list)
    last: dict[str, Any] | None = None
    ended: bool = False
    _on: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_folder(cls, folder: Path) -> RunState | None:
        """Return the state of the newest run in a folder, or None if there was no run."""
        state = None
        for event in read_events(folder / FILE):
            if event["event"] == "run-started":
                state = cls(open_claims=state.open_claims if state else [])
            if state is not None:
                with contextlib.suppress(LookupError, TypeError):
                    state.apply_event(event)
        return state

    def apply_event(self, event: Event) -> None:
        """Update the state of the run by one more event."""
        handler = getattr(self, f"_{event['event'].replace('-', '_')}", None)
        if handler is not None:
            handler(event)

    def left_s(self, now: float) -> float | None:
        """Return the estimated seconds until the run ends, or None before its first record."""
        measured = self.done - self.already
        return (now - self.began) / measured * (self.total - self.done) if measured > 0 else None

    def _run_started(self, event: Event) -> None:
        self.began, self.total = event["at"], event["total"]
        self.done = self.already = event["already"]

    def _run_extended(self, event: Event) -> None:
        self.total += event["more"]

    def _claims_judged(self, event: Event) -> None:
        self.open_claims = list(event["open"])

    def _testbed_starting(self, event: Event) -> None:
        self.running[f"starting {event['testbed']}"] = event["at"]

    def _testbed_ready(self, event: Event) -> None:
        self.running.pop(f"starting {event['testbed']}", None)
        self.testbeds.add(_testbed_key(event))

    def name_on(self, event: Event) -> str:
        """Return the name of the repetition that runs on an event's testbed (emulated network).

        While the testbed starts, the name is "starting TESTBED".
        """
        return self._on.get(_testbed_key(event), f"starting {event['testbed']}")

    def _clock_still(self, event: Event) -> None:
        self.still[self.name_on(event)] = event

    def _clock_moves(self, event: Event) -> None:
        self.still.pop(self.name_on(event), None)

    def _testbed_lost(self, event: Event) -> None:
        self._testbed_ended(event)

    def _testbed_ended(self, event: Event) -> None:
        self._clock_moves(event)
        self.running.pop(f"starting {event['testbed']}", None)
        self.testbeds.discard(_testbed_key(event))

    def _repetition_started(self, event: Event) -> None:
        self.running[event["name"]] = event["at"]
        self.waits.pop(event["name"], None)
        self._on[_testbed_key(event)] = event["name"]

    def _repetition_waits(self, event: Event) -> None:
        self.waits[event["name"]] = event["waits"]

    def _repetition_measured(self, event: Event) -> None:
        self.running.pop(event["name"], None)
        self.still.pop(event["name"], None)
        self.waits.pop(event["name"], None)

    def _repetition_recorded(self, event: Event) -> None:
        name = event["name"]
        self.running.pop(name, None)
        self.waits.pop(name, None)
        self.done += 1
        self.last = dict(event)
        (self.failed.add if event["status"] == "failed" else self.failed.discard)(name)
        self.total += event.get("again", False)
        if event["kept"]:
            self.flagged.discard(name)

    def _repetition_flagged(self, event: Event) -> None:
        self.flagged.add(event["name"])

    def _run_ended(self, _: Event) -> None:
        self.ended = True
        self.running.clear()
        self.still.clear()
        self.testbeds.clear()


def _testbed_key(event: Event) -> str:
    """Return WORKER/TESTBED, which identifies an event's testbed among those of all machines.

    Without a cluster, WORKER is empty.
    """
    return f"{event.get('worker', '')}/{event['testbed']}"
