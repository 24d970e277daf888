"""Provide the lines that a live web page shows, from a running measurement or from recordings.

Each line is a JSON event of a measurement. `RunSource` follows a running measurement in its results
folder, `RecordingSource` replays recorded ones. Both implement `harness.live.server.PageSource`, so
the server treats them alike. Only a running measurement accepts messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.engine import control_socket
from harness.engine.events import REPORTS, read_events
from harness.errors import UserError
from harness.live.feed import Feed, RunFollower, describe_evidence, describe_repetition
from studies.study import LivePage, StudyError

# --- Recordings: all lines that a page would have shown of a finished repetition ---

def list_recorded_repetitions(folder: Path) -> list[str]:
    """Return the names of all repetitions with a record. Raises UserError without any."""
    names = sorted(path.stem for path in (folder / "records").glob("*.json"))
    if not names:
        raise UserError(f"{folder}: has no record to replay; measure something with './qop run'")
    return names


def read_recorded_lines(folder: Path, repetition: str, page: LivePage) -> list[Mapping[str, Any]]:
    """Return all lines that a page shows about a recorded repetition, in order.

    Raises StudyError if too little of the repetition is kept.
    """
    attempts: list[list[Mapping[str, Any]]] = [[]]
    for event in read_events(folder / REPORTS / f"{repetition}.jsonl"):
        if event["event"] == "attempt":
            attempts.append([])
        attempts[-1].append(event)
    reports: list[Mapping[str, Any]] = attempts[-1]
    if not any(report.get("name") in page.fleeting for report in reports):
        reports = list(page.recorded(folder, repetition))  # measured without a live page
    if not reports:
        raise StudyError(f"{repetition}: nothing is kept that could be replayed; choose another")
    return [describe_repetition(folder, repetition, page), *reports,
            describe_evidence(folder, repetition)]


# --- Sources ---

class RunSource:
    """A source of live page lines that follows a running measurement. A context manager."""

    def __init__(self, folder: Path, page: LivePage) -> None:
        self._folder = folder
        self.feed: Feed | None = Feed(page.fleeting)
        self._tail = RunFollower(folder, page, self.feed)

    def __enter__(self) -> RunSource:
        self._tail.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tail.__exit__()

    def describe_mode(self) -> Mapping[str, Any]:
        """Return that the page is live, and the results folder's name."""
        return {"mode": "live", "folder": self._folder.name}

    def read_recording(self, name: str) -> Mapping[str, Any]:
        """Refuse the request, because a running measurement has no recordings."""
        raise UserError(f"{name}: is not over; look at it as it goes")

    def send_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a message to the repetition that the page shows, and to no other."""
        name = self._tail.repetition
        recipients = control_socket.send_message(self._folder, name, message) if name else []
        if not recipients:
            raise UserError(f"{name or 'the run'}: no repetition is being measured; wait for one")
        return {"told": recipients}


class RecordingSource:
    """A source of live page lines that replays recorded repetitions. A context manager."""

    feed: Feed | None = None

    def __init__(self, folder: Path, page: LivePage) -> None:
        self._folder, self._page = folder, page
        self._names = list_recorded_repetitions(folder)

    def __enter__(self) -> RecordingSource:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def describe_mode(self) -> Mapping[str, Any]:
        """Return that the page is a replay of recorded repetitions, and the folder's name."""
        return {"mode": "replay", "folder": self._folder.name, "names": self._names}

    def read_recording(self, name: str) -> Mapping[str, Any]:
        """Return all lines of a recorded repetition."""
        if name not in self._names:
            raise UserError(f"{name}: is not among the records of {self._folder}; choose another")
        return {"name": name,
                "lines": read_recorded_lines(self._folder, name, self._page)}

    def send_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse the message, because a recording cannot be steered."""
        raise UserError("a recording cannot be steered; give the command without --replay")
