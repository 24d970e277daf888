"""Sources of a live page: a running run, or the recordings of a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.engine import control
from harness.errors import UserError
from harness.live import recording
from harness.live.feed import Feed
from harness.live.tail import Tail
from studies.study import LivePage


class ShownRun:
    """A source that follows a running run. A context manager."""

    def __init__(self, folder: Path, page: LivePage) -> None:
        self._folder = folder
        self.feed: Feed | None = Feed(page.fleeting)
        self._tail = Tail(folder, page, self.feed)

    def __enter__(self) -> ShownRun:
        self._tail.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tail.__exit__()

    def describe_mode(self) -> Mapping[str, Any]:
        """Return that the page is live, and the folder's name (`PageSource.describe_mode`)."""
        return {"mode": "live", "folder": self._folder.name}

    def read_recording(self, name: str) -> Mapping[str, Any]:
        """Refuse the request: a running run has no recordings (`PageSource.read_recording`)."""
        raise UserError(f"{name}: is not over; look at it as it goes")

    def send_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a message to the repetition that the page shows, and to no other."""
        name = self._tail.repetition
        told = control.send_message(self._folder, name, message) if name else []
        if not told:
            raise UserError(f"{name or 'the run'}: no repetition is being measured; wait for one")
        return {"told": told}


class ShownRecordings:
    """A source that replays recorded repetitions. A context manager only to match ShownRun."""

    feed: Feed | None = None

    def __init__(self, folder: Path, page: LivePage) -> None:
        self._folder, self._page = folder, page
        self._names = recording.recorded_repetitions(folder)

    def __enter__(self) -> ShownRecordings:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def describe_mode(self) -> Mapping[str, Any]:
        """Return that the page is a replay of recorded repetitions (`PageSource.describe_mode`)."""
        return {"mode": "replay", "folder": self._folder.name, "names": self._names}

    def read_recording(self, name: str) -> Mapping[str, Any]:
        """Return all lines of a repetition (`PageSource.read_recording`)."""
        if name not in self._names:
            raise UserError(f"{name}: is not among the records of {self._folder}; choose another")
        return {"name": name, "lines": recording.recorded_lines(self._folder, name, self._page)}

    def send_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse the message: a recording cannot be steered (`PageSource.send_message`)."""
        raise UserError("a recording cannot be steered; give the command without --replay")
