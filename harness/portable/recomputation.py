"""Compute stored results again from their captures, and compare (`./qop verify --redo`).

`recompute_records` takes a results folder. For each record (the JSON file of one measurement)
tshark dissects the captures again, and the study's own code computes all values and checks.
`compare_plan` computes the stored plan again from its policies, scenarios and study. Both return
each difference as a line. Only files of the results folder are used: no policies of the checkout,
no files of the user and no guests.
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
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from harness.engine.plan import Plan, RunSettings, factor_record, level_record
from harness.engine.postprocessing import PACKED_RAW, SUFFIX, DissectorLost, DissectorPool
from harness.engine.provenance import hash_code
from harness.engine.recording import list_unchecked
from harness.portable import checksums
from harness.portable.checksums import hash_file
from harness.portable.folder import find_repetition_name, is_safe_path
from harness.portable.integrity import FolderSurvey, find_record_path
from measure.agent.errors import MeasureError
from measure.records.document import DIGEST_FIELD
from measure.records.manifest import FILE, LevelRecord, Manifest
from measure.records.record import CheckRecord, Record
from policies import PolicyError
from studies import release_factor
from studies import study as studies_study
from studies.study import (
    RAW_FILE,
    Cell,
    Factor,
    Judgement,
    Level,
    Repetition,
    Study,
    StudyError,
)
from studies.validation import describe_exception
from topologies.checks import TopologyError

# --- Records ---

#: Relative tolerance: sums of the same numbers may differ in the last digit between Python
#: versions.
_ROUNDING = 1e-12
#: Largest number of differences of one record that are listed.
_MAX_RECORD_DIFFERENCES = 20
#: Largest size of an unpacked file of a repetition in bytes; protects against gzip bombs.
_MAX_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20
#: Reason for records that have a finding of their own already.
DAMAGED_FILE = "one of its files is damaged"
_NO_CAPTURES = "its captures were left out or removed by choice"
#: Fields of a record that are compared; the others are about how it was measured.
_COMPARED = ("status", "reason", "measured", "evidence", "captures", "elapsed_s", "raw")


class NotRecomputedError(Exception):
    """An error: the values of a record cannot be computed again.

    The text of the error is the reason. `is_excused` is true if the reason is a choice of the user
    or of the study, such as captures that were not kept. It is false for a record that says ok
    without its evidence.
    """

    def __init__(self, reason: str, *, is_excused: bool = False) -> None:
        super().__init__(reason)
        self.is_excused = is_excused


class DamagedFileError(Exception):
    """An error: a file from which a record was computed cannot be read. The text names it."""


@dataclass(frozen=True)
class RecordRecomputation:
    """The result of computing a record again: its differences, or why it was not possible.

    `newer` has a line for each check that the study has gained since the record was written, and
    that holds. It is no difference: the record's numbers stay comparable.
    """

    name: str
    differences: Sequence[str] = ()
    not_redone: str = ""
    newer: Sequence[str] = ()

    @property
    def kept_no_captures(self) -> bool:
        """Return whether a record was not computed because its captures were not kept.

        This was the user's choice, so it is no problem.
        """
        return self.not_redone == _NO_CAPTURES


def recompute_records(folder: Path, survey: FolderSurvey) -> list[RecordRecomputation]:
    """Compute every record of a folder again, in parallel. Results are in order of name."""
    async def all_of_them() -> list[RecordRecomputation]:
        dissectors = DissectorPool(os.cpu_count() or 1)
        try:
            return list(await asyncio.gather(*(
                judge_anew(dissectors, name) for name in sorted(survey.records))))
        finally:
            dissectors.close()

    async def judge_anew(dissectors: DissectorPool, name: str) -> RecordRecomputation:
        if survey.plan is None:
            return RecordRecomputation(
                name, not_redone="nobody knows what its levels say without a plan.json")
        if any(find_repetition_name(path) == name for path in survey.broken):
            return RecordRecomputation(name, not_redone=DAMAGED_FILE)
        removed = survey.pruned.without_outdated(survey.record_digests()).captures.get(name)
        try:
            return await dissectors.run_task(functools.partial(
                recompute_record, folder, survey.plan, name, survey.records[name],
                removed.files if removed else ()))
        except DissectorLost as loss:
            return RecordRecomputation(name,
                                       [f"{find_record_path(name)}: cannot be judged anew: {loss}"])

    return asyncio.run(all_of_them())


def recompute_record(folder: Path, plan: Manifest, name: str, record: Record,
                     removed: Collection[str] = ()) -> RecordRecomputation:
    """Compute one record again from its captures, and return the differences.

    Args:
        folder: The results folder.
        plan: The folder's plan.
        name: Name of the record's file, without suffix.
        record: The record.
        removed: File names of its captures and raw data that are absent by choice.
    """
    try:
        study = _load_study(record)
        with tempfile.TemporaryDirectory(prefix="qop-redo-") as unpacked:
            altered = list(_unpack_inputs(folder, name, record, Path(unpacked), removed))
            cell, verdict = _judge_again(study, plan, record, Path(unpacked))
        newer = [] if isinstance(verdict, str) else list(_find_newer(record, cell, verdict))
        differences = [*altered, *([verdict] if isinstance(verdict, str) else
                                   _compare_judgement(record, cell, verdict))]
    except DamagedFileError as damage:
        return RecordRecomputation(name, [f"{find_record_path(name)}: {damage}"])
    except NotRecomputedError as reason:
        if reason.is_excused or record.status != "ok":
            return RecordRecomputation(name, not_redone=str(reason))
        return RecordRecomputation(
            name, [f"{find_record_path(name)}: says ok, and cannot be judged anew: {reason}"])
    return RecordRecomputation(name, list(_limit_differences(name, differences)), newer=newer)


def _limit_differences(name: str, differences: Sequence[str]) -> Iterator[str]:
    for difference in differences[:_MAX_RECORD_DIFFERENCES]:
        yield f"{find_record_path(name)}: {difference}"
    if len(differences) > _MAX_RECORD_DIFFERENCES:
        more = len(differences) - _MAX_RECORD_DIFFERENCES
        yield f"{find_record_path(name)}: and {more} more differences"


def _load_study(record: Record) -> Study:
    """Load the study of a record, if its version can compute the record again.

    Raises:
        NotRecomputedError: The study is missing, has another version, or cannot judge records
            again.
    """
    try:
        study = release_factor.load_study(record.study.id, record.cell)
    except StudyError as error:
        raise NotRecomputedError(str(error), is_excused=True) from None
    if study.version != record.study.version:
        raise NotRecomputedError(f"is of version {record.study.version} of {study.id}, which is of "
                                 f"version {study.version} here", is_excused=True)
    if study.not_redone:
        raise NotRecomputedError(study.not_redone, is_excused=True)
    if PACKED_RAW not in record.files:
        raise NotRecomputedError("came to no judgement" if not record.evidence
                                 and not record.captures
                                 else f"was measured before {PACKED_RAW} was kept")
    return study


def _unpack_inputs(folder: Path, name: str, record: Record, target: Path,
                   removed: Collection[str]) -> Iterator[str]:
    """Unpack the captures and files of a record. Yield a line for each wrong checksum."""
    places = {RAW_FILE: folder / "files" / name / PACKED_RAW}
    places |= {file: folder / "files" / name / file for file in record.files if file != PACKED_RAW}
    for capture in record.captures:
        file = str(capture.get("file", ""))
        places[file] = folder / "captures" / name / f"{file}{SUFFIX}"
    for file, place in places.items():
        if "/" in file or not is_safe_path(file) or not is_safe_path(place.name):
            raise NotRecomputedError(f"names a file that cannot be one ({file!r})")
        _excuse_missing(folder, place, record, removed)
        if not place.is_file() or place.resolve() != folder.resolve() / place.relative_to(folder):
            raise NotRecomputedError(f"needs {place.relative_to(folder)}, which is not there")
        _unpack_file(place, target / file, str(place.relative_to(folder)))
        if hash_file(target / file) != record.sha256.get(file):
            yield f"{place.relative_to(folder)} is not what was judged, by its SHA-256"


def _excuse_missing(folder: Path, place: Path, record: Record, removed: Collection[str]) -> None:
    """Raise NotRecomputedError for a file that was not kept or was deleted on request."""
    if not place.exists() and (place.name in removed or (
            place.is_relative_to(folder / "captures") and not record.keeps_captures)):
        raise NotRecomputedError(_NO_CAPTURES, is_excused=True)


def _unpack_file(place: Path, unpacked: Path, label: str) -> None:
    """Unpack a compressed file, or copy an uncompressed one.

    Raises:
        DamagedFileError: The file cannot be read.
        NotRecomputedError: The unpacked file is too large.
    """
    is_packed = place.name == f"{unpacked.name}{SUFFIX}"
    if is_packed and not place.stat().st_size:
        raise DamagedFileError(f"{label} is empty; it is damaged")
    try:
        with (gzip.open(place) if is_packed else place.open("rb")) as source, \
                unpacked.open("wb") as sink:
            for piece in iter(functools.partial(source.read, _PIECE_BYTES), b""):
                if sink.tell() > _MAX_BYTES:
                    raise NotRecomputedError(f"{label} unpacks to more than {_MAX_BYTES >> 30} GB")
                sink.write(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFileError(
            f"{label} cannot be read ({describe_exception(error)}); it is damaged") from None


def _judge_again(study: Study, plan: Manifest, record: Record,
                 out: Path) -> tuple[Cell, Judgement | str]:
    """Compute a record's values and checks again from its files, with the study's judge.

    Returns:
        The record's cell, and the judgement, or a line with the reason if the judge fails.

    Raises:
        NotRecomputedError: Too little of the cell is kept.
    """
    try:
        cell = Cell({factor.name: study.level(factor, record.cell[factor.name],
                                              plan.levels[factor.name][record.cell[factor.name]])
                     for factor in study.factors})
        settings = study.settings_type.model_validate_json(json.dumps(record.asked))
    except (StudyError, KeyError, ValueError) as error:
        raise NotRecomputedError(
            f"of its cell too little is kept ({describe_exception(error)})") from None
    secrets: dict[str, dict[str, str]] = {}
    for path, value in record.secrets.items():
        place, _, secret = path.partition(".")
        secrets.setdefault(place, {})[secret] = value
    try:
        return cell, studies_study.judge_repetition(study, Repetition(
            cell, settings, out, secrets, record.environment.get("clock"),
            record.environment.get("fault") or ""))
    except Exception as error:  # noqa: BLE001 - a study's own judge may raise anything
        what = error.reason if isinstance(error, MeasureError) else describe_exception(error)
        return cell, f"cannot be judged from what is kept: {what.replace(f'{out}/', '')}"


def _is_of_other_code(record: Record) -> bool:
    """Return whether other code than this wrote the record, so that it may lack checks.

    Such a study keeps its version as long as results stay comparable (`Study.version`). A record
    that lacks a check of the very code that wrote it was altered.
    """
    return record.environment.get("code_sha256") != hash_code(record.study.id)


def _list_newer_checks(record: Record, verdict: Judgement) -> list[CheckRecord]:
    """Return the checks that a record's study has gained since the record was written."""
    known = {check.check for check in record.evidence}
    return [check for check in verdict.evidence if check.check not in known] \
        if known and _is_of_other_code(record) else []


def _find_newer(record: Record, cell: Cell, verdict: Judgement) -> Iterator[str]:
    """Yield a line for each check and each unproven setting that is newer than a record."""
    for check in _list_newer_checks(record, verdict):
        if check.ok:
            yield f"the check {check.check!r} is newer than the record, and holds"
    if record.unchecked is not None and _is_of_other_code(record):
        now = list_unchecked(cell, verdict.evidence, verdict.not_made)
        for path in [path for path in now if path not in record.unchecked]:
            yield f"is older than the rule that names {path} as unproven"


def _compare_judgement(record: Record, cell: Cell, verdict: Judgement) -> Iterator[str]:
    """Yield the differences between a record and what its study computes from the files now."""
    newer = _list_newer_checks(record, verdict)
    for check in newer:
        if not check.ok:
            yield (f"the check {check.check!r} is newer than the record, and does not hold by what "
                   f"is kept ({check.detail})")
    recomputed = _judgement_to_document(
        replace(verdict, evidence=[check for check in verdict.evidence if check not in newer]))
    stored = record.model_dump(mode="json", by_alias=True)
    for field in _COMPARED:
        yield from find_differences(stored[field], recomputed[field], field)
    if record.unchecked is not None and not newer:  # newer checks prove other settings
        now = list_unchecked(cell, verdict.evidence, verdict.not_made)
        if _is_of_other_code(record):  # newer rules name other settings
            now = [path for path in record.unchecked if path in now]
        yield from find_differences(record.unchecked, now, "unchecked")


def _judgement_to_document(verdict: Judgement) -> dict[str, Any]:
    """Return a study's judgement of a repetition in the form of a record's fields."""
    measured = verdict.measured
    document = {
        "status": verdict.status, "reason": verdict.reason, "captures": list(verdict.captures),
        "measured": measured and measured.model_dump(mode="json", by_alias=True),
        "evidence": [CheckRecord.model_dump(check) for check in verdict.evidence],
        "elapsed_s": verdict.elapsed_s, "raw": dict(verdict.raw)}
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def find_differences(recorded: Any, recomputed: Any, where: str) -> Iterator[str]:
    """Yield a line for each value of a record that differs from the newly computed one.

    Differences by rounding are ignored.
    """
    for place, old, new in find_differing_values(recorded, recomputed, where):
        yield f"{place} is {_format_value(old)}, and {_format_value(new)} by what is kept"


def find_differing_values(recorded: Any, recomputed: Any,
                          where: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each place in which two JSON documents differ, with its recorded and new value."""
    if isinstance(recorded, Mapping) and isinstance(recomputed, Mapping):
        for key in dict.fromkeys((*recorded, *recomputed)):
            yield from find_differing_values(recorded.get(key), recomputed.get(key),
                                             f"{where}.{key}" if where else str(key))
    elif isinstance(recorded, list) and isinstance(recomputed,
                                                   list) and len(recorded) == len(recomputed):
        for number, (old, new) in enumerate(zip(recorded, recomputed, strict=True)):
            yield from find_differing_values(old, new, f"{where}[{_entry_name(old, number)}]")
    elif not _is_equal(recorded, recomputed):
        yield where, recorded, recomputed


def _entry_name(entry: Any, number: int) -> str:
    """Return the name of an entry in a list of a record, or its number if it has no name.

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


# --- Plan ---
# A plan's digest shows that the file is as it was written, but an editor of a plan can write a new
# digest. The comparison finds content that does not follow from its levels and the study's code.

#: Fields that are not compared: they are about the file.
_NOT_COMPARED = ("schema", DIGEST_FIELD)
#: Largest number of differences that are listed.
_MAX_PLAN_DIFFERENCES = 20


@dataclass(frozen=True)
class PlanRecomputation:
    """The result of computing a plan again: differences, and why parts were not computed."""

    differences: tuple[str, ...] = ()
    not_redone: str = ""


def compare_plan(plan: Manifest) -> PlanRecomputation:
    """Compare each text and number of a stored plan with what its study computes."""
    try:
        study = release_factor.load_study(plan.study.id, plan.levels)
    except StudyError as error:
        return PlanRecomputation(not_redone=str(error))
    if study.version != plan.study.version:
        return PlanRecomputation(
            not_redone=f"is of version {plan.study.version} of {study.id}, which is "
                                 f"of version {study.version} here")
    recomputed, reason = _recompute_plan(study, plan)
    then = {name: value for name, value in plan.model_dump(mode="json", by_alias=True).items()
            if name in recomputed}
    found = [f"{FILE}: {line}" for line in (*find_differences(then, recomputed, ""),
                                            *checksums.find_changed_texts(study, plan))]
    more = len(found) - _MAX_PLAN_DIFFERENCES
    return PlanRecomputation((*found[:_MAX_PLAN_DIFFERENCES],
                              *([f"{FILE}: and {more} more differences"] if more > 0 else [])),
                             reason)


def _recompute_plan(study: Study, plan: Manifest) -> tuple[dict[str, Any], str]:
    """Compute those fields of a plan that follow from its levels, such as policies.

    Returns:
        The computed fields by name, and why some are missing ("" if none).
    """
    recomputed: dict[str, Any] = {"factors": [factor_record(factor).model_dump()
                                              for factor in study.factors]}
    try:
        levels = {factor.name: [_read_level(study, factor, name, entry) for name, entry
                                in plan.levels.get(factor.name, {}).items()]
                  for factor in study.factors}
        recomputed["levels"] = {
            name: {level.id: level_record(level).model_dump(mode="json") for level in of_factor}
            for name, of_factor in levels.items()}
        known = {field.name for field in fields(RunSettings)}
        settings = RunSettings(**{name: value for name, value in plan.settings.items()
                                  if name in known})
        workload_settings = study.settings_type.model_validate_json(json.dumps(plan.asked))
        whole = Plan(study, levels, workload_settings, settings, plan.baseline).manifest.model_dump(
            mode="json", by_alias=True)
    except (StudyError, PolicyError, TopologyError, KeyError, TypeError, ValueError) as error:
        return recomputed, f"cannot be made anew as a whole ({describe_exception(error)})"
    # The first manifests of schema 2 contain no wires.
    left_out = _NOT_COMPARED if "wires" in plan.model_fields_set else (*_NOT_COMPARED, "wires")
    return {name: value for name, value in whole.items() if name not in left_out}, ""


def _read_level(study: Study, factor: Factor, name: str, entry: LevelRecord) -> Level:
    """Return a level of a stored plan, such as a policy, from its content or from the study."""
    level = study.level(factor, name, entry)
    # If only name and digest of a level are known, nothing else is compared.
    return level if level.content or not entry.content else replace(level, content=entry.content)
