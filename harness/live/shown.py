"""What a page is shown: the run that writes to a folder, or the repetitions that it holds."""

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
    """A run while it lasts. A context manager."""

    def __init__(self, folder: Path, page: LivePage) -> None:
        self._folder = folder
        self.feed: Feed | None = Feed(page.fleeting)
        self._tail = Tail(folder, page, self.feed)

    def __enter__(self) -> ShownRun:
        self._tail.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tail.__exit__()

    def mode(self) -> Mapping[str, Any]:
        """As `PageSource.mode`."""
        return {"mode": "live", "folder": self._folder.name}

    def recording(self, name: str) -> Mapping[str, Any]:
        """As `PageSource.recording`; a run that lasts has none."""
        raise UserError(f"{name}: is not over; look at it as it goes")

    def tell(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Say something to the repetition that is shown, and to no other."""
        name = self._tail.repetition
        told = control.say(self._folder, name, message) if name else []
        if not told:
            raise UserError(f"{name or 'the run'}: no repetition is being measured; wait for one")
        return {"told": told}


class ShownRecordings:
    """The repetitions of a folder. A context manager, for the sake of the other."""

    feed: Feed | None = None

    def __init__(self, folder: Path, page: LivePage) -> None:
        self._folder, self._page = folder, page
        self._names = recording.repetitions(folder)

    def __enter__(self) -> ShownRecordings:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def mode(self) -> Mapping[str, Any]:
        """As `PageSource.mode`."""
        return {"mode": "replay", "folder": self._folder.name, "names": self._names}

    def recording(self, name: str) -> Mapping[str, Any]:
        """All lines of a repetition."""
        if name not in self._names:
            raise UserError(f"{name}: is not among the records of {self._folder}; choose another")
        return {"name": name, "lines": recording.lines(self._folder, name, self._page)}

    def tell(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `PageSource.tell`; what is over hears nothing."""
        raise UserError("a recording cannot be steered; give the command without --replay")
