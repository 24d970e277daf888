"""A results folder: who may write to it, what is in it, and what is still to be measured."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.plan import Plan, Step, read_description
from measure import record
from measure.record import Record, RecordError


class ResultsFolder:
    """One run's results. A context manager that holds the folder's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = path / "records"
        self.captures = path / "captures"
        self.logs = path / "logs"
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

    def adopt(self, plan: Plan) -> None:
        """Keep the plan here; refuse a folder that holds results of another one."""
        kept = read_description(self.path)
        differs = kept is not None and kept["digest"] != plan.digest()
        if differs and any(self.records.glob("*.json")):
            raise UserError(f"{self.path}: holds results of another plan (policies, scenarios or "
                            "settings differ); choose another folder with --out")
        temporary = self.path / ".plan.json.tmp"
        temporary.write_text(json.dumps(plan.describe(), indent=1) + "\n")
        temporary.replace(self.path / "plan.json")

    def missing(self, plan: Plan) -> list[Step]:
        """The plan's steps without a good record, in the plan's order."""
        return [step for step in plan.steps() if not self._is_done(step)]

    def keep(self, found: Record, out: Path | None) -> None:
        """Keep a repetition's captures, compressed, and then its record."""
        if out is not None:
            self._keep_captures(found, out)
        record.write(found, self.records)

    def keep_logs(self, cell: str, logs: Path) -> None:
        """Keep the logs of a cell's testbed; those of its last testbed stay."""
        if logs.is_dir():
            shutil.copytree(logs, self.logs / cell, dirs_exist_ok=True)

    def _is_done(self, step: Step) -> bool:
        path = self.records / f"{step.name}.json"
        if not path.exists():
            return False
        try:
            found = record.read(path)
        except RecordError:
            return False
        return (found.status == "ok"
                and found.environment.get("policy_sha256") == step.cell.policy.digest())

    def _keep_captures(self, found: Record, out: Path) -> None:
        target = self.captures / found.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for capture in found.captures:
            with (out / capture["file"]).open("rb") as source, \
                    gzip.open(target / f"{capture['file']}.gz", "wb", compresslevel=1) as packed:
                shutil.copyfileobj(source, packed)

    def _clear_work(self) -> None:
        """Rendered files and guests' folders are of use only while their run lasts."""
        shutil.rmtree(self.work, ignore_errors=True)


def choose(out: Path | None, root: Path, plan: Plan, *, fresh: bool) -> Path:
    """The results folder for a plan: the one asked for, an unfinished one of this plan, or a new.

    `root` is where folders are made when none is asked for.
    """
    if out is not None:
        return out
    if not fresh:
        for folder in sorted(root.glob("*"), reverse=True):
            kept = read_description(folder)
            if kept is not None and kept["digest"] == plan.digest():
                if ResultsFolder(folder).missing(plan):
                    return folder
                break
    scenarios = "-".join(scenario.id for scenario in plan.scenarios)
    stem = f"{time.strftime('%Y-%m-%d_%H%M%S')}_{scenarios}"
    return root / stem


def latest(root: Path) -> Path:
    """The newest results folder; raises UserError when there is none."""
    folders = [folder for folder in sorted(root.glob("*"), reverse=True)
               if read_description(folder) is not None]
    if not folders:
        raise UserError(f"{root}: no results yet; measure some with './qop run'")
    return folders[0]


def progress_of(folder: Path) -> dict[str, Any]:
    """Counts for `./qop status`: planned, ok, failed, missing, and whether a run is writing."""
    kept = read_description(folder)
    if kept is None:
        raise UserError(f"{folder}: holds no plan.json of a run; give a results folder")
    records, complaints = record.read_all(folder / "records")
    repetitions = kept["settings"]["repetitions"]
    planned = len(kept["policies"]) * len(kept["scenarios"]) * repetitions
    good = sum(found.status == "ok" for found in records)
    failed = [found for found in records if found.status != "ok"]
    return {"planned": planned, "ok": good, "failed": failed, "complaints": complaints,
            "missing": planned - good - len(failed), "running": _is_locked(folder)}


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / ".lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
