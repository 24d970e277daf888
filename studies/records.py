"""Read records and manifests of any study and any schema, with the upgrades that studies know.

Every command reads them here, so that what one of them cannot use is said alike by all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import studies
from analysis import bodies
from measure import manifest, record
from measure.manifest import Manifest, ManifestError
from measure.record import Record, RecordError
from studies.parts import LevelContentError, StudyError


def _of_records() -> Mapping[int, record.Upgrade]:
    """By the schema that each reads. Schema 1 named no study: all it knew was the default one."""
    return studies.load(studies.DEFAULT).record_upgrades


def _of_manifests() -> Mapping[int, manifest.Upgrade]:
    return studies.load(studies.DEFAULT).manifest_upgrades


def read(path: Path) -> Record:
    """Read a record that tables can use; raises RecordError for anything else."""
    entry = read_envelope(path)
    check(entry, str(path))
    return entry


def read_envelope(path: Path) -> Record:
    """Read a record of whatever body, for who checks that, too; raises RecordError."""
    try:
        text = record.read_document(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None
    entry = parse(text, str(path))
    try:
        record.check_unaltered(text, str(path))
    except RecordError:
        check(entry, str(path))  # what no table can use says more
        raise
    return entry


def parse(text: str | bytes, where: str) -> Record:
    """The record that a text is; raises RecordError, which names `where` it stands.

    Whether it was altered, and whether tables can use it, is for the caller to ask.
    """
    return record.parse_record(text, where, _of_records())


def check(entry: Record, where: str) -> None:
    """Raise RecordError where no table of its study can use a record; `where` is its file."""
    try:
        study = studies.load(entry.study.id)
    except StudyError:
        return  # who reports on it says that the study is not installed
    bodies.check_record(entry, study, where)


def read_all(folder: Path) -> tuple[list[Record], list[str]]:
    """Every usable record of a folder in order of name, and a line for each other file."""
    records, complaints = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(read(path))
        except RecordError as error:
            complaints.append(str(error))
    return records, complaints


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a results folder; raises ManifestError, too, where it was altered."""
    text, where = manifest.read_text(folder), str(folder / manifest.FILE)
    plan = parse_manifest(text, where, manifest.read_history(folder))
    check_manifest(plan, text, where)
    return plan


def parse_manifest(text: str | bytes, where: str, history: Sequence[Any] = ()) -> Manifest:
    """The manifest that a text is, with what its folder was made with; raises ManifestError.

    Whether it was altered is for the caller to ask.
    """
    return manifest.parse_manifest(text, where, _of_manifests(), history)


def check_manifest(plan: Manifest, text: str | bytes, where: str) -> None:
    """Raise ManifestError where a manifest, or a level of it, is not what its digest says."""
    try:
        study = studies.load(plan.study.id)
    except StudyError:
        return  # who reports on it says that the study is not installed
    manifest.check_unaltered(plan, text, where)
    for factor in study.factors:
        for name, entry in plan.levels.get(factor.name, {}).items():
            if not entry.digest or not entry.content:
                continue
            try:
                study.level(factor, name, entry)
            except LevelContentError as error:
                raise ManifestError(f"{where}: {error}; it was altered, restore what was "
                                    "written") from None
            except Exception:  # noqa: BLE001, S112 - of another version: who judges anew says so
                continue
