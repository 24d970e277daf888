"""A results folder: who may write to it, what is in it, and what is still to be measured."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import packing
from harness.errors import UserError
from harness.plan import Plan, Step, read_description
from harness.portable import folder_lock, seal
from measure import record
from measure.record import Record, RecordError

#: Which repetitions' captures may be kept.
CAPTURES = ("all", "failed", "none")
#: Below logs/: a log of every cell, one line a repetition.
CELLS = "cells"


class ResultsFolder:
    """One run's results. A context manager that holds the folder's lock."""

    def __init__(self, path: Path, keep_captures: str = "all") -> None:
        self.path = path
        self._keeps = keep_captures
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
        """Keep the plan here; refuse a folder that holds results of another one.

        Records of policies that have been edited since are put aside, where no table counts them.
        """
        kept = read_description(self.path)
        differs = kept is not None and kept["digest"] != plan.digest()
        if differs and any(self.records.glob("*.json")):
            raise UserError(f"{self.path}: holds results of another plan (policies, scenarios or "
                            "settings differ); choose another folder with --out")
        for step in plan.steps():
            self._put_aside_if_edited(step)
        if kept != plan.describe():
            self._write_plan(plan)

    def _write_plan(self, plan: Plan) -> None:
        seal.remove(self.path)
        temporary = self.path / ".plan.json.tmp"
        temporary.write_text(json.dumps(plan.describe(), indent=1) + "\n")
        temporary.replace(self.path / "plan.json")

    def missing(self, plan: Plan) -> list[Step]:
        """The plan's steps without a good record, in the plan's order."""
        return [step for step in plan.steps() if self._good(step) is None]

    def flagged(self, plan: Plan) -> list[Step]:
        """Steps whose record is flagged and was not yet measured again, alone."""
        found = ((step, self._good(step)) for step in plan.steps())
        return [step for step, kept in found if kept is not None
                and kept.environment.get("flags") and not kept.environment.get("alone")]

    def keeps_captures(self, found: Record) -> bool:
        """Whether a repetition's captures are wanted."""
        return self._keeps == "all" or (self._keeps == "failed" and found.status != "ok")

    def keep(self, found: Record, out: Path | None) -> None:
        """Keep a repetition's captures, if they are wanted, from where they were compressed.

        And then its record.
        """
        seal.remove(self.path)
        if out is not None and self.keeps_captures(found):
            target = self._new_captures(found)
            for capture in found.captures:
                packed = f"{capture['file']}{packing.SUFFIX}"
                (out / packed).replace(target / packed)
        record.write(found, self.records)

    def keep_received(self, found: Record, captures: Mapping[str, bytes]) -> None:
        """As `keep`, for a repetition whose captures come compressed, by file name."""
        seal.remove(self.path)
        if captures:
            target = self._new_captures(found)
            for name, content in captures.items():
                (target / Path(name).name).write_bytes(content)
        record.write(found, self.records)

    def keep_log(self, name: str, content: bytes) -> None:
        """Keep a log that comes from elsewhere, or add to it; `name` is its path below logs/."""
        path = (self.logs / name).resolve()
        if not path.is_relative_to(self.logs.resolve()):
            return
        seal.remove(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if path.parent.name == CELLS else "wb") as file:
            file.write(content)

    def keep_logs(self, cell: str, logs: Path) -> None:
        """Keep the logs of a cell's testbed; those of its last testbed stay."""
        if logs.is_dir():
            seal.remove(self.path)
            shutil.copytree(logs, self.logs / cell, dirs_exist_ok=True)

    def log(self, cell: str, line: str) -> None:
        """Add a line to a cell's own log."""
        folder = self.logs / CELLS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{cell}.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")

    def _good(self, step: Step) -> Record | None:
        """The step's record if it counts: readable, ok, and of the policy as it is now."""
        path = self.records / f"{step.name}.json"
        if not path.exists():
            return None
        try:
            found = record.read(path)
        except RecordError:
            return None
        is_good = found.status == "ok" and _policy_of(found) == step.cell.policy.digest()
        return found if is_good else None

    def _put_aside_if_edited(self, step: Step) -> None:
        path = self.records / f"{step.name}.json"
        if not path.exists():
            return
        try:
            of = _policy_of(record.read(path))
        except RecordError:
            return
        if of != step.cell.policy.digest():
            seal.remove(self.path)
            target = self.path / "superseded" / str(of)[:12]
            for place in (path, self.captures / step.name):
                if place.exists():
                    (target / place.parent.name).mkdir(parents=True, exist_ok=True)
                    shutil.rmtree(target / place.parent.name / place.name, ignore_errors=True)
                    place.replace(target / place.parent.name / place.name)

    def _new_captures(self, found: Record) -> Path:
        target = self.captures / found.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        return target

    def _clear_work(self) -> None:
        """Rendered files and guests' folders are of use only while their run lasts."""
        shutil.rmtree(self.work, ignore_errors=True)


def _policy_of(found: Record) -> object:
    return found.environment.get("policy_sha256")


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
                there = ResultsFolder(folder)
                if there.missing(plan) or there.flagged(plan):
                    return folder
                break
    scenarios = "-".join(scenario.id for scenario in plan.scenarios)
    stem = f"{time.strftime('%Y-%m-%d_%H%M%S')}_{scenarios}"
    return root / stem


def refuse_used(folder: Path) -> None:
    """Raise UserError if a folder that is to be begun afresh holds records."""
    if any((folder / "records").glob("*.json")):
        raise UserError(f"{folder}: holds records already, which --fresh would mix with new ones; "
                        "choose another folder with --out, or leave out --fresh to go on")


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
    flagged = [found.name for found in records if found.environment.get("flags")]
    return {"planned": planned, "ok": good, "flagged": flagged, "failed": failed,
            "complaints": complaints, "missing": planned - good - len(failed),
            "running": folder_lock.is_taken(folder)}
