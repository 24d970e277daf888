"""Judge stored records again: dissect their captures again and compare every number.

A record is judged by its study's own judge, using only files of the results folder. Policies of
the checkout, files of the user and guests are not used.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import math
import os
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import studies
from harness.engine.dissectors import DissectorLost, Dissectors
from harness.engine.packing import PACKED_RAW, RAW, SUFFIX
from harness.engine.recording import list_unchecked
from harness.portable.checksums import digest_of
from harness.portable.contents import is_safe, repetition_of
from harness.portable.survey import Survey, record_path
from measure.errors import MeasureError
from measure.manifest import Manifest
from measure.record import CheckRecord, Record
from studies import required
from studies.study import Cell, Judged, Repetition, Study, StudyError
from studies.validating import describe_exception

#: Relative tolerance: sums of the same numbers may differ in the last digit between Python
#: versions.
_ROUNDING = 1e-12
#: Largest number of differences of one record that are listed.
_MAX_DIFFERENCES = 20
#: Largest size of an unpacked file of a repetition in bytes; protects against gzip bombs.
_MAX_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20
#: Reason for records that have a finding of their own already.
DAMAGED = "one of its files is damaged"
_NO_CAPTURES = "its captures were left out or removed by choice"
#: Fields of a record that are compared; the others are about how it was measured.
_COMPARED = ("status", "reason", "measured", "evidence", "captures", "elapsed_s", "raw")


class NotRedoneError(Exception):
    """A record cannot be judged again. The text is the reason, without the record's name.

    `is_excused` is true if this is the choice of a user or of the study. It is false for a record
    that says ok without its evidence.
    """

    def __init__(self, reason: str, *, is_excused: bool = False) -> None:
        super().__init__(reason)
        self.is_excused = is_excused


class DamagedFileError(Exception):
    """A file that a record was judged by cannot be read any more. The text names it."""


@dataclass(frozen=True)
class Redone:
    """The result for one record: its differences, or why it was not judged again."""

    name: str
    differences: Sequence[str] = ()
    not_redone: str = ""

    @property
    def kept_no_captures(self) -> bool:
        """Return whether it was not judged because its captures are absent by choice."""
        return self.not_redone == _NO_CAPTURES


def redo_records(folder: Path, survey: Survey) -> list[Redone]:
    """Judge every record of a folder again, in parallel. Return results in order of name."""
    async def all_of_them() -> list[Redone]:
        dissectors = Dissectors(os.cpu_count() or 1)
        try:
            return list(await asyncio.gather(*(
                judge_anew(dissectors, name) for name in sorted(survey.records))))
        finally:
            dissectors.close()

    async def judge_anew(dissectors: Dissectors, name: str) -> Redone:
        if survey.plan is None:
            return Redone(name, not_redone="nobody knows what its levels say without a plan.json")
        if any(repetition_of(path) == name for path in survey.broken):
            return Redone(name, not_redone=DAMAGED)
        removed = survey.pruned.without_outdated(survey.record_digests()).captures.get(name)
        try:
            return await dissectors.run_task(functools.partial(
                redo_record, folder, survey.plan, name, survey.records[name],
                removed.files if removed else ()))
        except DissectorLost as loss:
            return Redone(name, [f"{record_path(name)}: cannot be judged anew: {loss}"])

    return asyncio.run(all_of_them())


def redo_record(folder: Path, plan: Manifest, name: str, record: Record,
                removed: Collection[str] = ()) -> Redone:
    """Judge one record again.

    Args:
        folder: The results folder.
        plan: The folder's plan.
        name: Name of the record's file, without suffix.
        record: The record.
        removed: File names of its captures that are absent by choice.
    """
    try:
        study = _load_study(record)
        with tempfile.TemporaryDirectory(prefix="qop-redo-") as unpacked:
            altered = list(_unpack_inputs(folder, name, record, Path(unpacked), removed))
            differences = [*altered, *_compare_judgement(study, plan, record, Path(unpacked))]
    except DamagedFileError as damage:
        return Redone(name, [f"{record_path(name)}: {damage}"])
    except NotRedoneError as reason:
        if reason.is_excused or record.status != "ok":
            return Redone(name, not_redone=str(reason))
        return Redone(name, [f"{record_path(name)}: says ok, and cannot be judged anew: {reason}"])
    return Redone(name, list(_limit_differences(name, differences)))


def _limit_differences(name: str, differences: Sequence[str]) -> Iterator[str]:
    for difference in differences[:_MAX_DIFFERENCES]:
        yield f"{record_path(name)}: {difference}"
    if len(differences) > _MAX_DIFFERENCES:
        yield f"{record_path(name)}: and {len(differences) - _MAX_DIFFERENCES} more differences"


def _load_study(record: Record) -> Study:
    """Load the study that measured, if its version can judge what was kept.

    Raises:
        NotRedoneError: The study is missing, has another version, or cannot judge records again.
    """
    try:
        study = studies.load_study(record.study.id)
    except StudyError as error:
        raise NotRedoneError(str(error), is_excused=True) from None
    if study.version != record.study.version:
        raise NotRedoneError(f"is of version {record.study.version} of {study.id}, which is of "
                             f"version {study.version} here", is_excused=True)
    if study.not_redone:
        raise NotRedoneError(study.not_redone, is_excused=True)
    if PACKED_RAW not in record.files:
        raise NotRedoneError("came to no judgement" if not record.evidence and not record.captures
                             else f"was measured before {PACKED_RAW} was kept")
    return study


def _unpack_inputs(folder: Path, name: str, record: Record, target: Path,
                   removed: Collection[str]) -> Iterator[str]:
    """Unpack the judge's input files. Yield a line for each whose checksum differs."""
    places = {RAW: folder / "files" / name / PACKED_RAW}
    places |= {file: folder / "files" / name / file for file in record.files if file != PACKED_RAW}
    for capture in record.captures:
        file = str(capture.get("file", ""))
        places[file] = folder / "captures" / name / f"{file}{SUFFIX}"
    for file, place in places.items():
        if "/" in file or not is_safe(file) or not is_safe(place.name):
            raise NotRedoneError(f"names a file that cannot be one ({file!r})")
        _excuse_missing(folder, place, record, removed)
        if not place.is_file() or place.resolve() != folder.resolve() / place.relative_to(folder):
            raise NotRedoneError(f"needs {place.relative_to(folder)}, which is not there")
        _unpack_file(place, target / file, str(place.relative_to(folder)))
        if digest_of(target / file) != record.sha256.get(file):
            yield f"{place.relative_to(folder)} is not what was judged, by its SHA-256"


def _excuse_missing(folder: Path, place: Path, record: Record, removed: Collection[str]) -> None:
    """Raise NotRedoneError for a capture that was not kept, or was removed by choice."""
    if place.is_relative_to(folder / "captures") and not place.exists() and (
            not record.keeps_captures or place.name in removed):
        raise NotRedoneError(_NO_CAPTURES, is_excused=True)


def _unpack_file(place: Path, unpacked: Path, label: str) -> None:
    """Unpack a file, or copy an uncompressed one.

    Raises:
        DamagedFileError: The file cannot be read.
        NotRedoneError: The unpacked file is too large.
    """
    is_packed = place.name == f"{unpacked.name}{SUFFIX}"
    if is_packed and not place.stat().st_size:
        raise DamagedFileError(f"{label} is empty; it is damaged")
    try:
        with (gzip.open(place) if is_packed else place.open("rb")) as source, \
                unpacked.open("wb") as sink:
            for piece in iter(functools.partial(source.read, _PIECE_BYTES), b""):
                if sink.tell() > _MAX_BYTES:
                    raise NotRedoneError(f"{label} unpacks to more than {_MAX_BYTES >> 30} GB")
                sink.write(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFileError(
            f"{label} cannot be read ({describe_exception(error)}); it is damaged") from None


def _compare_judgement(study: Study, plan: Manifest, record: Record, out: Path) -> Iterator[str]:
    """Yield the differences between the record and its study's judgement of the unpacked files."""
    try:
        cell = Cell({factor.name: study.level(factor, record.cell[factor.name],
                                              plan.levels[factor.name][record.cell[factor.name]])
                     for factor in study.factors})
        asked = study.asked.model_validate_json(json.dumps(record.asked))
    except (StudyError, KeyError, ValueError) as error:
        raise NotRedoneError(
            f"of its cell too little is kept ({describe_exception(error)})") from None
    secrets: dict[str, dict[str, str]] = {}
    for path, value in record.secrets.items():
        place, _, secret = path.partition(".")
        secrets.setdefault(place, {})[secret] = value
    try:
        verdict = required.judge_repetition(study, Repetition(
            cell, asked, out, secrets, record.environment.get("clock"),
            record.environment.get("fault") or ""))
    except Exception as error:  # noqa: BLE001 - a study's own judge may raise anything
        what = error.reason if isinstance(error, MeasureError) else describe_exception(error)
        yield f"cannot be judged from what is kept: {what.replace(f'{out}/', '')}"
        return
    anew, then = _judgement_to_document(verdict), record.model_dump(mode="json", by_alias=True)
    for field in _COMPARED:
        yield from find_differences(then[field], anew[field], field)
    if record.unchecked is not None:
        yield from find_differences(
            record.unchecked, list_unchecked(cell, verdict.evidence), "unchecked")


def _judgement_to_document(verdict: Judged) -> dict[str, Any]:
    """Return a judgement as the fields of a record."""
    measured = verdict.measured
    document = {
        "status": verdict.status if verdict.status != "ok" or not verdict.reason else "failed",
        "reason": verdict.reason, "captures": list(verdict.captures),
        "measured": measured and measured.model_dump(mode="json", by_alias=True),
        "evidence": [CheckRecord.model_dump(check) for check in verdict.evidence],
        "elapsed_s": verdict.elapsed_s, "raw": dict(verdict.raw)}
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def find_differences(recorded: Any, recomputed: Any, where: str) -> Iterator[str]:
    """Yield a line for each value of a record that differs now. Numbers may differ by rounding."""
    for place, old, new in find_differing(recorded, recomputed, where):
        yield f"{place} is {_format_value(old)}, and {_format_value(new)} by what is kept"


def find_differing(recorded: Any, recomputed: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each place in which two documents differ, with both values."""
    if isinstance(recorded, Mapping) and isinstance(recomputed, Mapping):
        for key in dict.fromkeys((*recorded, *recomputed)):
            yield from find_differing(recorded.get(key), recomputed.get(key),
                                      f"{where}.{key}" if where else str(key))
    elif isinstance(recorded, list) and isinstance(recomputed,
                                                   list) and len(recorded) == len(recomputed):
        for number, (old, new) in enumerate(zip(recorded, recomputed, strict=True)):
            yield from find_differing(old, new, f"{where}[{_entry_name(old, number)}]")
    elif not _is_equal(recorded, recomputed):
        yield where, recorded, recomputed


def _entry_name(entry: Any, number: int) -> str:
    """Return the name of a list's entry, or its number.

    Checks, phases and captures have names.
    """
    names = (entry.get(key) for key in ("check", "name", "file")) \
        if isinstance(entry, Mapping) else ()
    return next((name for name in names if isinstance(name, str)), str(number))


def _is_equal(recorded: Any, recomputed: Any) -> bool:
    if isinstance(recorded, bool) or isinstance(recomputed, bool):
        return recorded is recomputed
    if isinstance(recorded, float) or isinstance(recomputed, float):
        return isinstance(recorded, int | float) and isinstance(recomputed,
                                                                int | float) and math.isclose(
            recorded, recomputed, rel_tol=_ROUNDING)
    return bool(recorded == recomputed)


def _format_value(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
