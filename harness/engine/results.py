"""A results folder, its lock, and the repetitions that are still to be measured."""

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

__all__ = [
    "CAPTURES",
    "CELLS",
    "RESULTS",
    "ReceivedFiles",
    "ResultsFolder",
    "folders_newest_first",
    "latest_folder",
    "read_manifest",
    "require_manifest",
]

#: Default folder for results folders.
RESULTS = Path("results")
#: Values of the option --captures.
CAPTURES = ("all", "failed", "none")
#: Folder below logs/ with a log of every cell, one line a repetition.
CELLS = "cells"


class ReceivedFiles(Protocol):
    """The files of a record from another machine: contents by file name, captures compressed."""

    @property
    def captures(self) -> Mapping[str, bytes]:
        """Return the captures."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Return the files that the study keeps."""

    @property
    def reports(self) -> bytes:
        """Return the repetition's reports, one JSON object a line."""


class ResultsFolder:
    """The results of one run. A context manager that holds the folder's lock.

    Args:
        path: The folder, created if missing.
        keep_captures: Whose captures to keep: a value of CAPTURES.
    """

    def __init__(self, path: Path, keep_captures: str = "all") -> None:
        self.path = path
        self._keeps = keep_captures
        self.records = path / "records"
        self.captures = path / "captures"
        self.files = path / "files"
        self.logs = path / "logs"
        self.reports = path / events.REPORTS
        # An absolute path, because other programs have other working folders.
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

    def adopt_plan(self, plan: Plan) -> str:
        """Write the plan into the folder, and move records aside that do not count.

        Records of levels that were edited since are moved where no table counts them. Other files
        in the place of a repetition's record are moved, too.

        Returns:
            A line for the user about moved records, without those of edited levels; "" if there are
                none.

        Raises:
            UserError: The folder holds results of another plan.
        """
        self.refuse_another(plan)
        before = read_manifest(self.path)
        line = self._put_aside(plan, before)
        now = plan.manifest
        if before is not None and before.is_compatible_with(now):
            now = now.model_copy(update={"former_digests": before.former_digests})
        if before != now or not _is_of_today(self.path):
            self._write_plan(now)
        return line

    def refuse_another(self, plan: Plan) -> None:
        """Raise UserError if the folder holds results of another plan."""
        before = read_manifest(self.path)
        if before is not None and not before.is_compatible_with(plan.manifest) \
                and any(self.records.glob("*.json")):
            raise UserError(f"{self.path}: holds results of another plan "
                            f"({before.describe_difference(plan.manifest)}); give the options that "
                            "it was begun "
                            "with, or choose another folder with --out")

    def drop_checksums(self) -> None:
        """Remove the checksums, which become wrong once a file is added."""
        with disk_full.report_errors(self.path):
            checksums.remove_sums(self.path)

    def _write_plan(self, plan: Manifest) -> None:
        checksums.remove_sums(self.path)
        checksums.replace_file(self.path / manifest.FILE, plan.to_text())

    def missing_steps(self, plan: Plan) -> list[Step]:
        """Return the plan's steps without a good record, in the plan's order."""
        before = read_manifest(self.path)
        return [step for step in plan.all_steps() if self._good_record(step, plan, before) is None]

    def flagged_steps(self, plan: Plan) -> list[Step]:
        """Return the steps whose record is flagged and that were not measured exclusively yet."""
        before = read_manifest(self.path)
        return [step for step in plan.all_steps()
                if (good := self._good_record(step, plan, before)) is not None
                and contention.is_due_again(good.environment)]

    def keeps_captures(self, entry: Record) -> bool:
        """Return whether a repetition's captures are to be kept."""
        return self._keeps == "all" or (self._keeps == "failed" and entry.status != "ok")

    def keep_record(self, entry: Record, out: Path | None) -> None:
        """Move a repetition's captures and files from its working folder, then write its record.

        Captures are moved only if they are to be kept, in their compressed form.

        Args:
            entry: The record.
            out: The repetition's working folder, None if it was not measured.
        """
        checksums.remove_sums(self.path)
        if out is not None and entry.captures and self.keeps_captures(entry):
            target = _make_empty(self.captures / entry.name)
            for capture in entry.captures:
                packed = f"{capture['file']}{packing.SUFFIX}"
                (out / packed).replace(target / packed)
        if out is not None and entry.files:
            target = _make_empty(self.files / entry.name)
            for name in entry.files:
                (out / name).replace(target / name)
        record.write_record(entry, self.records)

    def keep_received(self, entry: Record, parts: ReceivedFiles) -> None:
        """Write the files and the record of a repetition that was measured on another machine."""
        checksums.remove_sums(self.path)
        for folder, contents in ((self.captures, parts.captures), (self.files, parts.files)):
            if contents:
                target = _make_empty(folder / entry.name)
                for name, content in contents.items():
                    (target / Path(name).name).write_bytes(content)
        if parts.reports:
            self.reports.mkdir(parents=True, exist_ok=True)
            with (self.reports / f"{entry.name}.jsonl").open("ab") as file:
                file.write(parts.reports)
        record.write_record(entry, self.records)

    def keep_log(self, name: str, content: bytes) -> None:
        """Write a log from another machine.

        Logs of cells are appended to, others are replaced. A path outside of logs/ is ignored.

        Args:
            name: Path of the log below logs/.
            content: The log.
        """
        path = (self.logs / name).resolve()
        if not path.is_relative_to(self.logs.resolve()):
            return
        checksums.remove_sums(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if path.parent.name == CELLS else "wb") as file:
            file.write(content)

    def keep_logs(self, testbed: str, logs: Path) -> None:
        """Copy the logs of a testbed. They replace those of an earlier testbed of the same name."""
        if logs.is_dir():
            checksums.remove_sums(self.path)
            shutil.copytree(logs, self.logs / testbed, dirs_exist_ok=True)

    def append_log(self, cell: str, line: str) -> None:
        """Add a line with the time to a cell's log."""
        folder = self.logs / CELLS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{cell}.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")

    def append_report(self, name: str, document: Mapping[str, Any]) -> None:
        """Append a report of a repetition to its file at once.

        Other programs can therefore follow the repetition. A full disk is ignored here: writing the
        next record reports it.
        """
        with contextlib.suppress(OSError):
            self.reports.mkdir(parents=True, exist_ok=True)
            events.append_line(self.reports / f"{name}.jsonl", document)

    def _good_record(self, step: Step, plan: Plan, before: Manifest | None) -> Record | None:
        """Return the step's record if it counts and its status is ok."""
        verdict = superseded.judge_record(self._record_path(step), step, plan, before)
        entry = verdict.entry if verdict is not None else None
        return entry if entry is not None and entry.status == "ok" else None

    def _record_path(self, step: Step) -> Path:
        return self.records / f"{step.name}.json"

    def _put_aside(self, plan: Plan, before: Manifest | None) -> str:
        """Move records aside that do not count, and return a line for the user."""
        planned = {step.name: step for step in plan.all_steps()}
        aside = []
        for step in (*planned.values(), *superseded.steps_beyond_plan(plan, self.records, planned)):
            verdict = superseded.judge_record(self._record_path(step), step, plan, before)
            if verdict is not None and not verdict.counts:
                checksums.remove_sums(self.path)
                superseded.put_aside(self.path, step.name, verdict.label)
                aside.append(verdict)
        return superseded.describe_moved_records(self.path, aside)

    def _clear_work(self) -> None:
        """Remove rendered files and guests' folders, which are useful during their run only."""
        shutil.rmtree(self.work, ignore_errors=True)


def _make_empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _is_of_today(folder: Path) -> bool:
    """Return whether the folder's manifest has the present format."""
    try:
        manifest.read_manifest(folder)
    except ManifestError:
        return False
    return True


def require_manifest(folder: Path) -> Manifest:
    """Return the manifest of a results folder.

    Raises:
        UserError: The folder has no manifest that can be read.
    """
    plan = read_manifest(folder)
    if plan is None:
        raise UserError(f"{folder}: holds no plan.json of a run; give a results folder")
    return plan


def latest_folder(root: Path) -> Path:
    """Return the newest results folder. Raises UserError if there is none."""
    folders = folders_newest_first(root)
    if not folders:
        raise UserError(f"{root}: no results yet; measure some with './qop run'")
    return folders[0]


def folders_newest_first(root: Path) -> list[Path]:
    """Return the results folders below a folder, the most recently measured first.

    Their names have no influence.
    """
    there = [folder for folder in root.glob("*") if (folder / manifest.FILE).exists()]
    return sorted(there, key=lambda folder: (_measured_at(folder), folder.name), reverse=True)


def _measured_at(folder: Path) -> float:
    """Return when a run or an import last wrote to a folder (wall clock, s).

    Reports do not count.
    """
    places = (folder / name for name in (manifest.FILE, events.FILE, "records"))
    return max(place.stat().st_mtime for place in places if place.exists())
