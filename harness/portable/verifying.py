"""Checking a results folder or an archive: its findings, and new checksums where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.portable import checksums, contents, integrity
from harness.portable.contents import SUMS, FileKind, kind_of
from harness.portable.folder_lock import held
from harness.portable.importing import survey_archive
from harness.portable.survey import IntegrityFinding, Survey, look_at


@dataclass(frozen=True)
class IntegrityVerdict:
    """What is wrong, if anything, and what was looked at; `sealed`: files in a new SHA256SUMS."""

    findings: Sequence[IntegrityFinding]
    survey: Survey
    sealed: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is nothing to complain of."""
        return not self.findings

    def summary(self) -> str:
        """What is there, in one line without a name."""
        records = self.survey.records.values()
        good = sum(entry.status == "ok" for entry in records)
        plan = self.survey.plan
        planned = f" of {plan.planned} planned" if plan else ""
        further = sum(not plan.plans(entry) for entry in records) if plan else 0
        planned += f" and {further} further" if further else ""
        captures = sum(kind_of(path) is FileKind.CAPTURE for path in self.survey.files)
        absent = sum(len(removed.files) for removed in self.survey.pruned.current(
            self.survey.record_digests()).captures.values())
        without = f", {absent} removed or left out by choice" if absent else ""
        if self.sealed:
            checked = f"{SUMS} written for {self.sealed} files"
        elif self.survey.sums is None:
            checked = f"no {SUMS} to compare with"
        else:
            checked = f"checksums of {len(self.survey.sums)} files agree"
        return (f"{len(records)} records{planned} ({good} ok), {captures} captures{without}; "
                f"{checked}")


def verify(place: Path, *, write: bool = False) -> IntegrityVerdict:
    """Check a folder or an archive. `write` gives a folder new checksums unless it is damaged.

    Raises UserError where there is nothing to check, and while a run is writing there.
    """
    try:
        if place.is_dir():
            with held(place, exclusive=write):
                return _verify_folder(place, write=write)
        if write:
            raise UserError(f"{place}: an archive brings its checksums; --write is for folders")
        survey = survey_archive(place)
        # What broke off the reading explains everything that seems to be missing.
        findings = survey.findings or integrity.judge(survey, archived=True)
        return IntegrityVerdict(findings, survey)
    except OSError as error:
        raise UserError(f"{error.filename or place}: {error.strerror or error}; give a results "
                        "folder or an archive that can be read") from None


def _verify_folder(folder: Path, *, write: bool) -> IntegrityVerdict:
    scanned = contents.scan(folder)
    if not any(kind_of(path) in {FileKind.PLAN, FileKind.RECORD} for path in scanned.files):
        raise UserError(f"{folder}: holds neither a plan nor records; give a results folder")
    survey = look_at(scanned.files.items())
    findings = integrity.judge(survey, archived=False)
    if not write or any(not finding.renewable for finding in findings):
        return IntegrityVerdict(findings, survey)
    known = {path: digest for path, digest in (survey.sums or {}).items() if path in scanned.files}
    known |= {path: facts.sha256 for path, facts in survey.files.items()}
    return IntegrityVerdict([], survey, sealed=checksums.write(folder, known))
