"""Bringing unpacked results into a folder of the same plan, by content.

What is there already is left as it is; what is new comes in, captures before the records that name
them. A record or a capture that differs from its namesake stops everything before it begins: one of
the two measured something else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UserError
from harness.portable import checksums, contents
from harness.portable.contents import DESCRIBING, PLAN, PRUNED, FileKind, kind_of
from harness.portable.documents import DocumentError, Pruned, parse, render_pruned
from harness.portable.folder_lock import held
from harness.portable.reading import read_manifest
from harness.portable.survey import Survey, record_path
from studies import records as stored

#: What may not differ under one name.
_UNIQUE = (FileKind.RECORD, FileKind.CAPTURE, FileKind.FILE)
#: What differs from machine to machine, and is kept beside its namesake.
_KEPT_BOTH = (FileKind.LOG, FileKind.PROVENANCE)
#: Records after everything they speak of: a merge that was killed is completed by another.
_ORDER = (FileKind.CAPTURE, FileKind.FILE, FileKind.LOG, FileKind.PROVENANCE, FileKind.RECORD)


@dataclass
class _Moves:
    """What a merge is to do: targets by path of the unpacked file."""

    targets: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Merged:
    """How much was new."""

    records: int
    captures: int


def merge(survey: Survey, unpacked: Path, folder: Path, file: Path) -> Merged:
    """Move what `folder` lacks into it. Raises UserError, and OSError; `file` is for its text."""
    with held(folder, exclusive=True):
        _require_same_plan(survey, folder, file)
        moves = _compare(survey, folder)
        if moves.conflicts:
            more = f" (and {len(moves.conflicts) - 1} more)" if len(moves.conflicts) > 1 else ""
            raise UserError(f"{folder}: {moves.conflicts[0]} differs from that in {file}{more}; "
                            "import into a folder of its own with --out", status=1)
        known = _known_sums(survey, folder, moves)
        pruned = _merge_pruned(survey, folder, moves)
        _move(moves, unpacked, folder, pruned)
        if _merge_plan(unpacked, folder):
            known.pop(PLAN, None)
        checksums.write(folder, known)
    kinds = [kind_of(path) for path in moves.targets]
    return Merged(kinds.count(FileKind.RECORD), kinds.count(FileKind.CAPTURE))


def _require_same_plan(survey: Survey, folder: Path, file: Path) -> None:
    there = read_manifest(folder)
    if there is None or survey.plan is None or not there.measures_as(survey.plan):
        raise UserError(f"{folder}: holds results of another plan than {file} (its study, levels, "
                        "wires or settings differ); choose another folder with --out", status=1)


def _compare(survey: Survey, folder: Path) -> _Moves:
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
            other = _beside(path, facts.sha256)
            if not (folder / other).exists():
                moves.targets[path] = other
    return moves


def _beside(path: str, digest: str) -> str:
    """A name that follows from the content, so that merging twice adds nothing."""
    place = Path(path)
    return place.with_name(f"{place.stem}.{digest[:8]}{place.suffix}").as_posix()


def _known_sums(survey: Survey, folder: Path, moves: _Moves) -> dict[str, str]:
    """Checksums that need not be taken again: the folder's own, and those just verified."""
    try:
        known = dict(checksums.read(folder) or {})
    except checksums.ChecksumError as error:
        raise UserError(f"{error}; './qop verify {folder}' tells more", status=1) from None
    known.pop(PRUNED, None)
    known |= {target: survey.files[path].sha256 for path, target in moves.targets.items()}
    return known


def _merge_pruned(survey: Survey, folder: Path, moves: _Moves) -> Pruned:
    """What is absent by choice afterwards.

    What was left out of the archive is that only for records that come with it: of those that are
    there already, the folder's own list speaks, lest a lost capture pass for a removed one.
    """
    try:
        own = parse(Pruned, (folder / PRUNED).read_text(), str(folder / PRUNED))
    except FileNotFoundError:
        own = Pruned()
    except (DocumentError, UnicodeDecodeError) as error:
        raise UserError(f"{error}; './qop verify {folder}' tells more", status=1) from None
    present = [*contents.scan(folder).files, *moves.targets.values()]
    come = {name: removed for name, removed in survey.pruned.captures.items()
            if record_path(name) in moves.targets}
    return own.with_removed(come).without(present)


def _move(moves: _Moves, unpacked: Path, folder: Path, pruned: Pruned) -> None:
    """Rename files to their place, the pruned list before the records."""
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
        checksums.replace(folder / PRUNED, render_pruned(pruned))
    else:
        (folder / PRUNED).unlink(missing_ok=True)


def _merge_plan(unpacked: Path, folder: Path) -> bool:
    """Two plans of one digest differ in how many repetitions they ask for; the larger one stays.

    It knows what records of both call it. Whether the folder's file has changed.
    """
    there, came = (stored.read_manifest(place) for place in (folder, unpacked))
    former = list(dict.fromkeys([*there.former_digests, *came.former_digests]))
    is_larger = came.settings["repetitions"] > there.settings["repetitions"]
    larger = came if is_larger else there
    if larger.former_digests != former:
        larger = larger.model_copy(update={"former_digests": former})
        checksums.replace(folder / PLAN, larger.model_dump_json(by_alias=True, indent=1) + "\n")
    elif is_larger:
        checksums.replace(folder / PLAN, (unpacked / PLAN).read_text())
    return is_larger or larger is not there
