"""Follow the files of a run, and feed new lines to its page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.engine.events import FILE, REPORTS
from harness.engine.results import read_manifest
from harness.live.feed import EVERY_S, Feed
from measure.record import RecordError
from studies import records
from studies.study import LivePage

#: Events after which the page shows the next repetition that starts.
_ENDS_REPETITION = frozenset({"repetition-measured", "repetition-recorded", "testbed-lost"})
_ENDS_RUN = frozenset({"run-started", "run-ended"})


class GrowingFile:
    """A reader of complete lines from a growing JSON file, which may not exist yet."""

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


class Tail:
    """A thread that follows a results folder until it is closed. A context manager."""

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

    def __enter__(self) -> Tail:
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
        """Feed the new lines of the repetition that is shown.

        Other repetitions may be measured at the same time; their lines are left out.
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
        """Return whether an event is about a repetition or testbed that is not shown."""
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
    """Return the worker and the testbed of an event.

    The worker is None for a run without a cluster.
    """
    return event.get("worker"), event.get("testbed")


def describe_repetition(folder: Path, repetition: str, page: LivePage) -> dict[str, Any]:
    """Return the first line of a repetition for a page: its cell, clock and description."""
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
    """Return a line with the status and the checks of a repetition, from its record."""
    said: dict[str, Any] = {"event": "evidence", "name": repetition, "status": "", "checks": []}
    with suppress(OSError, RecordError):
        entry = records.read_record(folder / "records" / f"{repetition}.json")
        said |= {"status": entry.status, "reason": entry.reason,
                 "checks": [check.model_dump() for check in entry.evidence]}
    return said
