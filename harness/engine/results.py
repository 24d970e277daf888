"""A results folder: who may write to it, what is in it, and what is still to be measured."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.engine import contention, disk_full, events, packing, superseded
from harness.engine.plan import Plan, Step
from harness.errors import UserError
from harness.portable import checksums
from harness.portable.reading import read_manifest
from measure import manifest, record
from measure.manifest import Manifest, ManifestError
from measure.record import Record

__all__ = ["CAPTURES", "CELLS", "RESULTS", "ReceivedFiles", "ResultsFolder", "latest",
           "newest_first", "read_manifest", "require_manifest"]

#: Where results folders are made unless another place is named.
RESULTS = Path("results")
#: Which repetitions' captures may be kept.
CAPTURES = ("all", "failed", "none")
#: Below logs/: a log of every cell, one line a repetition.
CELLS = "cells"


class ReceivedFiles(Protocol):
    """What comes with a record from elsewhere: contents by file name, captures compressed."""

    @property
    def captures(self) -> Mapping[str, bytes]:
        """Its captures."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files that its study keeps."""

    @property
    def reports(self) -> bytes:
        """What it said while it ran, as lines."""


class ResultsFolder:
    """One run's results. A context manager that holds the folder's lock."""

    def __init__(self, path: Path, keep_captures: str = "all") -> None:
        self.path = path
        self._keeps = keep_captures
        self.records = path / "records"
        self.captures = path / "captures"
        self.files = path / "files"
        self.logs = path / "logs"
        self.reports = path / events.REPORTS
        # Absolute, because other programs work with it from places of their own.
        self.work = path.absolute() / "work"
        self._lock: int | None = None

    def __enter__(self) -> ResultsFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror}); "
                            "choose another folder with --out") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = None
            raise UserError(f"{self.path}: another run is writing there; wait for it, or choose "
                            "another folder with --out") from None
        self._clear_work()
        return self

    def __exit__(self, *_: object) -> None:
        self._clear_work()
        if self._lock is not None:
            os.close(self._lock)

    def adopt(self, plan: Plan) -> str:
        """Keep the plan here; refuse a folder that holds results of another one.

        Records of levels that have been edited since are put aside, where no table counts them, and
        so is whatever else stands in a repetition's place. A line about the latter, or "".
        """
        self.refuse_another(plan)
        before = read_manifest(self.path)
        line = self._put_aside(plan, before)
        now = plan.manifest
        if before is not None and before.measures_as(now):
            now = now.model_copy(update={"former_digests": before.former_digests})
        if before != now or not _is_of_today(self.path):
            self._write_plan(now)
        return line

    def refuse_another(self, plan: Plan) -> None:
        """Raise UserError if the folder holds results of another plan."""
        before = read_manifest(self.path)
        if before is not None and not before.measures_as(plan.manifest) \
                and any(self.records.glob("*.json")):
            raise UserError(f"{self.path}: holds results of another plan "
                            f"({before.unlike(plan.manifest)}); give the options that it was begun "
                            "with, or choose another folder with --out")

    def drop_checksums(self) -> None:
        """Take away the checksums, which are wrong once something is added."""
        with disk_full.reported(self.path):
            checksums.remove(self.path)

    def _write_plan(self, plan: Manifest) -> None:
        checksums.remove(self.path)
        checksums.replace(self.path / manifest.FILE, plan.to_text())

    def missing(self, plan: Plan) -> list[Step]:
        """The plan's steps without a good record, in the plan's order."""
        before = read_manifest(self.path)
        return [step for step in plan.steps() if self._good(step, plan, before) is None]

    def flagged(self, plan: Plan) -> list[Step]:
        """Steps whose record is flagged and was not yet measured again with nothing beside it."""
        before = read_manifest(self.path)
        return [step for step in plan.steps()
                if (good := self._good(step, plan, before)) is not None
                and contention.is_due_again(good.environment)]

    def keeps_captures(self, entry: Record) -> bool:
        """Whether a repetition's captures are to be kept."""
        return self._keeps == "all" or (self._keeps == "failed" and entry.status != "ok")

    def keep(self, entry: Record, out: Path | None) -> None:
        """Keep a repetition's captures, if they are to be, from where they were compressed.

        And its files, and then its record.
        """
        checksums.remove(self.path)
        if out is not None and entry.captures and self.keeps_captures(entry):
            target = _emptied(self.captures / entry.name)
            for capture in entry.captures:
                packed = f"{capture['file']}{packing.SUFFIX}"
                (out / packed).replace(target / packed)
        if out is not None and entry.files:
            target = _emptied(self.files / entry.name)
            for name in entry.files:
                (out / name).replace(target / name)
        record.write(entry, self.records)

    def keep_received(self, entry: Record, parts: ReceivedFiles) -> None:
        """As `keep`, for a repetition that was measured elsewhere."""
        checksums.remove(self.path)
        for folder, contents in ((self.captures, parts.captures), (self.files, parts.files)):
            if contents:
                target = _emptied(folder / entry.name)
                for name, content in contents.items():
                    (target / Path(name).name).write_bytes(content)
        if parts.reports:
            self.reports.mkdir(parents=True, exist_ok=True)
            with (self.reports / f"{entry.name}.jsonl").open("ab") as file:
                file.write(parts.reports)
        record.write(entry, self.records)

    def keep_log(self, name: str, content: bytes) -> None:
        """Keep a log that comes from elsewhere, or add to it; `name` is its path below logs/."""
        path = (self.logs / name).resolve()
        if not path.is_relative_to(self.logs.resolve()):
            return
        checksums.remove(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if path.parent.name == CELLS else "wb") as file:
            file.write(content)

    def keep_logs(self, testbed: str, logs: Path) -> None:
        """Keep the logs of a testbed; those of the last one of a name stay."""
        if logs.is_dir():
            checksums.remove(self.path)
            shutil.copytree(logs, self.logs / testbed, dirs_exist_ok=True)

    def log(self, cell: str, line: str) -> None:
        """Add a line to a cell's own log."""
        folder = self.logs / CELLS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{cell}.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")

    def report(self, name: str, document: Mapping[str, Any]) -> None:
        """Add to what a repetition has reported; as it comes, so that others can look on.

        A disk without room is told by the next record, as with a run's events.
        """
        with contextlib.suppress(OSError):
            self.reports.mkdir(parents=True, exist_ok=True)
            events.append(self.reports / f"{name}.jsonl", document)

    def _good(self, step: Step, plan: Plan, before: Manifest | None) -> Record | None:
        """The step's record if it counts and is ok."""
        verdict = superseded.judge(self._record(step), step, plan, before)
        entry = verdict.entry if verdict is not None else None
        return entry if entry is not None and entry.status == "ok" else None

    def _record(self, step: Step) -> Path:
        return self.records / f"{step.name}.json"

    def _put_aside(self, plan: Plan, before: Manifest | None) -> str:
        """Put records aside that do not count; what is to be said of it."""
        planned = {step.name: step for step in plan.steps()}
        aside = []
        for step in (*planned.values(), *superseded.beyond(plan, self.records, planned)):
            verdict = superseded.judge(self._record(step), step, plan, before)
            if verdict is not None and not verdict.counts:
                checksums.remove(self.path)
                superseded.put_aside(self.path, step.name, verdict.label)
                aside.append(verdict)
        return superseded.told(self.path, aside)

    def _clear_work(self) -> None:
        """Rendered files and guests' folders are of use only while their run lasts."""
        shutil.rmtree(self.work, ignore_errors=True)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _is_of_today(folder: Path) -> bool:
    """Whether the folder's manifest needs no upgrade when it is read."""
    try:
        manifest.read(folder)
    except ManifestError:
        return False
    return True


def require_manifest(folder: Path) -> Manifest:
    """The manifest kept in a results folder; raises UserError where there is none to be read."""
    plan = read_manifest(folder)
    if plan is None:
        raise UserError(f"{folder}: holds no plan.json of a run; give a results folder")
    return plan


def latest(root: Path) -> Path:
    """The newest results folder; raises UserError when there is none."""
    folders = newest_first(root)
    if not folders:
        raise UserError(f"{root}: no results yet; measure some with './qop run'")
    return folders[0]


def newest_first(root: Path) -> list[Path]:
    """The results folders in a place by what was last measured in them, whatever their names."""
    there = [folder for folder in root.glob("*") if (folder / manifest.FILE).exists()]
    return sorted(there, key=lambda folder: (_measured_at(folder), folder.name), reverse=True)


def _measured_at(folder: Path) -> float:
    """When a run or an import last wrote there (wall clock, s); reports do not count."""
    places = (folder / name for name in (manifest.FILE, events.FILE, "records"))
    return max(place.stat().st_mtime for place in places if place.exists())
