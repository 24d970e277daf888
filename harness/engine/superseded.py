"""Decide which records of a results folder count for a plan.

Nothing that was measured is ever overwritten. A record that does not count is moved to superseded/
with its captures and files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.engine.plan import Plan, Step
from measure.manifest import Manifest
from measure.record import Record, RecordError
from studies import records as stored

FOLDER = "superseded"
_DIGITS = 12


@dataclass(frozen=True)
class RecordVerdict:
    """A decision on whether a record counts for a plan.

    If it does not, `label` is the folder that it is moved to, and `reason` the reason. `is_edited`
    is set if a level was edited since, which the user knows.
    """

    entry: Record | None = None
    label: str = ""
    reason: str = ""
    is_edited: bool = False

    @property
    def counts(self) -> bool:
        """Return whether the record belongs to the present plan, with any status."""
        return self.entry is not None


def judge_record(path: Path, step: Step, plan: Plan,
                 before: Manifest | None) -> RecordVerdict | None:
    """Decide whether the record of a step counts.

    Args:
        path: File of the record.
        step: The repetition.
        plan: The present plan.
        before: The folder's manifest. Without it, only the record's own data decide.

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
    foreign = _why_foreign(step, entry, plan, before)
    if foreign:
        return RecordVerdict(label=_digest_of(path), reason=f"{path}: {foreign}")
    return RecordVerdict(entry)


def _digest_of(path: Path) -> str:
    """Return a name derived from a file's content.

    If the file cannot be read, the name is derived from its path.
    """
    try:
        content = path.read_bytes()
    except OSError:
        content = path.name.encode()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _why_foreign(step: Step, entry: Record, plan: Plan, before: Manifest | None) -> str:
    """Return the reason why a record does not belong to the plan.

    The result is "" if it does.
    """
    if entry.name != step.name:
        return f"holds the record {entry.name}"
    study = plan.study
    if (entry.study.id, entry.study.version) != (study.id, study.version):
        return (f"is of the study {entry.study.id}, version {entry.study.version}, not of "
                f"{study.id}, version {study.version}")
    known = {plan.digest, *(before.former_digests if before is not None else ())}
    made_for = entry.environment.get("plan")
    return "was measured for another plan" if made_for and made_for not in known else ""


def _edited_digest(step: Step, entry: Record, before: Manifest | None) -> str:
    """Return the digest of a level that was edited since the record was made.

    The result is "" if none was. A record without a level's digest has the digest of that level in
    the folder's manifest.
    """
    for factor, level in step.cell.levels.items():
        then = entry.digests.get(factor)
        if then is None and before is not None:
            kept_level = before.levels.get(factor, {}).get(level.id)
            then = kept_level.digest if kept_level is not None else None
        if then and then != level.digest:
            return then
    return ""


def put_aside(folder: Path, name: str, label: str) -> None:
    """Move all files of a repetition below superseded/, next to earlier ones."""
    places = [place for place in (folder / "records" / f"{name}.json", folder / "captures" / name,
                                  folder / "files" / name, folder / "events" / f"{name}.jsonl")
              if place.exists()]
    target = next(target for target in _target_folders(folder / FOLDER, label) if not any(
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
    """Return a line about records that were moved aside.

    Records of edited levels are left out, because the user knows of them. The result is "" if no
    others were moved.
    """
    reasons = [verdict.reason for verdict in verdicts if not verdict.is_edited]
    if not reasons:
        return ""
    what = "1 record" if len(reasons) == 1 else f"{len(reasons)} records"
    first = "" if len(reasons) == 1 else "the first: "
    return (f"{folder}: {what} of the plan cannot be counted ({first}{reasons[0]}); moved to "
            f"{FOLDER}/, and measured again")


def steps_beyond_plan(plan: Plan, records: Path, steps: Mapping[str, Step]) -> Iterator[Step]:
    """Yield steps that have a record and are not in the plan.

    A stopping rule may have added them.
    """
    cells = {cell.name: cell for cell in plan.cells}
    for path in sorted(records.glob("*.json")):
        cell, _, number = path.stem.rpartition("-")
        if path.stem not in steps and cell in cells and number.isdecimal():
            yield Step(cells[cell], int(number))
