"""The events of a run, in a file with one JSON object a line.

Progress, `qop status` and the fault benchmark read these events as they are written. The state of a
run is the sum of its events since `run-started` (`RunState`).
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
    """A writer of events, which also passes them to listeners.

    Events are only informative. An event that cannot be written to a full disk is still passed on.
    The next record then reports the full disk.
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
    """Append a line to a file. Raises OSError.

    If the last line is incomplete, the new line starts on a line of its own.
    """
    with path.open("a+b") as file:
        line = json.dumps(document).encode() + b"\n"
        if file.tell():
            file.seek(-1, 2)
            line = line if file.read() == b"\n" else b"\n" + line
        file.write(line)


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield all events of a file. Incomplete lines of a full disk are skipped."""
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
    """The state of a run, derived from its events. Times are wall-clock seconds.

    `done` of `total` repetitions have a record, including those of earlier runs. `running` has the
    start of each running repetition, `testbeds` the names of the running testbeds. `still` has the
    last event of each repetition whose guest's clock does not advance. `waits` has the reported
    reason for waiting of each repetition.
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
    last: dict[str, Any] | None = None
    ended: bool = False
    _on: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_folder(cls, folder: Path) -> RunState | None:
        """Return the state of the newest run in a folder.

        The result is None if no run has written events.
        """
        state = None
        for event in read_events(folder / FILE):
            if event["event"] == "run-started":
                state = cls()
            if state is not None:
                with contextlib.suppress(LookupError, TypeError):
                    state.apply_event(event)
        return state

    def apply_event(self, event: Event) -> None:
        """Update the state by one more event."""
        handler = getattr(self, f"_{event['event'].replace('-', '_')}", None)
        if handler is not None:
            handler(event)

    def left_s(self, now: float) -> float | None:
        """Return the estimated seconds left at the pace so far.

        The result is None before the first record.
        """
        measured = self.done - self.already
        return (now - self.began) / measured * (self.total - self.done) if measured > 0 else None

    def _run_started(self, event: Event) -> None:
        self.began, self.total = event["at"], event["total"]
        self.done = self.already = event["already"]

    def _run_extended(self, event: Event) -> None:
        self.total += event["more"]

    def _testbed_starting(self, event: Event) -> None:
        self.running[f"starting {event['testbed']}"] = event["at"]

    def _testbed_ready(self, event: Event) -> None:
        self.running.pop(f"starting {event['testbed']}", None)
        self.testbeds.add(_testbed_key(event))

    def name_on(self, event: Event) -> str:
        """Return the name of the repetition that runs on an event's testbed.

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
    """Return the key of an event's testbed, which includes its worker."""
    return f"{event.get('worker', '')}/{event['testbed']}"
