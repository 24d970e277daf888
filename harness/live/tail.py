"""A tail follows a run's files and feeds what is new of the repetition that is being measured."""

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

#: After these the page goes on to whichever repetition begins next.
_ENDS_REPETITION = frozenset({"repetition-measured", "repetition-recorded", "testbed-lost"})
_ENDS_RUN = frozenset({"run-started", "run-ended"})


class GrowingFile:
    """Whole lines of a JSON file that grows; one that is not there yet has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """What is new."""
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
    """A thread that follows a folder until it is told to stop. A context manager."""

    def __init__(self, folder: Path, page: LivePage, feed: Feed) -> None:
        self._folder, self._page, self._feed = folder, page, feed
        self._run = GrowingFile(folder / FILE)
        self._reports: GrowingFile | None = None
        #: The repetition that is shown, also once it is over; "" before there is one.
        self.repetition = ""
        #: Where it is being measured; None once nothing more of it is to come.
        self._testbed: tuple[Any, Any] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Tail:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._feed.end()

    def _follow(self) -> None:
        while not self._over.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        """Feed what is new of the repetition that is shown; others may be measured beside it."""
        for event in self._run.lines():
            kind = event["event"]
            if kind in _ENDS_RUN:
                self._testbed = None
            if kind == "repetition-started" and (
                    self._testbed is None or event.get("name") == self.repetition):
                self._begin(event)
            elif not self._is_of_another(event):
                self._pass_on()  # what a repetition said comes before what became of it
            else:
                continue
            self._feed.say(event)
            if kind in _ENDS_REPETITION:
                self._testbed = None
            if kind == "repetition-recorded":
                self._feed.say(evidence(self._folder, self.repetition))
        self._pass_on()

    def _is_of_another(self, event: Mapping[str, Any]) -> bool:
        """Whether it says something of a repetition, or a testbed's loss, that is not shown."""
        if event["event"] == "testbed-lost":
            return self._testbed != _testbed(event)
        return event["event"].startswith("repetition-") and event.get("name") != self.repetition

    def _begin(self, event: Mapping[str, Any]) -> None:
        self.repetition, self._testbed = str(event["name"]), _testbed(event)
        self._reports = GrowingFile(self._folder / REPORTS / f"{self.repetition}.jsonl")
        self._feed.begin()
        self._feed.say(about(self._folder, self.repetition, self._page))

    def _pass_on(self) -> None:
        for report in self._reports.lines() if self._reports is not None else ():
            if report["event"] == "attempt":  # what an attempt before it said is no more
                self._feed.begin()
                self._feed.say(about(self._folder, self.repetition, self._page))
            self._feed.say(report)


def _testbed(event: Mapping[str, Any]) -> tuple[Any, Any]:
    """A testbed, and the worker that has it where there are several."""
    return event.get("worker"), event.get("testbed")


def about(folder: Path, repetition: str, page: LivePage) -> dict[str, Any]:
    """What a page is told of a repetition before anything else."""
    plan = read_manifest(folder)
    rows = [] if plan is None else [dict(zip((factor.name for factor in plan.factors), row,
                                             strict=True)) for row in plan.cells]
    cell = next((row for row in rows if repetition.rpartition("-")[0] == "-".join(row.values())),
                None)
    if plan is None or cell is None:
        return {"event": "about", "name": repetition}
    return {"event": "about", "name": repetition, "cell": cell,
            "clock": plan.settings.get("clock"), **page.about(plan, cell)}


def evidence(folder: Path, repetition: str) -> dict[str, Any]:
    """What is proven of a repetition, by its record."""
    said: dict[str, Any] = {"event": "evidence", "name": repetition, "status": "", "checks": []}
    with suppress(OSError, RecordError):
        entry = records.read(folder / "records" / f"{repetition}.json")
        said |= {"status": entry.status, "reason": entry.reason,
                 "checks": [check.model_dump() for check in entry.evidence]}
    return said
