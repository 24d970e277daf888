"""Pack a results folder into an archive, read such archives safely, and delete captures on request.

`qop export` uses `export_folder`, `qop prune` uses `prune_captures`, and `qop import` uses
`open_archive`. An archive is a reproducible .tar.gz or .tar.xz: the same files give the same bytes.
One folder is at the top; SHA256SUMS and manifest.json come first in it, then all other files in
order of path. An archive is not trusted: if a member is not a plain file below that folder, or
occurs twice, the whole archive is refused. (Python's own filters exist since 3.11.4, and repair
members that they should refuse.) `export_folder` and `prune_captures` note which captures are
absent.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.errors import UserError
from harness.portable import checksums, integrity
from harness.portable import folder as portable_folder
from harness.portable.folder import (
    PACKING_LIST_FILE,
    PRUNED_FILE,
    SUMS_FILE,
    CaptureChoice,
    FileKind,
    PackingList,
    RemovedCaptures,
    find_file_kind,
    hold_folder_lock,
    is_safe_path,
    render_document,
    render_pruned,
)
from harness.portable.integrity import FolderSurvey, ReadableStream, digest_content, survey_files

# --- Format of an archive: writer, and reader of untrusted archives ---

#: 1980-01-01 in seconds since 1970: any constant would do, but tar warns of times near 1970.
_MTIME_S = 315_532_800
_LARGEST_READ_BYTES = 4 << 20
_LARGEST_HEADER_BYTES = 1 << 20
_MOST_MEMBERS = 1_000_000
_XZ_MAGIC = b"\xfd7zXZ\0"
#: A dictionary of 16 MB: records of a whole run are similar. It takes 200 MB of memory.
_XZ_PRESET = 7 | lzma.PRESET_EXTREME
#: Of a decompressor. The header of an .xz file may ask for a dictionary of 4 GB.
_LARGEST_XZ_MEMORY_BYTES = 100 << 20
_XZ_PIECE_BYTES = 1 << 16
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_FIRST = (SUMS_FILE, PACKING_LIST_FILE)


class ArchiveError(ValueError):
    """An error: a file is no complete archive of qop. The text is one line without its name."""


def make_folder_name(folder: Path) -> str:
    """Return the name that a results folder has in its archive, in portable characters.

    The name is equal on every machine and does not depend on the path that the command was given.
    """
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", folder.resolve().name).lstrip(".-")
    return name[:100] or "results"


def write_archive(file: Path, top: str, members: Mapping[str, Path | bytes],
                  digests: Mapping[str, str]) -> None:
    """Write an archive.

    After an error, no incomplete file remains.

    Args:
        file: The archive. It is compressed by xz if its name ends in .xz, else by gzip.
        top: Name of its folder.
        members: Files or contents by path below that folder.
        digests: Expected SHA-256 by path; a path without one is not compared.

    Raises:
        OSError: A file cannot be read or written.
        ArchiveError: A file does not match its digest any more.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as raw:
            with _make_compressor(file, raw) as packed, \
                    tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path in sorted(members, key=_sort_key):
                    _add_member(tar, f"{top}/{path}", members[path], digests.get(path))
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _make_compressor(file: Path, raw: BinaryIO) -> gzip.GzipFile | lzma.LZMAFile:
    """Return a stream that compresses to `raw`."""
    if file.suffix == ".xz":
        return lzma.LZMAFile(raw, "wb", preset=_XZ_PRESET)
    # gzip's header gets no file name and no time, as they are not part of the folder.
    return gzip.GzipFile("", "wb", 6, raw, mtime=0)


def _sort_key(path: str) -> tuple[int, str]:
    return (_FIRST.index(path) if path in _FIRST else len(_FIRST), path)


def _add_member(tar: tarfile.TarFile, name: str, content: Path | bytes, digest: str | None) -> None:
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as stream:
        member = tarfile.TarInfo(name)
        member.size = (len(content) if isinstance(content, bytes)
                       else os.fstat(stream.fileno()).st_size)
        member.mtime, member.mode = _MTIME_S, 0o644
        hashing = _HashingStream(stream)
        tar.addfile(member, hashing)
    if digest is not None and hashing.digest.hexdigest() != digest:
        raise ArchiveError(f"{name.partition('/')[2]} changed while it was packed")


class _HashingStream:
    """A stream that computes the SHA-256 of all data read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


class Archive:
    """An archive that is open for reading. Iteration yields its members.

    `top` is the name of its folder.
    """

    def __init__(self, packed: _XzStream | gzip.GzipFile) -> None:
        self._packed = packed
        self._bounded = _BoundedStream(packed)
        # tarfile's stream modes are not used: they read ahead, beyond the limit on headers. The
        # caller closes `packed`, and nothing else is open.
        self._tar = tarfile.TarFile(fileobj=self._bounded)  # type: ignore[arg-type]
        first = self._tar.next()
        if first is None:
            raise ArchiveError("is empty")
        self._first: tarfile.TarInfo | None = first
        self.top = first.name.partition("/")[0]
        if not is_safe_path(self.top):
            raise ArchiveError(f"its first member is {first.name[:200]!r}; that is no folder's "
                               "name to unpack to")

    def __iter__(self) -> Iterator[tuple[str, int, ReadableStream]]:
        """Yield each file of the archive: its path below the top folder, its size and a stream.

        Read each stream before the next file is requested. The archive can be iterated once.

        Raises:
            ArchiveError: A member is not a plain file of a results folder.
        """
        seen: set[str] = set()
        member, self._first = self._first, None
        while member is not None:
            path = self._path_of(member)
            if path is not None:
                if path in seen:
                    raise ArchiveError(f"member {path} is there twice")
                seen.add(path)
                if len(seen) > _MOST_MEMBERS:
                    raise ArchiveError(f"has more than {_MOST_MEMBERS} members")
                stream = self._tar.extractfile(member)
                assert stream is not None, "a plain file has content"
                self._bounded.header_bytes = None
                yield path, member.size, stream
                self._bounded.header_bytes = _LARGEST_HEADER_BYTES
            # tarfile would keep all members that were read in memory.
            self._tar.members = []  # type: ignore[attr-defined]
            member = self._tar.next()
        self._expect_end()

    def _path_of(self, member: tarfile.TarInfo) -> str | None:
        """Return the path of an archive's member below the top folder, None for a folder."""
        shown = repr(member.name[:200])
        if member.size < 0 or member.issparse() or not (member.isdir() or member.type in _PLAIN):
            raise ArchiveError(f"member {shown} is not a plain file (a link, a device or worse)")
        top, _, path = member.name.partition("/")
        # Every member is below the top folder; the top folder itself has no path.
        if top != self.top or (path and not is_safe_path(path)) or not (path or member.isdir()):
            raise ArchiveError(f"member {shown} would lie outside the folder {self.top}, or hidden")
        if member.isdir():
            return None
        if find_file_kind(path) is None:
            raise ArchiveError(f"member {shown} is nothing that belongs to results; was it packed "
                               "by a newer version?")
        return path

    def _expect_end(self) -> None:
        """Read the checksum at the end of the archive, and refuse further content."""
        for _ in range(8):
            data = self._packed.read(_LARGEST_READ_BYTES)
            if not data:
                return
            if data.strip(b"\0"):
                break
        raise ArchiveError("has something behind its end")


class _BoundedStream:
    """A stream that limits the size of the tar headers read from it.

    tarfile accepts any size in extension headers, even gigabytes or negative ones. `header_bytes`
    is the number of bytes that may be read until the next member; None while a member's content is
    read.
    """

    def __init__(self, stream: _XzStream | gzip.GzipFile) -> None:
        self._stream = stream
        self._position = 0
        self.header_bytes: int | None = _LARGEST_HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_READ_BYTES:
            raise ArchiveError("has a header of an impossible size")
        if self.header_bytes is not None:
            self.header_bytes -= size
            if self.header_bytes < 0:
                raise ArchiveError("has a header of an impossible size")
        return self._read_counted(size)

    def _read_counted(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or offset < self._position:
            raise ArchiveError("has headers that lead backwards")
        while self._position < offset and self._read_counted(
                min(offset - self._position, _LARGEST_READ_BYTES)):
            pass
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return True


class _XzStream:
    """A stream of the content of an .xz file, whose decompressor may use little memory only."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, _LARGEST_XZ_MEMORY_BYTES)

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size and not self._decompressor.eof:
            packed = self._raw.read(_XZ_PIECE_BYTES) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not packed:
                raise EOFError("it is cut short")
            data += self._decompressor.decompress(packed, size - len(data))
        if self._decompressor.eof and (self._decompressor.unused_data or self._raw.read(1)):
            raise ArchiveError("has something behind its end")
        return bytes(data)


def _make_decompressor(raw: BinaryIO) -> _XzStream | gzip.GzipFile:
    """Return a stream of the content of an .xz or .gz file."""
    magic = raw.read(len(_XZ_MAGIC))
    raw.seek(0)
    return _XzStream(raw) if magic == _XZ_MAGIC else gzip.GzipFile(fileobj=raw)


@contextmanager
def open_archive(file: Path) -> Iterator[Archive]:
    """Open an archive for reading.

    Raises:
        OSError: The file cannot be read.
        ArchiveError: The content is no valid archive.
    """
    # gzip's errors are OSErrors, which mean the file system everywhere else.
    with file.open("rb") as raw:
        try:
            yield Archive(_make_decompressor(raw))
        except ArchiveError:
            raise
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, tarfile.TarError,
                RecursionError, ValueError, OverflowError) as error:
            reason = str(error) or type(error).__name__
            raise ArchiveError(f"is not a whole .tar.gz or .tar.xz ({reason})") from None


# --- Export of a results folder, with notes about the captures that are left out ---

#: Captures are selected separately; reports can be created again from the records.
_LEFT_OUT = frozenset({FileKind.CAPTURE, FileKind.PACKING_LIST, FileKind.REPORT})
#: What no report reads: logs and events, and the judge's raw data.
_NOT_REPORTED = frozenset({FileKind.LOG, FileKind.FILE})


@dataclass(frozen=True)
class ExportResult:
    """The result of an export: what the archive contains.

    `digest` is the digest of its plan and records. Files in the folder that are not qop's are
    named, too.
    """

    file: Path
    bytes: int
    records: int
    captures: int
    foreign: list[str]
    digest: str


def export_folder(folder: Path, file: Path, captures: CaptureChoice, *,
                  records_only: bool = False) -> ExportResult:
    """Pack a results folder into an archive.

    Args:
        folder: The results folder.
        file: The archive; it must not exist.
        captures: Which captures are packed: all, those of failed repetitions, or none.
        records_only: Whether only what a report needs is packed.

    Raises:
        UserError: The folder is damaged or in use, or a file cannot be read or written.
    """
    if file.exists():
        raise UserError(f"{file}: is there already; give another name with -o, or remove it")
    if not file.absolute().parent.is_dir():
        raise UserError(f"{file}: there is no folder to put it in; make {file.parent}, or give "
                        "another name with -o")
    try:
        with hold_folder_lock(folder, exclusive=False):
            return _export_locked(folder, file, captures, records_only=records_only)
    except ArchiveError as error:
        raise UserError(f"{folder}: {error}; give the command again", status=1) from None
    except OSError as error:
        raise UserError(f"{error.filename or file}: {error.strerror or error}; nothing was "
                        "exported", status=1) from None


def _export_locked(folder: Path, file: Path, choice: CaptureChoice, *,
                   records_only: bool) -> ExportResult:
    scanned = portable_folder.scan_folder(folder)
    omitted = _LEFT_OUT | _NOT_REPORTED if records_only else _LEFT_OUT
    survey = survey_files((path, place) for path, place in scanned.files.items()
                          if find_file_kind(path) not in omitted)
    taken, left_out = _choose_captures(scanned.files, survey, choice)
    if records_only:
        left_out += [path for path in scanned.files if find_file_kind(path) is FileKind.FILE
                     and portable_folder.find_repetition_name(path) in survey.records]
    survey_files(((path, scanned.files[path]) for path in taken), survey)
    _mark_pruned(survey, scanned.files, left_out)
    _refuse_damage(folder, survey)
    members: dict[str, Path | bytes] = {
        path: scanned.files[path] for path in survey.files if path not in {SUMS_FILE, PRUNED_FILE}}
    pruned = survey.pruned.without_outdated(survey.record_digests())
    if pruned.captures:
        members[PRUNED_FILE] = render_pruned(pruned).encode()
    sums = _add_descriptions(members, survey, choice)
    write_archive(file, make_folder_name(folder), members, sums)
    return ExportResult(file, file.stat().st_size, len(survey.records), len(taken), scanned.foreign,
                        checksums.hash_results(sums))


def _choose_captures(files: dict[str, Path], survey: FolderSurvey,
                     choice: CaptureChoice) -> tuple[list[str], list[str]]:
    """Return the captures to put into an archive, and those to leave out.

    Captures without a record are in neither list.
    """
    taken: list[str] = []
    left_out: list[str] = []
    for path in files:
        if find_file_kind(path) is FileKind.CAPTURE:
            entry = survey.records.get(portable_folder.find_repetition_name(path))
            if entry is not None:
                goes = choice == "all" or (choice == "failed" and entry.status != "ok")
                (taken if goes else left_out).append(path)
    return taken, left_out


def _mark_pruned(survey: FolderSurvey, files: dict[str, Path], left: list[str]) -> None:
    """Mark the files that an archive leaves out as deleted on request (pruned.json)."""
    removed: dict[str, dict[str, int]] = {}
    for path in left:
        _, name, file = path.split("/")
        removed.setdefault(name, {})[file] = files[path].stat().st_size
    digests = survey.record_digests()
    survey.pruned = survey.pruned.with_removed({
        name: RemovedCaptures(record_sha256=digests[name], files=sizes)
        for name, sizes in removed.items()})
    if survey.sums is not None:
        # The folder's own list also covers files that were not read, but they cannot be compared.
        survey.sums = {path: digest for path, digest in survey.sums.items()
                       if path in survey.files or path not in files}


def _refuse_damage(folder: Path, survey: FolderSurvey) -> None:
    """Raise UserError for a damaged folder, because its archive would be damaged, too."""
    findings = [finding for finding in integrity.judge_survey(survey, archived=False)
                if not finding.renewable]
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise UserError(f"{folder}: {findings[0].text}{more}; './qop verify {folder}' names all, "
                        "put them right first", status=1)


def _add_descriptions(members: dict[str, Path | bytes], survey: FolderSurvey,
                      choice: CaptureChoice) -> dict[str, str]:
    """Add manifest.json and SHA256SUMS to the files of an archive.

    Returns the checksums of all files except SHA256SUMS.
    """
    sums: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for path, content in members.items():
        facts = digest_content(content) if isinstance(content, bytes) else survey.files[path]
        sums[path], sizes[path] = facts.sha256, facts.bytes
    assert survey.plan is not None, "a folder without a plan is refused before"
    packing_list = render_document(PackingList(
        plan=survey.plan.digest, captures=choice, records=len(survey.records),
        files=dict(sorted(sizes.items()))))
    members[PACKING_LIST_FILE] = packing_list.encode()
    sums[PACKING_LIST_FILE] = digest_content(packing_list.encode()).sha256
    members[SUMS_FILE] = checksums.render_sums(sums).encode()
    return sums


# --- Removal of captures by choice: pruned.json lists them, so that records stay consistent ---

#: Choices that apply to any folder. Any other choice is a part of a repetition, which is the first
#: part of a capture's name (`PART-POINT.pcap`, see measure.capture.tcpdump): captures of it are
#: kept.
KEEP_FAILED, KEEP_NO_CAPTURES = "keep-failed", "none"


@dataclass(frozen=True)
class PruneResult:
    """The number and total size of the captures that `qop prune` has deleted."""

    captures: int
    bytes: int


def prune_captures(folder: Path, choice: str) -> PruneResult:
    """Delete captures of a results folder (`qop prune`).

    Args:
        folder: The results folder.
        choice: KEEP_FAILED, KEEP_NO_CAPTURES, or the part of a repetition (such as "auth") whose
            captures are kept.

    Raises:
        UserError: The folder is in use, a file cannot be removed, or no capture is of that part.
    """
    try:
        with hold_folder_lock(folder, exclusive=True):
            return _prune_locked(folder, choice)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror or error}; put that right "
                        "and give the command again", status=1) from None


def _prune_locked(folder: Path, choice: str) -> PruneResult:
    files = portable_folder.scan_folder(folder).files
    survey = survey_files((path, place) for path, place in files.items()
                          if find_file_kind(path)
                          in {FileKind.RECORD, FileKind.PRUNED, FileKind.SUMS})
    broken = next((finding for finding in survey.findings
                   if finding.text.startswith((PRUNED_FILE, portable_folder.SUMS_FILE))), None)
    if broken:
        raise UserError(f"{folder}: {broken.text}; move it away first", status=1)
    captures = [path for path in files if find_file_kind(path) is FileKind.CAPTURE]
    _refuse_unknown(captures, choice)
    going = {path: files[path].stat().st_size for path in captures
             if not _is_kept(survey, path, choice)}
    # The note is written first: a killed pruning leaves more than the note says, never less.
    _write_note(folder, survey, going)
    for path in going:
        files[path].unlink()
        _remove_empty(files[path].parent)
    return PruneResult(len(going), sum(going.values()))


def _refuse_unknown(captures: list[str], choice: str) -> None:
    """Raise UserError if no capture belongs to the part to keep: all would be deleted."""
    parts = sorted({_part_of(path) for path in captures})
    if captures and choice not in (KEEP_FAILED, KEEP_NO_CAPTURES, *parts):
        raise UserError(f"--captures {choice}: no capture here is of that part; choose from "
                        f"{', '.join((*parts, KEEP_FAILED, KEEP_NO_CAPTURES))}")


def _part_of(path: str) -> str:
    """Return the part of a repetition (such as "auth") that a capture's file name shows."""
    return path.split("/")[2].partition("-")[0]


def _is_kept(survey: FolderSurvey, path: str, choice: str) -> bool:
    """Return whether a capture is kept. An unreadable record counts as failed."""
    name = portable_folder.find_repetition_name(path)
    if f"records/{name}.json" not in survey.files:
        return False  # an interrupted run left it; no record names it
    entry = survey.records.get(name)
    if choice == KEEP_FAILED:
        return entry is None or entry.status != "ok"
    return choice != KEEP_NO_CAPTURES and _part_of(path) == choice


def _write_note(folder: Path, survey: FolderSurvey, going: dict[str, int]) -> None:
    """Write the deleted captures to pruned.json, and remove them from SHA256SUMS."""
    digests = survey.record_digests()
    removed: dict[str, dict[str, int]] = {}
    for path, size in going.items():
        _, name, file = path.split("/")
        removed.setdefault(name, {})[file] = size
    pruned = survey.pruned.without_outdated(digests).with_removed({
        name: RemovedCaptures(record_sha256=digests[name], files=sizes)
        for name, sizes in removed.items() if name in digests})
    if not pruned.captures and not going:
        return
    text = render_pruned(pruned)
    if survey.sums is not None:
        sums = {path: digest for path, digest in survey.sums.items()
                if path not in going and path != portable_folder.PACKING_LIST_FILE}
        checksums.replace_file(folder / portable_folder.SUMS_FILE,
                     checksums.render_sums({**sums,
                                            PRUNED_FILE: digest_content(text.encode()).sha256}))
        (folder / portable_folder.PACKING_LIST_FILE).unlink(missing_ok=True)
    checksums.replace_file(folder / PRUNED_FILE, text)


def _remove_empty(place: Path) -> None:
    if not any(place.iterdir()):
        place.rmdir()
