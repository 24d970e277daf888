"""Export a results folder as one archive, with notes about the captures that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.portable import archive, checksums, contents, integrity, seal
from harness.portable.contents import PACKING_LIST, PRUNED, SUMS, FileKind, kind_of
from harness.portable.documents import Choice, PackingList, Removed, render_document, render_pruned
from harness.portable.folder_lock import hold_lock
from harness.portable.survey import Survey, facts_of, survey_files

#: Captures are selected separately; reports can be created again from the records.
_LEFT_OUT = frozenset({FileKind.CAPTURE, FileKind.PACKING_LIST, FileKind.REPORT})


@dataclass(frozen=True)
class Exported:
    """The result of an export: the archive's contents, and foreign names in the folder.

    `digest` is the digest of its plan and records.
    """

    file: Path
    bytes: int
    records: int
    captures: int
    foreign: list[str]
    digest: str


def export_folder(folder: Path, file: Path, captures: Choice) -> Exported:
    """Pack a folder into an archive.

    Args:
        folder: The results folder.
        file: The archive; it must not exist.
        captures: Which captures are packed: all, those of failed repetitions, or none.

    Raises:
        UserError: The folder is damaged or in use, or a file cannot be read or written.
    """
    if file.exists():
        raise UserError(f"{file}: is there already; give another name with -o, or remove it")
    if not file.absolute().parent.is_dir():
        raise UserError(f"{file}: there is no folder to put it in; make {file.parent}, or give "
                        "another name with -o")
    try:
        with hold_lock(folder, exclusive=False):
            return _export_locked(folder, file, captures)
    except archive.ArchiveError as error:
        raise UserError(f"{folder}: {error}; give the command again", status=1) from None
    except OSError as error:
        raise UserError(f"{error.filename or file}: {error.strerror or error}; nothing was "
                        "exported", status=1) from None


def _export_locked(folder: Path, file: Path, choice: Choice) -> Exported:
    scanned = contents.scan_folder(folder)
    survey = survey_files((path, place) for path, place in scanned.files.items()
                          if kind_of(path) not in _LEFT_OUT)
    taken, left = _choose_captures(scanned.files, survey, choice)
    survey_files(((path, scanned.files[path]) for path in taken), survey)
    _mark_pruned(survey, scanned.files, left)
    _refuse_damage(folder, survey)
    members: dict[str, Path | bytes] = {
        path: scanned.files[path] for path in survey.files if path not in {SUMS, PRUNED}}
    pruned = survey.pruned.without_outdated(survey.record_digests())
    if pruned.captures:
        members[PRUNED] = render_pruned(pruned).encode()
    sums = _add_descriptions(members, survey, choice)
    archive.write_archive(file, archive.folder_name(folder), members, sums)
    return Exported(file, file.stat().st_size, len(survey.records), len(taken), scanned.foreign,
                    seal.digest_of(sums))


def _choose_captures(files: dict[str, Path], survey: Survey,
                     choice: Choice) -> tuple[list[str], list[str]]:
    """Return the captures to pack and those to leave out.

    Captures without a record are in neither list.
    """
    taken: list[str] = []
    left: list[str] = []
    for path in files:
        if kind_of(path) is FileKind.CAPTURE:
            entry = survey.records.get(contents.repetition_of(path))
            if entry is not None:
                goes = choice == "all" or (choice == "failed" and entry.status != "ok")
                (taken if goes else left).append(path)
    return taken, left


def _mark_pruned(survey: Survey, files: dict[str, Path], left: list[str]) -> None:
    """Change the survey to describe the archive.

    Captures that are left out of the archive count as pruned.
    """
    removed: dict[str, dict[str, int]] = {}
    for path in left:
        _, name, file = path.split("/")
        removed.setdefault(name, {})[file] = files[path].stat().st_size
    digests = survey.record_digests()
    survey.pruned = survey.pruned.with_removed({
        name: Removed(record_sha256=digests[name], files=sizes)
        for name, sizes in removed.items()})
    if survey.sums is not None:
        # The folder's own list also covers files that were not read, but they cannot be compared.
        survey.sums = {path: digest for path, digest in survey.sums.items()
                       if path in survey.files or path not in files}


def _refuse_damage(folder: Path, survey: Survey) -> None:
    """Refuse to export a damaged folder: its archive would be damaged, too."""
    findings = [finding for finding in integrity.judge_survey(survey, archived=False)
                if not finding.renewable]
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise UserError(f"{folder}: {findings[0].text}{more}; './qop verify {folder}' names all, "
                        "put them right first", status=1)


def _add_descriptions(members: dict[str, Path | bytes], survey: Survey,
                      choice: Choice) -> dict[str, str]:
    """Add manifest.json and SHA256SUMS to the members. Return the checksums of the other files.

    manifest.json is among those; only SHA256SUMS is not.
    """
    sums: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for path, content in members.items():
        facts = facts_of(content) if isinstance(content, bytes) else survey.files[path]
        sums[path], sizes[path] = facts.sha256, facts.bytes
    assert survey.plan is not None, "a folder without a plan is refused before"
    packing_list = render_document(PackingList(
        plan=survey.plan.digest, captures=choice, records=len(survey.records),
        files=dict(sorted(sizes.items()))))
    members[PACKING_LIST] = packing_list.encode()
    sums[PACKING_LIST] = facts_of(packing_list.encode()).sha256
    members[SUMS] = checksums.render_sums(sums).encode()
    return sums

