"""Import an archive of measured results into a results folder, after verifying all checksums.

`import_archive` takes a file that `qop export` made, unpacks it to a temporary folder and verifies
every file. Then it renames the folder, or merges the files into an existing folder of the same
plan. The result says what was new.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from harness.errors import UserError
from harness.portable import archive, checksums, integrity
from harness.portable import folder as portable_folder
from harness.portable.folder import (
    DESCRIBING,
    PLAN_FILE,
    PRUNED_FILE,
    DocumentError,
    FileKind,
    PrunedCaptures,
    find_file_kind,
    hold_folder_lock,
    parse_document,
    read_manifest,
    render_pruned,
)
from harness.portable.integrity import FolderSurvey, ReadableStream, find_record_path
from harness.portable.recomputation import find_differing_values
from measure.records.manifest import HOW_MUCH, Manifest

# --- Merge of unpacked results into a folder of the same plan, by content ---
# Existing files stay as they are. New files are moved in, captures before the records that name
# them. If a record or a capture differs from the existing file of the same name, nothing is merged:
# the two were not measured alike.

#: Kinds that must not differ under the same name.
_UNIQUE = (FileKind.RECORD, FileKind.CAPTURE, FileKind.FILE)
#: Kinds that differ from machine to machine; both files are kept.
_KEPT_BOTH = (FileKind.LOG, FileKind.PROVENANCE)
#: Records come last, after everything they name: another merge can then complete a killed one.
_ORDER = (FileKind.CAPTURE, FileKind.FILE, FileKind.LOG, FileKind.PROVENANCE, FileKind.RECORD)


@dataclass
class _FileMoves:
    """The files to move into an existing results folder: the target by path of the source."""

    targets: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MergeResult:
    """The number of new records and captures, and messages about texts that the folder keeps.

    `notices` has a line if titles or texts of the archive's plan differ from those of the folder.
    """

    records: int
    captures: int
    notices: tuple[str, ...] = ()


def merge_results(survey: FolderSurvey, unpacked: Path, folder: Path, file: Path) -> MergeResult:
    """Move the files of an unpacked archive that a results folder lacks into the folder.

    Args:
        survey: The survey of the unpacked results.
        unpacked: Folder of the unpacked results.
        folder: The results folder.
        file: The archive, for messages.

    Raises:
        UserError: The plans differ, a file conflicts, or the folder is in use.
        OSError: A file cannot be moved.
    """
    with hold_folder_lock(folder, exclusive=True):
        plan_here, plan_of_archive = _require_same_plan(survey, folder, file)
        moves = _find_moves(survey, folder)
        if moves.conflicts:
            more = f" (and {len(moves.conflicts) - 1} more)" if len(moves.conflicts) > 1 else ""
            raise UserError(f"{folder}: {moves.conflicts[0]} differs from that in {file}{more}; "
                            "import into a folder of its own with --out", status=1)
        known = _known_sums(survey, folder, moves)
        pruned = _merge_pruned(survey, folder, moves)
        _move_files(moves, unpacked, folder, pruned)
        if _merge_plan(plan_here, plan_of_archive, folder):
            known.pop(PLAN_FILE, None)
        checksums.write_sums(folder, known)
    kinds = [find_file_kind(path) for path in moves.targets]
    return MergeResult(kinds.count(FileKind.RECORD), kinds.count(FileKind.CAPTURE),
                       tuple(report_kept_texts(plan_here, plan_of_archive)))


def _require_same_plan(survey: FolderSurvey, folder: Path, file: Path) -> tuple[Manifest, Manifest]:
    """Return the plans of folder and archive. Raise UserError if they cannot be combined."""
    plan_here, plan_of_archive = read_manifest(folder), survey.plan
    if plan_here is None or plan_of_archive is None \
            or not plan_here.is_compatible_with(plan_of_archive) \
            or not _same_levels(plan_here, plan_of_archive):
        raise UserError(f"{folder}: holds results of another plan than {file} (its study, levels, "
                        "wires or settings differ); choose another folder with --out", status=1)
    return plan_here, plan_of_archive


def _same_levels(folder_plan: Manifest, archive_plan: Manifest) -> bool:
    """Return whether two plans have the same factors and the same levels, such as policies.

    Levels are compared by their digests and numbers.
    """
    kinds, levels = [], []
    for plan in (folder_plan, archive_plan):
        kinds.append([(factor.name, factor.is_number, factor.unit) for factor in plan.factors])
        levels.append({(factor, name): (level.digest, level.number)
                       for factor, entries in plan.levels.items()
                       for name, level in entries.items()})
    return kinds[0] == kinds[1] and levels[0] == levels[1]


def report_kept_texts(folder_plan: Manifest, archive_plan: Manifest) -> Iterator[str]:
    """Yield a line about titles and texts in which the archive's plan differs.

    The texts of the existing folder are kept.
    """
    words = {"factors", "levels"}
    places = [where for where, _, _ in find_differing_values(
        folder_plan.model_dump(mode="json", include=words),
        archive_plan.model_dump(mode="json", include=words),
        "")]
    if places:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield f"{PLAN_FILE}: the folder's own {places[0]}{more} stay; the archive has others"


def _find_moves(survey: FolderSurvey, folder: Path) -> _FileMoves:
    moves = _FileMoves()
    for path, facts in survey.files.items():
        kind = find_file_kind(path)
        if kind in {*DESCRIBING, FileKind.REPORT, None} or path in {PLAN_FILE, PRUNED_FILE}:
            continue
        target = folder / path
        if not target.exists():
            moves.targets[path] = path
        elif checksums.hash_file(target) == facts.sha256:
            continue
        elif kind in _UNIQUE:
            moves.conflicts.append(path)
        elif kind in _KEPT_BOTH:
            other = _name_by_content(path, facts.sha256)
            if not (folder / other).exists():
                moves.targets[path] = other
    return moves


def _name_by_content(path: str, digest: str) -> str:
    """Return a file name that contains a part of the content's digest.

    So a second import of the file adds nothing.
    """
    place = Path(path)
    return place.with_name(f"{place.stem}.{digest[:8]}{place.suffix}").as_posix()


def _known_sums(survey: FolderSurvey, folder: Path, moves: _FileMoves) -> dict[str, str]:
    """Return the known checksums by path: the folder's own, and the archive's."""
    try:
        known = dict(checksums.read_sums(folder) or {})
    except checksums.ChecksumError as error:
        raise UserError(f"{error}; './qop verify {folder}' tells more", status=1) from None
    known.pop(PRUNED_FILE, None)
    known |= {target: survey.files[path].sha256 for path, target in moves.targets.items()}
    return known


def _merge_pruned(survey: FolderSurvey, folder: Path, moves: _FileMoves) -> PrunedCaptures:
    """Return the list of deleted captures (pruned.json) for the folder after the import.

    The archive's list counts only for records that come with it. For existing records the folder's
    own list counts; otherwise a lost capture would count as deleted on request.
    """
    try:
        own = parse_document(PrunedCaptures, (folder / PRUNED_FILE).read_text(),
                             str(folder / PRUNED_FILE))
    except FileNotFoundError:
        own = PrunedCaptures()
    except (DocumentError, UnicodeDecodeError) as error:
        raise UserError(f"{error}; './qop verify {folder}' tells more", status=1) from None
    present = [*portable_folder.scan_folder(folder).files, *moves.targets.values()]
    come = {name: removed for name, removed in survey.pruned.captures.items()
            if find_record_path(name) in moves.targets}
    return own.with_removed(come).without_present(present)


def _move_files(moves: _FileMoves, unpacked: Path, folder: Path, pruned: PrunedCaptures) -> None:
    """Move files to their target, and write pruned.json before the records."""
    for kind in _ORDER:
        if kind is FileKind.RECORD:
            _write_pruned(folder, pruned)
        for path, target in moves.targets.items():
            if find_file_kind(path) is kind:
                place = folder / target
                place.parent.mkdir(parents=True, exist_ok=True)
                (unpacked / path).rename(place)


def _write_pruned(folder: Path, pruned: PrunedCaptures) -> None:
    if pruned.captures:
        checksums.replace_file(folder / PRUNED_FILE, render_pruned(pruned))
    else:
        (folder / PRUNED_FILE).unlink(missing_ok=True)


def _merge_plan(folder_plan: Manifest, archive_plan: Manifest, folder: Path) -> bool:
    """Extend the folder's plan to the larger number of repetitions.

    The rest of the folder's plan stays, whatever the archive's plan says. Return whether the
    folder's file has changed.
    """
    settings = dict(folder_plan.settings)
    for name in HOW_MUCH:
        if name in archive_plan.settings:
            settings[name] = max(settings.get(name, archive_plan.settings[name]),
                                 archive_plan.settings[name])
    merged = folder_plan.model_copy(update={"settings": settings})
    if merged == folder_plan:
        return False
    checksums.replace_file(folder / PLAN_FILE, merged.to_text())
    return True


# --- Import of an archive ---

@dataclass(frozen=True)
class ImportResult:
    """The result of an import: the folder, what was new, and which reports were left out.

    `records` counts all records of the archive; `added` and `captures` count what was new.
    `digest` is the digest of the archive's plan and records. `notices` are lines that a reader
    must know.
    """

    folder: Path
    new: bool
    records: int
    added: int
    captures: int
    left_out: list[str]
    digest: str
    notices: tuple[str, ...] = ()


def survey_archive(file: Path) -> FolderSurvey:
    """Read all files of an archive and collect what is wrong with them.

    An error that ends the reading becomes a finding, too.

    Raises:
        OSError: The file cannot be read.
    """
    survey = FolderSurvey()
    try:
        with archive.open_archive(file) as opened:
            for path, _, stream in opened:
                survey.add_file(path, stream)
    except archive.ArchiveError as error:
        survey.add_finding(f"{file.name}: {error}")
    return survey


def import_archive(file: Path, out: Path | None, root: Path) -> ImportResult:
    """Unpack an archive to `out`, or to the folder of its name in `root`.

    Raises:
        UserError: The archive is incomplete or damaged, or the folder holds other results. Nothing
            has changed there.
    """
    try:
        with archive.open_archive(file) as opened:
            folder = out if out is not None else root / opened.top
            _check_place(folder)
            with _temporary_folder(folder) as unpacked:
                survey = unpack_archive(opened, unpacked)
                _refuse_damage(file, survey)
                return _move_into_place(file, survey, unpacked, folder)
    except archive.ArchiveError as error:
        raise UserError(f"{file}: {error}; nothing was imported", status=1) from None
    except OSError as error:
        raise UserError(f"{error.filename or out or root}: {error.strerror or error}; put that "
                        "right and give the command again", status=1) from None


def _check_place(folder: Path) -> None:
    """Raise UserError for an unsuitable target folder, before anything is unpacked."""
    if folder.is_symlink() and not folder.exists():
        raise UserError(f"{folder}: is a link to nowhere; choose another folder with --out")
    if folder.exists() and read_manifest(folder) is None and (
            not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: is there and holds no results; choose another folder with "
                        "--out")


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """Create a temporary folder on the file system of the target, to rename it later."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # One level deeper than the folders that commands search for the newest results.
    outer = Path(tempfile.mkdtemp(prefix=f".{folder.name}.import-", dir=folder.parent))
    try:
        inner = outer / "unpacked"
        inner.mkdir()
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def unpack_archive(opened: archive.Archive, unpacked: Path) -> FolderSurvey:
    """Unpack every result file of an archive, and check each while it is read.

    Reports are left out: an HTML page may contain programs, and may show anything that its sender
    wanted.
    """
    survey = FolderSurvey()
    for path, size, stream in opened:
        if find_file_kind(path) in DESCRIBING:
            survey.add_file(path, stream)
            if survey.packing_list is not None:
                _check_room(sum(survey.packing_list.files.values()), unpacked)
            continue
        if survey.packing_list is not None and survey.packing_list.files.get(path) != size:
            raise archive.ArchiveError(f"{path} has another size than manifest.json says, or is "
                                       "not in it")
        if find_file_kind(path) is FileKind.REPORT:
            survey.add_file(path, stream)
            continue
        target = unpacked / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with create_file(target) as sink:
            survey.add_file(path, _CopyingStream(stream, sink))
    return survey


def create_file(path: Path) -> BinaryIO:
    """Create a file for writing, which must not exist yet."""
    return path.open("xb")


class _CopyingStream:
    """A stream that writes all data read from it to a file."""

    def __init__(self, stream: ReadableStream, sink: BinaryIO) -> None:
        self._stream = stream
        self._sink = sink

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._sink.write(data)
        return data


def _check_room(needed_bytes: int, place: Path) -> None:
    free = shutil.disk_usage(place).free
    if needed_bytes > free:
        raise UserError(f"{place.parent.parent}: has {free >> 20} MB free, and the archive unpacks "
                        f"to {needed_bytes >> 20} MB; make room, or choose another place with "
                        "--out", status=1)


def _refuse_damage(file: Path, survey: FolderSurvey) -> None:
    findings = integrity.judge_survey(survey, archived=True)
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise UserError(f"{file}: {findings[0].text}{more}; './qop verify {file}' names all; "
                        "nothing was imported", status=1)


def _move_into_place(file: Path, survey: FolderSurvey, unpacked: Path,
                     folder: Path) -> ImportResult:
    """Move verified, unpacked results to their folder, or merge them into it."""
    assert survey.plan is not None, "judged before"
    left_out = [path for path in survey.files if find_file_kind(path) is FileKind.REPORT]
    digest = checksums.hash_results({path: facts.sha256 for path, facts in survey.files.items()})
    notices = (*checksums.report_missing_digests(survey.bare, len(survey.records) + 1),
               *checksums.find_changed_builtins(survey.plan))
    done = ImportResult(folder, new=True, records=len(survey.records), added=len(survey.records),
                        captures=sum(find_file_kind(path) is FileKind.CAPTURE for path
                                     in survey.files),
                        left_out=left_out, digest=digest, notices=notices)
    if read_manifest(folder) is not None:
        merged = merge_results(survey, unpacked, folder, file)
        return replace(done, new=False, added=merged.records, captures=merged.captures,
                       notices=(*notices, *merged.notices))
    assert survey.sums is not None, "judged before"
    checksums.write_sums(unpacked, {path: digest for path, digest in survey.sums.items()
                                    if find_file_kind(path) not in DESCRIBING})
    try:
        unpacked.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); choose another folder with "
                        "--out", status=1) from None
    return done
