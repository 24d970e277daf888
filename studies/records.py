"""Read records and manifests of any study and schema, with the studies' upgrades.

All commands read them with this module, so that errors are reported in the same words.
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
    """Return the upgrades of records, by the schema that each reads.

    Schema 1 named no study, because there was only the default one.
    """
    return studies.load_study(studies.DEFAULT).record_upgrades


def _of_manifests() -> Mapping[int, manifest.Upgrade]:
    return studies.load_study(studies.DEFAULT).manifest_upgrades


def read_record(path: Path) -> Record:
    """Read a record that tables can use. Raises RecordError."""
    entry = read_envelope(path)
    check_record(entry, str(path))
    return entry


def read_envelope(path: Path) -> Record:
    """Read a record without a check of its body. Raises RecordError."""
    try:
        text = record.read_document(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None
    entry = parse_record(text, str(path))
    try:
        record.check_unaltered(text, str(path))
    except RecordError:
        check_record(entry, str(path))  # an error of the body is more precise
        raise
    return entry


def parse_record(text: str | bytes, where: str) -> Record:
    """Parse a record of any schema.

    The caller checks whether the record was altered and whether tables can use it.

    Args:
        text: The document.
        where: Its file, for error messages.

    Raises:
        RecordError: The text is not a record.
    """
    return record.parse_record(text, where, _of_records())


def check_record(entry: Record, where: str) -> None:
    """Check that the tables of a record's study can use the record.

    Nothing is checked if the study is not installed.

    Args:
        entry: The record.
        where: Its file, for error messages.

    Raises:
        RecordError: The body is not valid.
    """
    try:
        study = studies.load_study(entry.study.id)
    except StudyError:
        return  # the report itself states that the study is not installed
    bodies.check_record(entry, study, where)


def read_all(folder: Path) -> tuple[list[Record], list[str]]:
    """Return all usable records of a folder, and one error per other file.

    The records are in the order of their files' names.
    """
    records, complaints = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(read_record(path))
        except RecordError as error:
            complaints.append(str(error))
    return records, complaints


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a results folder.

    Raises:
        ManifestError: The manifest is missing, invalid or altered.
    """
    text, where = manifest.read_text(folder), str(folder / manifest.FILE)
    plan = parse_manifest(text, where, manifest.read_history(folder))
    check_manifest(plan, text, where)
    return plan


def parse_manifest(text: str | bytes, where: str, history: Sequence[Any] = ()) -> Manifest:
    """Parse a manifest of any schema, with the history of its folder.

    The caller checks whether the manifest was altered.

    Args:
        text: The document.
        where: Its file, for error messages.
        history: The folder's history (`measure.manifest.history`).

    Raises:
        ManifestError: The text is not a manifest.
    """
    return manifest.parse_manifest(text, where, _of_manifests(), history)


def check_manifest(plan: Manifest, text: str | bytes, where: str) -> None:
    """Check that a manifest and its levels match their digests.

    Nothing is checked if the study is not installed.

    Args:
        plan: The parsed manifest.
        text: Its document.
        where: Its file, for error messages.

    Raises:
        ManifestError: A digest does not match.
    """
    try:
        study = studies.load_study(plan.study.id)
    except StudyError:
        return  # the report itself states that the study is not installed
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
