"""Store the results of a run in a folder, and find the repetitions still to be measured.

A repetition is one measurement, and gives one record (JSON file). `choose_results_folder` returns
the requested folder, the unfinished folder of the same plan, or a new one. `ResultsFolder` writes
records, captures and files there, and lists the repetitions that have no good record yet. If the
plan was changed, records that do not fit the new plan do not count. They move to superseded/ with
their captures and files. Measured data are never overwritten.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from harness import errors
from harness.engine import events, postprocessing, retries
from harness.engine.plan import Plan, Step
from harness.errors import UserError
from harness.portable import checksums
from harness.portable.folder import read_manifest, read_manifest_or_none
from measure.records import manifest, record
from measure.records.manifest import Manifest
from measure.records.record import Record, RecordError
from studies import records as stored

# --- Records that count for a plan, and the move of others to superseded/ ---

SUPERSEDED_FOLDER = "superseded"
_DIGITS = 12


@dataclass(frozen=True)
class RecordVerdict:
    """A decision whether an existing record belongs to the present plan of a run.

    If it does not, `label` is the folder that it is moved to, and `reason` the reason. `is_edited`
    means that the user edited a level since, such as a policy's file.
    """

    entry: Record | None = None
    label: str = ""
    reason: str = ""
    is_edited: bool = False

    @property
    def counts(self) -> bool:
        """Return whether the record belongs to the present plan, with any status."""
        return self.entry is not None


def match_record(path: Path, step: Step, plan: Plan,
                 before: Manifest | None) -> RecordVerdict | None:
    """Decide whether the stored record of a repetition fits the present plan.

    Args:
        path: File of the record.
        step: The repetition.
        plan: The present plan.
        before: The folder's manifest (stored plan). Without it, only the record's own data decide.

    Returns:
        The decision, or None if there is no record.
    """
    if not path.exists():
        return None
    try:
        entry = stored.read_record(path)
    except RecordError as error:
        return RecordVerdict(label=_digest_of(path), reason=str(error).partition("; ")[0])
    edited = _edited_digest(step, entry, before)
    if edited:
        return RecordVerdict(label=edited[:_DIGITS], reason="a level was edited", is_edited=True)
    foreign = _find_mismatch(step, entry, plan)
    if foreign:
        return RecordVerdict(label=_digest_of(path), reason=f"{path}: {foreign}")
    return RecordVerdict(entry)


def _digest_of(path: Path) -> str:
    """Return a short hash of a file's content, or of its name if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        content = path.name.encode()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _find_mismatch(step: Step, entry: Record, plan: Plan) -> str:
    """Return why a record does not belong to the plan, or "" if it does."""
    if entry.name != step.name:
        return f"holds the record {entry.name}"
    study = plan.study
    if (entry.study.id, entry.study.version) != (study.id, study.version):
        return (f"is of the study {entry.study.id}, version {entry.study.version}, not of "
                f"{study.id}, version {study.version}")
    made_for = entry.environment.get("plan")
    return "was measured for another plan" if made_for and made_for != plan.digest else ""


def _edited_digest(step: Step, entry: Record, before: Manifest | None) -> str:
    """Return the old hash of a level (such as a policy) that was edited after the measurement.

    The result is "" if no level was edited. Old records have no such hashes; for them the hashes in
    the folder's plan.json are compared.
    """
    for factor, level in step.cell.levels.items():
        then = entry.digests.get(factor)
        if then is None and before is not None:
            kept_level = before.levels.get(factor, {}).get(level.id)
            then = kept_level.digest if kept_level is not None else None
        if then and then != level.digest:
            return then
    return ""


def supersede_files(folder: Path, name: str, label: str) -> None:
    """Move the record, captures and other files of a repetition into superseded/.

    Files that were moved there earlier are kept.
    """
    places = [place for place in (folder / "records" / f"{name}.json", folder / "captures" / name,
                                  folder / "files" / name, folder / "events" / f"{name}.jsonl")
              if place.exists()]
    target = next(target for target in _target_folders(folder / SUPERSEDED_FOLDER, label)
                  if not any(
        (target / place.parent.name / place.name).exists() for place in places))
    for place in places:
        (target / place.parent.name).mkdir(parents=True, exist_ok=True)
        place.replace(target / place.parent.name / place.name)


def _target_folders(root: Path, label: str) -> Iterator[Path]:
    yield root / label
    number = 2
    while True:
        yield root / f"{label}-{number}"
        number += 1


def describe_moved_records(folder: Path, verdicts: Iterable[RecordVerdict]) -> str:
    """Return a line for the user about records that were moved to superseded/.

    Records of edited policies or other levels are left out, because the user knows of them. The
    result is "" if no others were moved.
    """
    reasons = [verdict.reason for verdict in verdicts if not verdict.is_edited]
    if not reasons:
        return ""
    what = "1 record" if len(reasons) == 1 else f"{len(reasons)} records"
    first = "" if len(reasons) == 1 else "the first: "
    return (f"{folder}: {what} of the plan cannot be counted ({first}{reasons[0]}); moved to "
            f"{SUPERSEDED_FOLDER}/, and measured again")


def list_steps_beyond_plan(plan: Plan, records: Path, steps: Mapping[str, Step]) -> Iterator[Step]:
    """Yield repetitions that have a record, although the plan does not contain them.

    A stopping rule (`--until-ci`, `--until-decided`) may have added them.
    """
    cells = {cell.name: cell for cell in plan.cells}
    for path in sorted(records.glob("*.json")):
        cell, _, number = path.stem.rpartition("-")
        if path.stem not in steps and cell in cells and number.isdecimal():
            yield Step(cells[cell], int(number))


# --- Results folder ---

__all__ = [
    "CAPTURES",
    "CELLS",
    "RESULTS",
    "ReceivedFiles",
    "ResultsFolder",
    "find_latest_folder",
    "list_folders_by_age",
    "read_manifest",
    "require_manifest",
]

#: Default folder for results folders.
RESULTS = Path("results")
#: Values of the option --captures.
CAPTURES = ("all", "failed", "none")
#: Folder below logs/ with a log of every cell, one line a repetition.
CELLS = "cells"


@dataclass(frozen=True)
class ReceivedFiles:
    """The files of a repetition that another machine of the cluster measured.

    `captures` are compressed. `files` are further files that the study keeps. Both are by file
    name. `reports` are the messages of the repetition's workload, one JSON object a line.
    """

    captures: Mapping[str, bytes]
    files: Mapping[str, bytes]
    reports: bytes


class ResultsFolder:
    """A results folder that one run writes to.

    A context manager that holds the folder's lock.

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
        """Write the plan into the folder, and move records aside that do not fit it.

        Records of levels (such as policies) that were edited since do not count any more. Foreign
        files with the name of a repetition's record are moved, too.

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
            # Whatever is measured further, verdicts of a sequential design stay sequential.
            looks = {name: before.settings[name] for name in ("looks",) if name in before.settings}
            now = now.model_copy(update={"settings": now.settings | looks})
        if before != now:
            self._write_plan(now)
        return line

    def refuse_another(self, plan: Plan) -> None:
        """Raise UserError if the folder holds results of another plan."""
        before = read_manifest(self.path)
        if before is not None and not before.is_compatible_with(plan.manifest) \
                and any(self.records.glob("*.json")):
            raise UserError(f"{self.path}: holds results of another plan "
                            f"({before.describe_difference(plan.manifest)}); give the options that "
                            "it was begun with, or choose another folder with --out")

    def drop_checksums(self) -> None:
        """Remove SHA256SUMS, which becomes wrong once a file is added."""
        with errors.report_disk_errors(self.path):
            checksums.remove_sums(self.path)

    def _write_plan(self, plan: Manifest) -> None:
        checksums.remove_sums(self.path)
        checksums.replace_file(self.path / manifest.FILE, plan.to_text())

    def missing_steps(self, plan: Plan) -> list[Step]:
        """Return the repetitions of the plan that have no successful record yet, in order."""
        before = read_manifest(self.path)
        return [step for step in plan.all_steps() if self._good_record(step, plan, before) is None]

    def flagged_steps(self, plan: Plan) -> list[Step]:
        """Return the repetitions to measure again, with nothing else running.

        Their records are flagged as disturbed, and were made in parallel with others.
        """
        before = read_manifest(self.path)
        return [step for step in plan.all_steps()
                if (good := self._good_record(step, plan, before)) is not None
                and retries.needs_exclusive_retry(good.environment)]

    def keeps_captures(self, entry: Record) -> bool:
        """Return whether a repetition's captures are to be kept."""
        return self._keeps == "all" or (self._keeps == "failed" and entry.status != "ok")

    def keep_record(self, entry: Record, out: Path | None) -> None:
        """Store a repetition: move its captures and files into the folder, then write its record.

        Captures are moved only if they are to be kept, in their compressed form.

        Args:
            entry: The record.
            out: The repetition's working folder, None if it was not measured.
        """
        checksums.remove_sums(self.path)
        if out is not None and entry.captures and self.keeps_captures(entry):
            target = _make_empty(self.captures / entry.name)
            for capture in entry.captures:
                packed = f"{capture['file']}{postprocessing.SUFFIX}"
                (out / packed).replace(target / packed)
        if out is not None and entry.files:
            target = _make_empty(self.files / entry.name)
            for name in entry.files:
                (out / name).replace(target / name)
        record.write_record(entry, self.records)

    def keep_received(self, entry: Record, parts: ReceivedFiles) -> None:
        """Store the record and files of a repetition that another machine measured."""
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
        """Write a log file that another machine of the cluster sent.

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
        """Copy the logs of a testbed's daemons, in place of the logs of an earlier such testbed.

        A testbed is an emulated network.
        """
        if logs.is_dir():
            checksums.remove_sums(self.path)
            shutil.copytree(logs, self.logs / testbed, dirs_exist_ok=True)

    def append_log(self, cell: str, line: str) -> None:
        """Append a line with the present time to the log of a cell (one policy in one scenario)."""
        folder = self.logs / CELLS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{cell}.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")

    def append_report(self, name: str, document: Mapping[str, Any]) -> None:
        """Append a message of a running repetition to its event file at once.

        Other programs can therefore follow the repetition. A full disk is ignored here: writing the
        next record reports it.
        """
        with contextlib.suppress(OSError):
            self.reports.mkdir(parents=True, exist_ok=True)
            events.append_line(self.reports / f"{name}.jsonl", document)

    def _good_record(self, step: Step, plan: Plan, before: Manifest | None) -> Record | None:
        """Return the stored record of a repetition if it fits the plan and was successful."""
        verdict = match_record(self._record_path(step), step, plan, before)
        entry = verdict.entry if verdict is not None else None
        return entry if entry is not None and entry.status == "ok" else None

    def _record_path(self, step: Step) -> Path:
        return self.records / f"{step.name}.json"

    def _put_aside(self, plan: Plan, before: Manifest | None) -> str:
        """Move records that do not fit the plan to superseded/, and return a line for the user."""
        planned = {step.name: step for step in plan.all_steps()}
        aside = []
        for step in (*planned.values(),
                     *list_steps_beyond_plan(plan, self.records, planned)):
            verdict = match_record(self._record_path(step), step, plan, before)
            if verdict is not None and not verdict.counts:
                checksums.remove_sums(self.path)
                supersede_files(self.path, step.name, verdict.label)
                aside.append(verdict)
        return describe_moved_records(self.path, aside)

    def _clear_work(self) -> None:
        """Remove working files of an earlier run, such as rendered configuration."""
        shutil.rmtree(self.work, ignore_errors=True)


def _make_empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def require_manifest(folder: Path) -> Manifest:
    """Return the stored plan (plan.json) of a results folder.

    Raises:
        UserError: The folder has no manifest that can be read.
    """
    plan = read_manifest(folder)
    if plan is None:
        raise UserError(f"{folder}: holds no plan.json of a run; give a results folder")
    return plan


def find_latest_folder(root: Path) -> Path:
    """Return the newest results folder. Raises UserError if there is none."""
    folders = list_folders_by_age(root)
    if not folders:
        raise UserError(f"{root}: no results yet; measure some with './qop run'")
    return folders[0]


def list_folders_by_age(root: Path) -> list[Path]:
    """Return the results folders inside a folder, the most recently measured first."""
    folders = [folder for folder in root.glob("*") if (folder / manifest.FILE).exists()]
    return sorted(folders, key=lambda folder: (_measured_at(folder), folder.name), reverse=True)


def _measured_at(folder: Path) -> float:
    """Return when a run or an import last wrote to a results folder (wall clock, s).

    Writing a report does not count.
    """
    places = (folder / name for name in (manifest.FILE, events.FILE, "records"))
    return max(place.stat().st_mtime for place in places if place.exists())


# --- Choice of the folder that a run continues, or a new one ---

def choose_results_folder(out: Path | None, root: Path, plan: Plan, *, fresh: bool,
                          until_decided: bool = False) -> Path:
    """Return the folder in which a run stores its results.

    The requested folder comes first. The second choice is the newest folder of the same plan, if it
    is unfinished. The last choice is a new folder.

    Args:
        out: The requested folder, if there is one.
        root: Folder that contains results folders.
        plan: The plan of the run.
        fresh: Never continue an earlier folder.
        until_decided: Continue a finished folder, too, because its claims may be open.
    """
    if out is not None:
        return out
    if not fresh:
        for folder in list_folders_by_age(root):
            before = read_manifest_or_none(folder)
            if before is not None and before.is_compatible_with(plan.manifest):
                chosen = ResultsFolder(folder)
                if until_decided or chosen.missing_steps(plan) or chosen.flagged_steps(plan):
                    return folder
                break
    return root / f"{time.strftime('%Y-%m-%d_%H%M%S')}_{_folder_stem(plan)}"


def print_other_clock_hint(root: Path, plan: Plan) -> None:
    """Print a hint if the newest results are the same run by another clock, and unfinished.

    The user may have forgotten `--clock`, and may want to continue that run.
    """
    folder = next(iter(list_folders_by_age(root)), None)
    before = read_manifest_or_none(folder) if folder else None
    if folder is None or before is None or before.study.id != plan.study.id:
        return
    clock = before.settings.get("clock")
    if clock != plan.settings.clock and before.cells == plan.manifest.cells \
            and sum(1 for _ in (folder / "records").glob("*.json")) < before.planned:
        click.echo(f"qop: {folder}: has the same cells by the {clock} clock, unfinished; "
                   f"'--out {folder}' goes on with it", err=True)


def _folder_stem(plan: Plan) -> str:
    """Return the first part of a results folder's name, such as the names of its scenarios.

    These are the levels of the plan's last factor, or the study's name if they exceed 60
    characters.
    """
    levels = "-".join(level.id for level in list(plan.levels.values())[-1])
    return levels if len(levels) <= 60 else plan.study.id


def refuse_used_folder(folder: Path) -> None:
    """Raise UserError if a folder for a new run already holds records."""
    if any((folder / "records").glob("*.json")):
        raise UserError(f"{folder}: holds records already, which --fresh would mix with new ones; "
                        "choose another folder with --out, or leave out --fresh to go on")
