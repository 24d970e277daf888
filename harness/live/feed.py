"""Collect the events of a running measurement as lines for its live web pages.

`RunFollower` reads new events from the files of a results folder, and adds those of the shown
repetition (measurement) to a `Feed`. Threads of the HTTP server take the lines from the feed and
send them to browsers. A fleeting line, such as a state, is replaced by a newer one. A page that
connects late gets all other lines, and the newest fleeting ones.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine.events import FILE, REPORTS
from harness.engine.results import read_manifest
from measure.records.document import screen_document
from measure.records.record import RecordError
from studies import records
from studies.study import LivePage

# --- Feed: lines that all pages get, including those that connect late ---

#: A page that connects late gets the fleeting lines of this many seconds.
WINDOW_S = 60.0
#: Shortest interval between updates of a page, in seconds.
EVERY_S = 0.2


@dataclass(frozen=True)
class FeedLine:
    """A line for live pages with its number and time of arrival.

    `text` is JSON. `at_s` is a time of the monotonic clock. A fleeting line is replaced by a newer
    one.
    """

    number: int
    text: str
    at_s: float
    is_fleeting: bool


class Feed:
    """An ordered list of lines for live pages, for which threads can wait.

    `boot` identifies this feed after a restart. `fleeting` names messages of which only the newest
    matter.
    """

    def __init__(self, fleeting: Collection[str] = ()) -> None:
        self.boot = secrets.token_hex(4)
        self._fleeting = frozenset(fleeting)
        self._lasting: list[FeedLine] = []
        self._newest: deque[FeedLine] = deque()
        self._count = 0
        self._changed = threading.Condition()
        self._is_over = False

    def add_line(self, document: Mapping[str, Any]) -> None:
        """Add a line to the feed and wake all waiting threads.

        Args:
            document: The line's content, to be shown on a page.
        """
        now_s = time.monotonic()
        with self._changed:
            new_line = FeedLine(self._count, json.dumps(screen_document(document)), now_s,
                                document.get("name") in self._fleeting)
            self._count += 1
            (self._newest if new_line.is_fleeting else self._lasting).append(new_line)
            while self._newest and self._newest[0].at_s + WINDOW_S < now_s:
                self._newest.popleft()
            self._changed.notify_all()

    def clear_lines(self) -> None:
        """Remove all lines, because the page now shows another repetition."""
        with self._changed:
            self._lasting.clear()
            self._newest.clear()

    def end(self) -> None:
        """End the feed, and wake all threads that wait for lines."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait_for_lines(self, number: int, patience_s: float) -> Sequence[FeedLine] | None:
        """Wait for new lines and return them.

        Args:
            number: Number of the first line to return.
            patience_s: Longest wait in seconds. Without a new line the result is empty.

        Returns:
            The lines in order, or None once the feed is over.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._count > number, patience_s)
            if self._is_over:
                return None
            lines = [line for line in (*self._lasting, *self._newest) if line.number >= number]
        return sorted(lines, key=lambda line: line.number)


# --- Files of a run as the source of a feed's lines ---

#: Events after which the page shows the next repetition that starts.
_ENDS_REPETITION = frozenset({"repetition-measured", "repetition-recorded", "testbed-lost"})
_ENDS_RUN = frozenset({"run-started", "run-ended"})


class GrowingFile:
    """A reader of complete JSON lines from a growing file, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def read_new_events(self) -> Iterator[dict[str, Any]]:
        """Yield the events that were added since the last call."""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._at)
            new, newline, _ = file.read().rpartition(b"\n")
            self._at += len(new) + len(newline)
            for line in new.splitlines():
                with suppress(ValueError):
                    document = json.loads(line)
                    if isinstance(document, dict) and isinstance(document.get("event"), str):
                        yield document


class RunFollower:
    """A thread that adds new events in a results folder to a feed. A context manager."""

    def __init__(self, folder: Path, page: LivePage, feed: Feed) -> None:
        self._folder, self._page, self._feed = folder, page, feed
        self._run = GrowingFile(folder / FILE)
        self._reports: GrowingFile | None = None
        #: The repetition that is shown, also after its end; "" before the first one.
        self.repetition = ""
        #: Worker and testbed of the repetition that is shown; None after its last line.
        self._testbed: tuple[Any, Any] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow_files, daemon=True)

    def __enter__(self) -> RunFollower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._feed.end()

    def _follow_files(self) -> None:
        while not self._over.wait(EVERY_S):
            self.feed_new_lines()

    def feed_new_lines(self) -> None:
        """Add the new events of the shown repetition to the feed.

        Other repetitions may be measured at the same time; their events are left out.
        """
        for event in self._run.read_new_events():
            kind = event["event"]
            if kind in _ENDS_RUN:
                self._testbed = None
            if kind == "repetition-started" and (
                    self._testbed is None or event.get("name") == self.repetition):
                self._begin_repetition(event)
            elif not self._is_of_another(event):
                self._feed_reports()  # a repetition's reports precede the events about its end
            else:
                continue
            self._feed.add_line(event)
            if kind in _ENDS_REPETITION:
                self._testbed = None
            if kind == "repetition-recorded":
                self._feed.add_line(describe_evidence(self._folder, self.repetition))
        self._feed_reports()

    def _is_of_another(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event is about another repetition than the page shows."""
        if event["event"] == "testbed-lost":
            return self._testbed != _testbed_and_worker(event)
        return event["event"].startswith("repetition-") and event.get("name") != self.repetition

    def _begin_repetition(self, event: Mapping[str, Any]) -> None:
        self.repetition, self._testbed = str(event["name"]), _testbed_and_worker(event)
        self._reports = GrowingFile(self._folder / REPORTS / f"{self.repetition}.jsonl")
        self._feed.clear_lines()
        self._feed.add_line(describe_repetition(self._folder, self.repetition, self._page))

    def _feed_reports(self) -> None:
        for report in self._reports.read_new_events() if self._reports is not None else ():
            if report["event"] == "attempt":  # lines of the earlier attempt are void
                self._feed.clear_lines()
                self._feed.add_line(describe_repetition(self._folder, self.repetition, self._page))
            self._feed.add_line(report)


def _testbed_and_worker(event: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the worker (None without a cluster) and the testbed that an event names."""
    return event.get("worker"), event.get("testbed")


def describe_repetition(folder: Path, repetition: str, page: LivePage) -> dict[str, Any]:
    """Return the first line for a page: which policy, scenario and clock it shows."""
    plan = read_manifest(folder)
    rows = [] if plan is None else [dict(zip((factor.name for factor in plan.factors), row,
                                             strict=True)) for row in plan.cells]
    cell = next((row for row in rows if repetition.rpartition("-")[0] == "-".join(row.values())),
                None)
    if plan is None or cell is None:
        return {"event": "about", "name": repetition}
    return {"event": "about", "name": repetition, "cell": cell,
            "clock": plan.settings.get("clock"), **page.about(plan, cell)}


def describe_evidence(folder: Path, repetition: str) -> dict[str, Any]:
    """Return the last line for a page: status and checks of the finished repetition."""
    evidence: dict[str, Any] = {"event": "evidence", "name": repetition, "status": "", "checks": []}
    with suppress(OSError, RecordError):
        entry = records.read_record(folder / "records" / f"{repetition}.json")
        evidence |= {"status": entry.status, "reason": entry.reason,
                     "checks": [check.model_dump() for check in entry.evidence]}
    return evidence
