"""Remove captures by choice and list them in pruned.json, so that records stay consistent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.portable import checksums, contents
from harness.portable.contents import PRUNED, FileKind, kind_of
from harness.portable.documents import Removed, render_pruned
from harness.portable.folder_lock import hold_lock
from harness.portable.survey import Survey, facts_of, survey_files

#: Choices that apply to any folder. Any other choice is a part of a repetition, which is the first
#: part of a capture's name (`PART-POINT.pcap`, see measure.capture): captures of it are kept.
KEEP_FAILED, NONE = "keep-failed", "none"


@dataclass(frozen=True)
class Freed:
    """The number and size of the captures that pruning has removed."""

    captures: int
    bytes: int


def prune_captures(folder: Path, choice: str) -> Freed:
    """Remove captures of a folder.

    Args:
        folder: The results folder.
        choice: KEEP_FAILED, NONE, or the part of a repetition whose captures are kept.

    Raises:
        UserError: The folder is in use, a file cannot be removed, or no capture is of that part.
    """
    try:
        with hold_lock(folder, exclusive=True):
            return _prune_locked(folder, choice)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror or error}; put that right "
                        "and give the command again", status=1) from None


def _prune_locked(folder: Path, choice: str) -> Freed:
    files = contents.scan_folder(folder).files
    survey = survey_files((path, place) for path, place in files.items()
                          if kind_of(path) in {FileKind.RECORD, FileKind.PRUNED, FileKind.SUMS})
    broken = next((finding for finding in survey.findings
                   if finding.text.startswith((PRUNED, contents.SUMS))), None)
    if broken:
        raise UserError(f"{folder}: {broken.text}; move it away first", status=1)
    captures = [path for path in files if kind_of(path) is FileKind.CAPTURE]
    _refuse_unknown(captures, choice)
    going = {path: files[path].stat().st_size for path in captures
             if not _is_kept(survey, path, choice)}
    # The note is written first: a killed pruning leaves more than the note says, never less.
    _write_note(folder, survey, going)
    for path in going:
        files[path].unlink()
        _remove_empty(files[path].parent)
    return Freed(len(going), sum(going.values()))


def _refuse_unknown(captures: list[str], choice: str) -> None:
    """Refuse a part that no capture belongs to, because no capture would be kept."""
    parts = sorted({_part_of(path) for path in captures})
    if captures and choice not in (KEEP_FAILED, NONE, *parts):
        raise UserError(f"--captures {choice}: no capture here is of that part; choose from "
                        f"{', '.join((*parts, KEEP_FAILED, NONE))}")


def _part_of(path: str) -> str:
    """Return the part of a repetition that a capture belongs to, from its file name."""
    return path.split("/")[2].partition("-")[0]


def _is_kept(survey: Survey, path: str, choice: str) -> bool:
    """Return whether a capture is kept. An unreadable record counts as a failed one."""
    name = contents.repetition_of(path)
    if f"records/{name}.json" not in survey.files:
        return False  # an interrupted run left it; no record names it
    entry = survey.records.get(name)
    if choice == KEEP_FAILED:
        return entry is None or entry.status != "ok"
    return choice != NONE and _part_of(path) == choice


def _write_note(folder: Path, survey: Survey, going: dict[str, int]) -> None:
    """Write pruned.json, and remove the deleted captures from SHA256SUMS if it exists."""
    digests = survey.record_digests()
    removed: dict[str, dict[str, int]] = {}
    for path, size in going.items():
        _, name, file = path.split("/")
        removed.setdefault(name, {})[file] = size
    pruned = survey.pruned.without_outdated(digests).with_removed({
        name: Removed(record_sha256=digests[name], files=sizes)
        for name, sizes in removed.items() if name in digests})
    if not pruned.captures and not going:
        return
    text = render_pruned(pruned)
    if survey.sums is not None:
        sums = {path: digest for path, digest in survey.sums.items()
                if path not in going and path != contents.PACKING_LIST}
        checksums.replace_file(folder / contents.SUMS,
                     checksums.render_sums({**sums, PRUNED: facts_of(text.encode()).sha256}))
        (folder / contents.PACKING_LIST).unlink(missing_ok=True)
    checksums.replace_file(folder / PRUNED, text)


def _remove_empty(place: Path) -> None:
    if not any(place.iterdir()):
        place.rmdir()
