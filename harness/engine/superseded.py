"""Says which records of a results folder count for a plan, and puts others where they are kept.

Nothing that was measured is ever overwritten: a record that does not count moves to superseded/
with its captures and files, whatever is wrong with it.
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
    """Whether a record counts; `label` is the folder that it goes to if not, and `reason` why.

    `is_edited` where a level says something else since, which its user knows.
    """

    entry: Record | None = None
    label: str = ""
    reason: str = ""
    is_edited: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is a record of the plan as it is now, however it ended."""
        return self.entry is not None


def judge(path: Path, step: Step, plan: Plan, before: Manifest | None) -> RecordVerdict | None:
    """What is to be said of the record of a step; None where there is none.

    `before` is the folder's manifest. Without it, records say themselves what they were made for.
    """
    if not path.exists():
        return None
    try:
        entry = stored.read(path)
    except RecordError as error:
        return RecordVerdict(label=_digest(path), reason=str(error).partition("; ")[0])
    edited = _edited(step, entry, before)
    if edited:
        return RecordVerdict(label=edited[:_DIGITS], reason="a level was edited", is_edited=True)
    foreign = _foreign(step, entry, plan, before)
    if foreign:
        return RecordVerdict(label=_digest(path), reason=f"{path}: {foreign}")
    return RecordVerdict(entry)


def _digest(path: Path) -> str:
    """A name that follows from a file's content; of its name where it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        content = path.name.encode()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _foreign(step: Step, entry: Record, plan: Plan, before: Manifest | None) -> str:
    """Why a record is not the plan's, in words; "" if it is."""
    if entry.name != step.name:
        return f"holds the record {entry.name}"
    study = plan.study
    if (entry.study.id, entry.study.version) != (study.id, study.version):
        return (f"is of the study {entry.study.id}, version {entry.study.version}, not of "
                f"{study.id}, version {study.version}")
    known = {plan.digest, *(before.former_digests if before is not None else ())}
    made_for = entry.environment.get("plan")
    return "was measured for another plan" if made_for and made_for not in known else ""


def _edited(step: Step, entry: Record, before: Manifest | None) -> str:
    """The digest of a level that says something else today than when the record was made; or "".

    A record without a level's digest is of the level as the folder's manifest has it.
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
    """Move what belongs to a repetition below superseded/, beside what is there already."""
    places = [place for place in (folder / "records" / f"{name}.json", folder / "captures" / name,
                                  folder / "files" / name, folder / "events" / f"{name}.jsonl")
              if place.exists()]
    target = next(target for target in _targets(folder / FOLDER, label) if not any(
        (target / place.parent.name / place.name).exists() for place in places))
    for place in places:
        (target / place.parent.name).mkdir(parents=True, exist_ok=True)
        place.replace(target / place.parent.name / place.name)


def _targets(root: Path, label: str) -> Iterator[Path]:
    yield root / label
    number = 2
    while True:
        yield root / f"{label}-{number}"
        number += 1


def told(folder: Path, verdicts: Iterable[RecordVerdict]) -> str:
    """One line about what was put aside for another reason than an edited level; "" for nothing."""
    reasons = [verdict.reason for verdict in verdicts if not verdict.is_edited]
    if not reasons:
        return ""
    what = "1 record" if len(reasons) == 1 else f"{len(reasons)} records"
    first = "" if len(reasons) == 1 else "the first: "
    return (f"{folder}: {what} of the plan cannot be counted ({first}{reasons[0]}); moved to "
            f"{FOLDER}/, and measured again")


def beyond(plan: Plan, records: Path, steps: Mapping[str, Step]) -> Iterator[Step]:
    """Steps that a stopping rule may come to, and that have a record: none of the plan's own."""
    cells = {cell.name: cell for cell in plan.cells}
    for path in sorted(records.glob("*.json")):
        cell, _, number = path.stem.rpartition("-")
        if path.stem not in steps and cell in cells and number.isdecimal():
            yield Step(cells[cell], int(number))
