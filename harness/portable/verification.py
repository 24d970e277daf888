"""Verify a results folder or an archive (`./qop verify`), and write checksums on request.

`verify_results` takes the path, and returns an `IntegrityVerdict` with all problems: missing,
changed or damaged files. With `redo` it also computes all results again from their captures. With
`write` it gives an undamaged folder new checksums.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import UserError
from harness.portable import archive, checksums, integrity, recomputation
from harness.portable import folder as portable_folder
from harness.portable.folder import PLAN_FILE, SUMS_FILE, FileKind, find_file_kind, hold_folder_lock
from harness.portable.importing import survey_archive, unpack_archive
from harness.portable.integrity import (
    FolderSurvey,
    IntegrityFinding,
    find_record_path,
    survey_files,
)
from harness.portable.recomputation import PlanRecomputation, RecordRecomputation


@dataclass(frozen=True)
class IntegrityVerdict:
    """The result of `./qop verify`: problems, and the facts about the folder's files.

    `sealed` is the number of files in a new SHA256SUMS. `redone` has the result of each record that
    was computed again, None if that was not requested. `replanned` is the result for the plan.
    """

    findings: Sequence[IntegrityFinding]
    survey: FolderSurvey
    sealed: int = 0
    redone: Sequence[RecordRecomputation] | None = None
    replanned: PlanRecomputation = field(default_factory=PlanRecomputation)

    @property
    def digest(self) -> str:
        """Return the common digest of plan and records."""
        return checksums.hash_results({path: facts.sha256 for path, facts
                                       in self.survey.files.items()})

    @property
    def ok(self) -> bool:
        """Return whether no problem was found.

        If records were to be computed again, this must have succeeded for at least one.
        """
        return not self.findings and (self.redone is None or any(
            not entry.not_redone for entry in self.redone))

    @property
    def reader_notes(self) -> list[str]:
        """Return lines that a reader must know, which are no problems.

        They include the reasons why records were not computed again, and checks that are newer than
        the records.
        """
        not_redone: dict[str, list[str]] = {}
        newer: dict[str, list[str]] = {}
        for entry in self.redone or ():
            path = find_record_path(entry.name)
            if entry.not_redone not in ("", recomputation.DAMAGED_FILE):
                not_redone.setdefault(f"not judged anew: {entry.not_redone}", []).append(path)
            for line in entry.newer:
                newer.setdefault(line, []).append(path)
        plan = self.survey.plan
        lines = [*checksums.report_missing_digests(self.survey.bare, len(self.survey.records) + 1),
                 *(checksums.find_changed_builtins(plan) if plan is not None else ())]
        if self.replanned.not_redone:
            lines.append(f"{PLAN_FILE}: not made anew: {self.replanned.not_redone}")
        return [*lines, *(f"{_join_paths(paths)}: {line}"
                          for line, paths in (*not_redone.items(), *newer.items()))]

    def summary(self) -> str:
        """Return the folder's contents in one line, without the folder's name."""
        records = self.survey.records.values()
        good = sum(entry.status == "ok" for entry in records)
        plan = self.survey.plan
        planned = f" of {plan.planned} planned" if plan else ""
        further = sum(not plan.contains(entry) for entry in records) if plan else 0
        planned += f" and {further} further" if further else ""
        captures = sum(find_file_kind(path) is FileKind.CAPTURE for path in self.survey.files)
        absent = sum(len(removed.files) for removed in self.survey.pruned.without_outdated(
            self.survey.record_digests()).captures.values())
        absent += sum(len(entry.captures) for entry in records if not entry.keeps_captures)
        without = f", {absent} removed or left out by choice" if absent else ""
        if self.sealed:
            checked = f"{SUMS_FILE} written for {self.sealed} files"
        elif self.survey.sums is None:
            checked = f"no {SUMS_FILE} to compare with"
        else:
            checked = f"checksums of {len(self.survey.sums)} files agree"
        return (f"{len(records)} records{planned} ({good} ok), {captures} captures{without}; "
                f"{checked}; digest of plan and records {self.digest}{self._summarize_redone()}")

    def _summarize_redone(self) -> str:
        if self.redone is None:
            return ""
        count = sum(not entry.not_redone for entry in self.redone)
        others = f" of {len(self.redone)}" if count < len(self.redone) else ""
        lacking = sum(entry.kept_no_captures for entry in self.redone)
        without = f", not redone: {lacking} records kept no captures" if lacking else ""
        return f"; {count}{others} records judged anew say the same{without}"


def _join_paths(paths: Sequence[str]) -> str:
    """Return the first of several paths, and the number of the others."""
    return paths[0] + (f" and {len(paths) - 1} more" if paths[1:] else "")


def verify_results(place: Path, *, write: bool = False, redo: bool = False) -> IntegrityVerdict:
    """Verify a results folder or an archive, and return all problems.

    Args:
        place: A results folder or an archive.
        write: Whether to give a folder new checksums, unless it is damaged.
        redo: Whether to judge records again from their captures.

    Raises:
        UserError: There is nothing to verify, or a run is writing there.
    """
    try:
        if place.is_dir():
            with hold_folder_lock(place, exclusive=write):
                return _verify_folder(place, write=write, redo=redo)
        if write:
            raise UserError(f"{place}: an archive brings its checksums; --write is for folders")
        return _redo_archive(place) if redo else _judge_archive(survey_archive(place))
    except OSError as error:
        raise UserError(f"{error.filename or place}: {error.strerror or error}; give a results "
                        "folder or an archive that can be read") from None


def _judge_archive(survey: FolderSurvey) -> IntegrityVerdict:
    # An error that ended the reading explains everything that seems to be missing.
    findings = survey.findings or integrity.judge_survey(survey, archived=True)
    return IntegrityVerdict(findings, survey)


def _redo_archive(file: Path) -> IntegrityVerdict:
    """Unpack an archive into a temporary folder, verify it and compute its records again."""
    with tempfile.TemporaryDirectory(prefix="qop-verify-") as folder:
        try:
            with archive.open_archive(file) as opened:
                verdict = _judge_archive(unpack_archive(opened, Path(folder)))
        except archive.ArchiveError as error:
            survey = FolderSurvey()
            survey.add_finding(f"{file.name}: {error}")
            return IntegrityVerdict(survey.findings, survey)
        return _redo_verdict(verdict, Path(folder))


def _redo_verdict(verdict: IntegrityVerdict, folder: Path) -> IntegrityVerdict:
    """Compute all records again, and add each difference to the problems of a verdict."""
    redone = recomputation.recompute_records(folder, verdict.survey)
    differences = FolderSurvey()
    for entry in redone:
        for line in entry.differences:
            differences.add_finding(line)
    plan = verdict.survey.plan
    replanned = recomputation.compare_plan(plan) if plan is not None else PlanRecomputation()
    for line in replanned.differences:
        differences.add_finding(line)
    return replace(verdict, findings=[*verdict.findings, *differences.findings], redone=redone,
                   replanned=replanned)


def _verify_folder(folder: Path, *, write: bool, redo: bool) -> IntegrityVerdict:
    scanned = portable_folder.scan_folder(folder)
    if not any(find_file_kind(path) in {FileKind.PLAN, FileKind.RECORD} for path in scanned.files):
        raise UserError(f"{folder}: holds neither a plan nor records; give a results folder")
    survey = survey_files(scanned.files.items())
    for path in sorted(scanned.odd):
        survey.add_finding(
            f"{path}: is no plain file, and nothing of it was looked at; move it away")
    verdict = IntegrityVerdict(integrity.judge_survey(survey, archived=False), survey)
    if redo:
        verdict = _redo_verdict(verdict, folder)
    if not write or any(not finding.renewable for finding in verdict.findings):
        return verdict
    known = {path: digest for path, digest in (survey.sums or {}).items() if path in scanned.files}
    known |= {path: facts.sha256 for path, facts in survey.files.items()}
    return replace(verdict, findings=[], sealed=checksums.write_sums(folder, known))
