"""Read the records and the plan of a results folder, and check that they are unaltered.

A record is the JSON file of one measurement (repetition), of any study. The manifest is the plan of
a run, plan.json. `read_all` returns all usable records of a folder, and a message for each other
one. All commands read them with this module, so that errors are reported in the same words.
"""

from __future__ import annotations

from pathlib import Path

from analysis import measurements
from measure.records import manifest, record
from measure.records.manifest import Manifest, ManifestError
from measure.records.record import Record, RecordError
from studies.contract import LevelContentError, StudyError
from studies.release_factor import load_study


def read_record(path: Path) -> Record:
    """Read the record (JSON file) of a repetition, and check that tables can use it.

    Raises:
        RecordError: the file is no record, or has invalid values.
    """
    entry = read_envelope(path)
    check_record(entry, str(path))
    return entry


def read_envelope(path: Path) -> Record:
    """Read the record (JSON file) of a repetition, without a check of its measured values.

    Raises:
        RecordError: the file is no record.
    """
    try:
        text = record.read_document(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None
    entry = record.parse_record(text, str(path))
    try:
        record.check_unaltered(text, str(path))
    except RecordError:
        check_record(entry, str(path))  # an error of the body is more precise
        raise
    return entry


def check_record(entry: Record, where: str) -> None:
    """Check that the measured values of a record are valid for its study.

    Nothing is checked if the study is not installed.

    Args:
        entry: the record.
        where: its file, for error messages.

    Raises:
        RecordError: the values are not valid.
    """
    try:
        study = load_study(entry.study.id, entry.cell)
    except StudyError:
        return  # the report itself states that the study is not installed
    measurements.check_record(entry, study, where)


def read_all(folder: Path) -> tuple[list[Record], list[str]]:
    """Read all usable records of a folder, in the order of their file names.

    Returns:
        The records, and one error message per file that is not usable.
    """
    return record.read_records(folder, read_record)


def read_manifest(folder: Path) -> Manifest:
    """Read the plan of a results folder (plan.json).

    Raises:
        ManifestError: the plan is missing, invalid or altered.
    """
    text, where = manifest.read_text(folder), str(folder / manifest.FILE)
    plan = manifest.parse_manifest(text, where)
    check_manifest(plan, text, where)
    return plan


def check_manifest(plan: Manifest, text: str | bytes, where: str) -> None:
    """Check that a plan, and the policies and other levels in it, match their digests.

    Nothing is checked if the study is not installed.

    Args:
        plan: the parsed plan.
        text: the content of its file.
        where: the file, for error messages.

    Raises:
        ManifestError: a digest does not match.
    """
    try:
        study = load_study(plan.study.id, plan.levels)
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
