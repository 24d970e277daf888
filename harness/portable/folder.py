"""List the files of a results folder, lock the folder, and read its plan and other JSON documents.

A results folder has the plan, records and captures of a run. `scan_folder` lists the files by
relative path, and `find_file_kind` returns the kind of a path, such as record or capture.
`hold_folder_lock` keeps other commands from changing files meanwhile. `read_manifest` returns the
stored plan. The formats of pruned.json and of an archive's manifest.json are here, because writers
and readers of both share them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from documents import refusals
from harness.errors import UserError
from measure.records import manifest
from measure.records.manifest import FILE, Manifest, ManifestError
from studies import records as stored

# --- Kinds of files by their path, and a scan for them ---

SUMS_FILE = "SHA256SUMS"
PACKING_LIST_FILE = "manifest.json"
PLAN_FILE = manifest.FILE
PRUNED_FILE = "pruned.json"

_LONGEST_NAME_BYTES = 200
_DEEPEST = 8


class FileKind(Enum):
    """The kind of a file in a results folder or an archive, such as record or capture."""

    PLAN = "plan"
    RECORD = "record"
    PROVENANCE = "provenance"
    PRUNED = "pruned"
    REPORT = "report"
    LOG = "log"
    CAPTURE = "capture"
    FILE = "file"
    SUMS = "sums"
    PACKING_LIST = "packing list"


#: Suffixes of data files that studies keep: types that no browser, shell or TeX opens.
DATA_SUFFIXES = ("csv", "json", "jsonl", "key", "keytab", "log", "pem", "txt")
#: Kinds by full path; a file that matches none does not belong to a results folder. An archive is
#: refused for one such file, so that a web page cannot be hidden among the logs.
_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in (
    (r"plan\.json", FileKind.PLAN),
    (r"records/[^/]+\.json", FileKind.RECORD),
    # Superseded records of an edited policy are provenance, not results.
    (r"provenance([.-][^/]+)?\.json|(provenance|superseded/[^/]+/records)/[^/]+\.json",
     FileKind.PROVENANCE),
    (r"pruned\.json", FileKind.PRUNED),
    # The figures of a study (analysis.present.report.Figure) may have any name.
    (r"report\.html|[^/]+\.(svg|png|pdf)|tables/.+", FileKind.REPORT),
    # The events that a run and its repetitions reported are logs, too.
    (r"logs/.+\.log|events\.jsonl|events/[^/]+\.jsonl", FileKind.LOG),
    (rf"files/[^/]+/[^/]+\.({'|'.join(DATA_SUFFIXES)})(\.gz)?", FileKind.FILE),
    (r"captures/[^/]+/[^/]+", FileKind.CAPTURE),
    (r"SHA256SUMS", FileKind.SUMS),
    (r"manifest\.json", FileKind.PACKING_LIST)))
#: Kinds that describe the other files instead of the measurement.
DESCRIBING = frozenset({FileKind.SUMS, FileKind.PACKING_LIST})


@dataclass
class FolderContents:
    """The files of a results folder by relative path, sorted, and names that are not qop's.

    `odd` are links and special files that have the name of a result.
    """

    files: dict[str, Path] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def find_file_kind(path: str) -> FileKind | None:
    """Return the kind of a file in a results folder, from its relative path.

    The result is None if no such file belongs into a results folder.
    """
    if not is_safe_path(path):
        return None
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(path)), None)


def is_safe_path(path: str) -> bool:
    """Return whether a relative path stays below its folder, is not hidden and fits SHA256SUMS."""
    parts = path.split("/")
    return len(parts) <= _DEEPEST and all(
        part and part[0] not in ".-" and part.isprintable() and "\\" not in part
        and len(part.encode()) <= _LONGEST_NAME_BYTES for part in parts)


def find_repetition_name(path: str) -> str:
    """Return the repetition that a capture or file belongs to, from its path."""
    return path.split("/")[1]


def scan_folder(folder: Path) -> FolderContents:
    """Return the files of a results folder.

    Links are not followed. Hidden files and `work/` belong to a run in progress and are skipped.

    Raises:
        OSError: A folder cannot be read.
    """
    contents = FolderContents()
    for place, folders, names in os.walk(folder, onerror=_raise_error):
        here = Path(place)
        if here == folder and "work" in folders:
            folders.remove("work")
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in links)
        for name in [*names, *links]:
            path = here / name
            relative = path.relative_to(folder).as_posix()
            if find_file_kind(relative) and stat.S_ISREG(path.lstat().st_mode):
                contents.files[relative] = path
            elif name[0] != ".":
                contents.foreign.append(relative)
                if not stat.S_ISREG(path.lstat().st_mode) and _is_ours(relative):
                    contents.odd.append(relative)
    contents.files = dict(sorted(contents.files.items()))
    contents.foreign.sort()
    return contents


def _is_ours(path: str) -> bool:
    """Return whether qop writes files or folders with this path to a results folder."""
    return any(find_file_kind(f"{path}{below}") for below in ("", "/x.json", "/x/x.json"))


def _raise_error(error: OSError) -> None:
    raise error


# --- Lock against runs and other commands while files are read or changed ---

_LOCK = ".lock"
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)


@contextmanager
def hold_folder_lock(folder: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold the lock of a results folder: exclusive to change files, shared to read them.

    A run holds it exclusively.

    Raises:
        UserError: A run, or another command that changes files, holds the lock.
    """
    descriptor = _open_lock(folder, exclusive=exclusive)
    if descriptor is None:
        yield
        return
    try:
        _lock_file(descriptor, folder, exclusive=exclusive)
        yield
    finally:
        os.close(descriptor)


def is_folder_locked(folder: Path) -> bool:
    """Return whether a run, or a command that changes files, is using the folder now."""
    try:
        with hold_folder_lock(folder, exclusive=False):
            return False
    except UserError:
        return True


def _lock_file(descriptor: int, folder: Path, *, exclusive: bool) -> None:
    how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{folder}: a run is writing there, or another command is at work; "
                        "wait until it has ended ('./qop status' tells)") from None


def _open_lock(folder: Path, *, exclusive: bool) -> int | None:
    """Open the lock file of a results folder and return its descriptor.

    Return None for a reader if there is no lock file, or if it must not be opened.
    """
    try:
        if exclusive:
            return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        return os.open(folder / _LOCK, os.O_RDONLY)
    except OSError as error:
        if not exclusive and error.errno in _READ_ONLY:
            return None
        raise UserError(f"{folder}: cannot be written ({error.strerror}); "
                        "make it writable, or copy it") from None


# --- Manifest; an unreadable manifest is an error ---

def read_manifest(folder: Path) -> Manifest | None:
    """Return the stored plan (plan.json) of a results folder, or None if there is none.

    A damaged plan, or one of another version, is an error: records depend on it.

    Raises:
        UserError: The manifest cannot be read.
    """
    if not (folder / FILE).exists():
        return None
    try:
        return stored.read_manifest(folder)
    except ManifestError as error:
        what = str(error).partition("; ")[0]
        raise UserError(f"{what}; use the version that wrote it, or move {FILE} away if it is "
                        "damaged") from None


def read_manifest_or_none(folder: Path) -> Manifest | None:
    """Return the stored plan (plan.json) of a folder, None if it is missing or unreadable."""
    try:
        return read_manifest(folder)
    except UserError:
        return None


# --- Formats of pruned.json and of an archive's manifest.json, as pydantic models ---

CaptureChoice = Literal["all", "failed", "none"]


class DocumentError(ValueError):
    """An error: text is not the expected JSON document. The message is one line for the user."""


class RemovedCaptures(BaseModel):
    """The deleted captures of one repetition: sizes in bytes by file name.

    Raw data that an archive leaves out (`files/NAME/`) is listed, too. The record's digest
    shows whether it is still the record that the captures belonged to.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    record_sha256: str
    files: dict[str, int]


class PrunedCaptures(BaseModel):
    """The format of pruned.json: captures that were deleted on request, by repetition.

    An archive of records only lists the raw data that it leaves out, too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    schema_: Literal[1] = Field(default=1, alias="schema")
    captures: dict[str, RemovedCaptures] = {}

    def covers_file(self, name: str, record_sha256: str, file: str) -> bool:
        """Return whether a capture of exactly this record was deleted on request."""
        removed = self.captures.get(name)
        return (removed is not None and removed.record_sha256 == record_sha256
                and file in removed.files)

    def with_removed(self, more: Mapping[str, RemovedCaptures]) -> PrunedCaptures:
        """Return a copy with further deleted captures.

        An entry of another record with the same name is replaced.
        """
        captures = dict(self.captures)
        for name, removed in more.items():
            known = captures.get(name)
            files = known.files if known and known.record_sha256 == removed.record_sha256 else {}
            captures[name] = RemovedCaptures(record_sha256=removed.record_sha256,
                                             files={**files, **removed.files})
        return PrunedCaptures(captures=captures)

    def without_present(self, present: Iterable[str]) -> PrunedCaptures:
        """Return a copy without the files that exist (paths like captures/NAME/x.pcap.gz)."""
        present_files = set(present)
        left = {name: {file: size for file, size in removed.files.items()
                       if find_removed_path(name, file) not in present_files}
                for name, removed in self.captures.items()}
        return PrunedCaptures(captures={
            name: RemovedCaptures(record_sha256=self.captures[name].record_sha256, files=files)
            for name, files in left.items() if files})

    def without_outdated(self, records: Mapping[str, str]) -> PrunedCaptures:
        """Return a copy without entries about records that were replaced since.

        `records` are the current digests by name.
        """
        return PrunedCaptures(captures={name: removed for name, removed in self.captures.items()
                                        if records.get(name) == removed.record_sha256})


def find_removed_path(name: str, file: str) -> str:
    """Return the path that a deleted file of a repetition had.

    No capture has the name of a data file, because no data file ends like a capture.
    """
    data = f"files/{name}/{file}"
    return data if find_file_kind(data) else f"captures/{name}/{file}"


class PackingList(BaseModel):
    """The format of an archive's manifest.json: sizes in bytes by path, and counts.

    It lists every file except manifest.json and SHA256SUMS. SHA256SUMS lists manifest.json.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    schema_: Literal[1] = Field(default=1, alias="schema")
    plan: str
    captures: CaptureChoice
    records: int
    files: dict[str, int]


_Document = TypeVar("_Document", bound=BaseModel)


def parse_document(model: type[_Document], text: str, where: str) -> _Document:
    """Parse and validate a JSON document.

    Raises:
        DocumentError: The text is invalid; the message names `where` and the field.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise DocumentError(f"{where}: {field}: {refusals.describe_refused_value(first)}") from None


def render_document(document: BaseModel) -> str:
    """Return a document as JSON text. Equal documents give equal text."""
    return document.model_dump_json(by_alias=True, indent=1) + "\n"


def render_pruned(pruned: PrunedCaptures) -> str:
    """Return the text of pruned.json, sorted by name."""
    return render_document(PrunedCaptures(captures={
        name: RemovedCaptures(record_sha256=removed.record_sha256,
                              files=dict(sorted(removed.files.items())))
        for name, removed in sorted(pruned.captures.items())}))
