"""Merge unpacked results into a folder of the same plan, by content.

Existing files stay as they are. New files are moved in, captures before the records that name
them. If a record or a capture differs from the existing file of the same name, nothing is merged:
the two were not measured alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UserError
from harness.portable import checksums, contents
from harness.portable.contents import DESCRIBING, PLAN, PRUNED, FileKind, kind_of
from harness.portable.documents import DocumentError, Pruned, parse_document, render_pruned
from harness.portable.folder_lock import hold_lock
from harness.portable.reading import read_manifest
from harness.portable.redoing import find_differing
from harness.portable.survey import Survey, record_path
from measure.manifest import HOW_MUCH, Manifest

#: Kinds that must not differ under the same name.
_UNIQUE = (FileKind.RECORD, FileKind.CAPTURE, FileKind.FILE)
#: Kinds that differ from machine to machine; both files are kept.
_KEPT_BOTH = (FileKind.LOG, FileKind.PROVENANCE)
#: Records come last, after everything they name: another merge can then complete a killed one.
_ORDER = (FileKind.CAPTURE, FileKind.FILE, FileKind.LOG, FileKind.PROVENANCE, FileKind.RECORD)


@dataclass
class _Moves:
    """The moves of a merge: target by path of the unpacked file."""

    targets: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Merged:
    """The number of new records and captures, and lines about wording that was kept."""

    records: int
    captures: int
    notices: tuple[str, ...] = ()


def merge_results(survey: Survey, unpacked: Path, folder: Path, file: Path) -> Merged:
    """Move what `folder` lacks into it.

    Args:
        survey: The survey of the unpacked results.
        unpacked: Folder of the unpacked results.
        folder: The results folder.
        file: The archive, for messages.

    Raises:
        UserError: The plans differ, a file conflicts, or the folder is in use.
        OSError: A file cannot be moved.
    """
    with hold_lock(folder, exclusive=True):
        there, came = _require_same_plan(survey, folder, file)
        moves = _find_moves(survey, folder)
        if moves.conflicts:
            more = f" (and {len(moves.conflicts) - 1} more)" if len(moves.conflicts) > 1 else ""
            raise UserError(f"{folder}: {moves.conflicts[0]} differs from that in {file}{more}; "
                            "import into a folder of its own with --out", status=1)
        known = _known_sums(survey, folder, moves)
        pruned = _merge_pruned(survey, folder, moves)
        _move_files(moves, unpacked, folder, pruned)
        if _merge_plan(there, came, folder):
            known.pop(PLAN, None)
        checksums.write_sums(folder, known)
    kinds = [kind_of(path) for path in moves.targets]
    return Merged(kinds.count(FileKind.RECORD), kinds.count(FileKind.CAPTURE),
                  tuple(report_kept_texts(there, came)))


def _require_same_plan(survey: Survey, folder: Path, file: Path) -> tuple[Manifest, Manifest]:
    """Return both plans. Raise UserError if records of the two cannot be combined."""
    there, came = read_manifest(folder), survey.plan
    if there is None or came is None or not there.is_compatible_with(came) or not _same_levels(
            there, came):
        raise UserError(f"{folder}: holds results of another plan than {file} (its study, levels, "
                        "wires or settings differ); choose another folder with --out", status=1)
    return there, came


def _same_levels(folder_plan: Manifest, archive_plan: Manifest) -> bool:
    """Return whether factors have the same kinds, and levels the same digests and numbers."""
    kinds, levels = [], []
    for plan in (folder_plan, archive_plan):
        kinds.append([(factor.name, factor.is_number, factor.unit) for factor in plan.factors])
        levels.append({(factor, name): (level.digest, level.number)
                       for factor, entries in plan.levels.items()
                       for name, level in entries.items()})
    return kinds[0] == kinds[1] and levels[0] == levels[1]


def report_kept_texts(folder_plan: Manifest, archive_plan: Manifest) -> Iterator[str]:
    """Yield a line about titles and texts of the archive's plan that differ from the folder's."""
    words = {"factors", "levels"}
    kept = [where for where, _, _ in find_differing(
        folder_plan.model_dump(mode="json", include=words),
        archive_plan.model_dump(mode="json", include=words),
        "")]
    if kept:
        more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
        yield f"{PLAN}: the folder's own {kept[0]}{more} stay; the archive has others"


def _find_moves(survey: Survey, folder: Path) -> _Moves:
    moves = _Moves()
    for path, facts in survey.files.items():
        kind = kind_of(path)
        if kind in {*DESCRIBING, FileKind.REPORT, None} or path in {PLAN, PRUNED}:
            continue
        there = folder / path
        if not there.exists():
            moves.targets[path] = path
        elif checksums.digest_of(there) == facts.sha256:
            continue
        elif kind in _UNIQUE:
            moves.conflicts.append(path)
        elif kind in _KEPT_BOTH:
            other = _name_by_content(path, facts.sha256)
            if not (folder / other).exists():
                moves.targets[path] = other
    return moves


def _name_by_content(path: str, digest: str) -> str:
    """Return a file name with a part of the content's digest.

    So a second merge adds nothing.
    """
    place = Path(path)
    return place.with_name(f"{place.stem}.{digest[:8]}{place.suffix}").as_posix()


def _known_sums(survey: Survey, folder: Path, moves: _Moves) -> dict[str, str]:
    """Return the checksums that need not be computed: the folder's own, and those just verified."""
    try:
        known = dict(checksums.read_sums(folder) or {})
    except checksums.ChecksumError as error:
        raise UserError(f"{error}; './qop verify {folder}' tells more", status=1) from None
    known.pop(PRUNED, None)
    known |= {target: survey.files[path].sha256 for path, target in moves.targets.items()}
    return known


def _merge_pruned(survey: Survey, folder: Path, moves: _Moves) -> Pruned:
    """Return the list of captures that are absent by choice after the merge.

    The archive's list counts only for records that come with it. For existing records the folder's
    own list counts; otherwise a lost capture would count as removed by choice.
    """
    try:
        own = parse_document(Pruned, (folder / PRUNED).read_text(), str(folder / PRUNED))
    except FileNotFoundError:
        own = Pruned()
    except (DocumentError, UnicodeDecodeError) as error:
        raise UserError(f"{error}; './qop verify {folder}' tells more", status=1) from None
    present = [*contents.scan_folder(folder).files, *moves.targets.values()]
    come = {name: removed for name, removed in survey.pruned.captures.items()
            if record_path(name) in moves.targets}
    return own.with_removed(come).without_present(present)


def _move_files(moves: _Moves, unpacked: Path, folder: Path, pruned: Pruned) -> None:
    """Move files to their target, and write pruned.json before the records."""
    for kind in _ORDER:
        if kind is FileKind.RECORD:
            _write_pruned(folder, pruned)
        for path, target in moves.targets.items():
            if kind_of(path) is kind:
                place = folder / target
                place.parent.mkdir(parents=True, exist_ok=True)
                (unpacked / path).rename(place)


def _write_pruned(folder: Path, pruned: Pruned) -> None:
    if pruned.captures:
        checksums.replace_file(folder / PRUNED, render_pruned(pruned))
    else:
        (folder / PRUNED).unlink(missing_ok=True)


def _merge_plan(folder_plan: Manifest, archive_plan: Manifest, folder: Path) -> bool:
    """Extend the folder's plan to the larger number of repetitions, and to both plans' digests.

    The rest of the folder's plan stays, whatever the archive's plan says. Return whether the
    folder's file has changed.
    """
    former = list(dict.fromkeys([*folder_plan.former_digests, *archive_plan.former_digests]))
    settings = dict(folder_plan.settings)
    for name in HOW_MUCH:
        if name in archive_plan.settings:
            settings[name] = max(settings[name], archive_plan.settings[name])
    merged = folder_plan.model_copy(update={"former_digests": former, "settings": settings})
    if merged == folder_plan:
        return False
    checksums.replace_file(folder / PLAN, merged.to_text())
    return True
