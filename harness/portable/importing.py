"""Import an archive into a results folder, after every checksum was verified."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from harness.errors import UserError
from harness.portable import archive, builtin, checksums, integrity, merging, seal
from harness.portable.contents import DESCRIBING, FileKind, kind_of
from harness.portable.reading import read_manifest
from harness.portable.survey import ReadableStream, Survey


@dataclass(frozen=True)
class Imported:
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


def survey_archive(file: Path) -> Survey:
    """Survey an archive without judging it. An error that ends the reading becomes a finding.

    Raises:
        OSError: The file cannot be read.
    """
    survey = Survey()
    try:
        with archive.open_archive(file) as opened:
            for path, _, stream in opened:
                survey.add_file(path, stream)
    except archive.ArchiveError as error:
        survey.add_finding(f"{file.name}: {error}")
    return survey


def import_archive(file: Path, out: Path | None, root: Path) -> Imported:
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
    """Refuse an unsuitable folder before anything is unpacked."""
    if folder.is_symlink() and not folder.exists():
        raise UserError(f"{folder}: is a link to nowhere; choose another folder with --out")
    if folder.exists() and read_manifest(folder) is None and (
            not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: is there and holds no results; choose another folder with "
                        "--out")


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """Create a temporary folder on the same file system, for a rename into place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # One level deeper than the folders that commands search for the newest results.
    outer = Path(tempfile.mkdtemp(prefix=f".{folder.name}.import-", dir=folder.parent))
    try:
        inner = outer / "unpacked"
        inner.mkdir()
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def unpack_archive(opened: archive.Archive, unpacked: Path) -> Survey:
    """Write every result file below `unpacked`, and survey each while it is read.

    Reports are left out: an HTML page may contain programs, and may show anything that its sender
    wanted.
    """
    survey = Survey()
    for path, size, stream in opened:
        if kind_of(path) in DESCRIBING:
            survey.add_file(path, stream)
            if survey.packing_list is not None:
                _check_room(sum(survey.packing_list.files.values()), unpacked)
            continue
        if survey.packing_list is not None and survey.packing_list.files.get(path) != size:
            raise archive.ArchiveError(f"{path} has another size than manifest.json says, or is "
                                       "not in it")
        if kind_of(path) is FileKind.REPORT:
            survey.add_file(path, stream)
            continue
        target = unpacked / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_new(target) as sink:
            survey.add_file(path, _Tee(stream, sink))
    return survey


def open_new(path: Path) -> BinaryIO:
    """Open a file for writing that must not exist yet."""
    return path.open("xb")


class _Tee:
    """A stream that copies all data read from it."""

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


def _refuse_damage(file: Path, survey: Survey) -> None:
    findings = integrity.judge_survey(survey, archived=True)
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise UserError(f"{file}: {findings[0].text}{more}; './qop verify {file}' names all; "
                        "nothing was imported", status=1)


def _move_into_place(file: Path, survey: Survey, unpacked: Path, folder: Path) -> Imported:
    """Move verified, unpacked results to their folder, or merge them into it."""
    assert survey.plan is not None, "judged before"
    left_out = [path for path in survey.files if kind_of(path) is FileKind.REPORT]
    digest = seal.digest_of({path: facts.sha256 for path, facts in survey.files.items()})
    notices = (*seal.report_missing_digests(survey.bare, len(survey.records) + 1),
               *builtin.find_changed_builtins(survey.plan))
    done = Imported(folder, new=True, records=len(survey.records), added=len(survey.records),
                    captures=sum(kind_of(path) is FileKind.CAPTURE for path in survey.files),
                    left_out=left_out, digest=digest, notices=notices)
    if read_manifest(folder) is not None:
        merged = merging.merge_results(survey, unpacked, folder, file)
        return replace(done, new=False, added=merged.records, captures=merged.captures,
                       notices=(*notices, *merged.notices))
    assert survey.sums is not None, "judged before"
    checksums.write_sums(unpacked, {path: digest for path, digest in survey.sums.items()
                          if kind_of(path) not in DESCRIBING})
    try:
        unpacked.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); choose another folder with "
                        "--out", status=1) from None
    return done
