"""Verify a results folder or an archive, and write new checksums on request."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import UserError
from harness.portable import (
    archive,
    builtin,
    checksums,
    contents,
    integrity,
    redoing,
    replanning,
    seal,
)
from harness.portable.contents import PLAN, SUMS, FileKind, kind_of
from harness.portable.folder_lock import hold_lock
from harness.portable.importing import survey_archive, unpack_archive
from harness.portable.redoing import Redone
from harness.portable.replanning import Replanned
from harness.portable.survey import IntegrityFinding, Survey, record_path, survey_files


@dataclass(frozen=True)
class IntegrityVerdict:
    """The findings and the survey. `sealed` is the number of files in a new SHA256SUMS.

    `redone` has the result of each record that was judged again, None if that was not requested.
    `replanned` is the result for the plan.
    """

    findings: Sequence[IntegrityFinding]
    survey: Survey
    sealed: int = 0
    redone: Sequence[Redone] | None = None
    replanned: Replanned = field(default_factory=Replanned)

    @property
    def digest(self) -> str:
        """Return the digest of plan and records."""
        return seal.digest_of({path: facts.sha256 for path, facts in self.survey.files.items()})

    @property
    def ok(self) -> bool:
        """Return whether there are no findings.

        If records were to be judged again, at least one must have been.
        """
        return not self.findings and (self.redone is None or any(
            not entry.not_redone for entry in self.redone))

    @property
    def notes(self) -> list[str]:
        """Return lines that a reader must know.

        They include the reasons why records were not judged again.
        """
        names: dict[str, list[str]] = {}
        for entry in self.redone or ():
            if entry.not_redone not in ("", redoing.DAMAGED):
                names.setdefault(entry.not_redone, []).append(record_path(entry.name))
        plan = self.survey.plan
        lines = [*seal.report_missing_digests(self.survey.bare, len(self.survey.records) + 1),
                 *(builtin.find_changed_builtins(plan) if plan is not None else ())]
        if self.replanned.not_redone:
            lines.append(f"{PLAN}: not made anew: {self.replanned.not_redone}")
        for reason, paths in names.items():
            more = f" and {len(paths) - 1} more" if paths[1:] else ""
            lines.append(f"{paths[0]}{more}: not judged anew: {reason}")
        return lines

    def summary(self) -> str:
        """Return the contents in one line, without the folder's name."""
        records = self.survey.records.values()
        good = sum(entry.status == "ok" for entry in records)
        plan = self.survey.plan
        planned = f" of {plan.planned} planned" if plan else ""
        further = sum(not plan.contains(entry) for entry in records) if plan else 0
        planned += f" and {further} further" if further else ""
        captures = sum(kind_of(path) is FileKind.CAPTURE for path in self.survey.files)
        absent = sum(len(removed.files) for removed in self.survey.pruned.without_outdated(
            self.survey.record_digests()).captures.values())
        absent += sum(len(entry.captures) for entry in records if not entry.keeps_captures)
        without = f", {absent} removed or left out by choice" if absent else ""
        if self.sealed:
            checked = f"{SUMS} written for {self.sealed} files"
        elif self.survey.sums is None:
            checked = f"no {SUMS} to compare with"
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


def verify_results(place: Path, *, write: bool = False, redo: bool = False) -> IntegrityVerdict:
    """Verify a folder or an archive.

    Args:
        place: A results folder or an archive.
        write: Whether to give a folder new checksums, unless it is damaged.
        redo: Whether to judge records again from their captures.

    Raises:
        UserError: There is nothing to verify, or a run is writing there.
    """
    try:
        if place.is_dir():
            with hold_lock(place, exclusive=write):
                return _verify_folder(place, write=write, redo=redo)
        if write:
            raise UserError(f"{place}: an archive brings its checksums; --write is for folders")
        return _redo_archive(place) if redo else _judge_archive(survey_archive(place))
    except OSError as error:
        raise UserError(f"{error.filename or place}: {error.strerror or error}; give a results "
                        "folder or an archive that can be read") from None


def _judge_archive(survey: Survey) -> IntegrityVerdict:
    # An error that ended the reading explains everything that seems to be missing.
    findings = survey.findings or integrity.judge_survey(survey, archived=True)
    return IntegrityVerdict(findings, survey)


def _redo_archive(file: Path) -> IntegrityVerdict:
    """Unpack an archive into a temporary folder, verify it and judge its records again."""
    with tempfile.TemporaryDirectory(prefix="qop-verify-") as folder:
        try:
            with archive.open_archive(file) as opened:
                verdict = _judge_archive(unpack_archive(opened, Path(folder)))
        except archive.ArchiveError as error:
            survey = Survey()
            survey.add_finding(f"{file.name}: {error}")
            return IntegrityVerdict(survey.findings, survey)
        return _redo_verdict(verdict, Path(folder))


def _redo_verdict(verdict: IntegrityVerdict, folder: Path) -> IntegrityVerdict:
    """Return the verdict with all records judged again. Each difference is a finding."""
    redone = redoing.redo_records(folder, verdict.survey)
    differences = Survey()
    for entry in redone:
        for line in entry.differences:
            differences.add_finding(line)
    plan = verdict.survey.plan
    replanned = replanning.compare_plan(plan) if plan is not None else Replanned()
    for line in replanned.differences:
        differences.add_finding(line)
    return replace(verdict, findings=[*verdict.findings, *differences.findings], redone=redone,
                   replanned=replanned)


def _verify_folder(folder: Path, *, write: bool, redo: bool) -> IntegrityVerdict:
    scanned = contents.scan_folder(folder)
    if not any(kind_of(path) in {FileKind.PLAN, FileKind.RECORD} for path in scanned.files):
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
