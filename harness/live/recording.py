"""Recordings: all lines that a page would have shown of a finished repetition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.engine.events import REPORTS, read_events
from harness.errors import UserError
from harness.live.tail import describe_evidence, describe_repetition
from studies.study import LivePage, StudyError


def recorded_repetitions(folder: Path) -> list[str]:
    """Return the repetitions of a folder that have a record. Raises UserError without any."""
    names = sorted(path.stem for path in (folder / "records").glob("*.json"))
    if not names:
        raise UserError(f"{folder}: has no record to replay; measure something with './qop run'")
    return names


def recorded_lines(folder: Path, repetition: str, page: LivePage) -> list[Mapping[str, Any]]:
    """Return all lines of a repetition in order. Raises StudyError if too little is kept."""
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
