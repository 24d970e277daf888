"""Survey a results folder or an archive: read and parse each file once, in any order.

`Survey.add_file` reads one file after the other as a stream. So a folder and an archive are read
alike, and nothing has to be unpacked first. `harness.portable.integrity` judges the result.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.portable import checksums, contents
from harness.portable.capture_test import CaptureTest
from harness.portable.contents import FileKind
from harness.portable.documents import DocumentError, PackingList, Pruned, parse_document
from measure import manifest, record
from measure.document import has_digest
from measure.manifest import Manifest, ManifestError
from measure.record import LARGEST_DOCUMENT_BYTES, Record, RecordError
from studies import records as stored

_TEXTS = frozenset({FileKind.PLAN, FileKind.RECORD, FileKind.PRUNED, FileKind.SUMS,
                    FileKind.PACKING_LIST})


class ReadableStream(Protocol):
    """A stream that a file is read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, none at the end."""


@dataclass(frozen=True)
class Facts:
    """The size and the SHA-256 of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class IntegrityFinding:
    """A finding about a file. `renewable` means that new checksums would resolve it."""

    text: str
    renewable: bool = False


@dataclass
class Survey:
    """All facts about a folder or an archive after all its files were read.

    `records` are by the name of their file, including records that no table can use. `broken`
    gives the fault of captures and other compressed files, by path. `altered` are documents that
    do not match their own digest, `bare` those without a digest. `sums` are the lines of
    SHA256SUMS.
    """

    files: dict[str, Facts] = field(default_factory=dict)
    findings: list[IntegrityFinding] = field(default_factory=list)
    plan: Manifest | None = None
    pruned: Pruned = field(default_factory=Pruned)
    records: dict[str, Record] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    altered: dict[str, str] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)
    sums: dict[str, str] | None = None
    packing_list: PackingList | None = None
    #: Text of a plan and entries of provenance, to read a plan of an earlier schema in any order.
    _plan_text: bytes = b""
    _history: list[Any] = field(default_factory=list)

    def add_file(self, path: str, stream: ReadableStream) -> None:
        """Read one file to its end. What is wrong with it becomes a finding."""
        kind = contents.kind_of(path)
        is_packed = kind is FileKind.FILE and path.endswith(".gz")
        test = CaptureTest(path, is_capture=kind is FileKind.CAPTURE) \
            if kind is FileKind.CAPTURE or is_packed else None
        digest, size = hashlib.sha256(), 0
        text = bytearray()
        while data := stream.read(checksums.CHUNK_BYTES):
            digest.update(data)
            size += len(data)
            if test is not None:
                test.feed(data)
            elif (kind in _TEXTS or path == manifest.HISTORY) and size <= LARGEST_DOCUMENT_BYTES:
                text += data
        self.files[path] = Facts(size, digest.hexdigest())
        if test is not None and (complaint := test.find_fault()):
            self.broken[path] = complaint
        elif kind in _TEXTS and size > LARGEST_DOCUMENT_BYTES:
            self.add_finding(f"{path}: has {size} bytes, more than such a file ever has")
        elif kind in _TEXTS or path == manifest.HISTORY:
            self._parse_file(kind, path, bytes(text))

    def add_finding(self, text: str, *, renewable: bool = False) -> None:
        """Add a finding, as one line of printable characters."""
        line = "".join(letter if letter.isprintable() else "?" for letter in text)
        self.findings.append(IntegrityFinding(line, renewable))

    def record_digests(self) -> dict[str, str]:
        """Return the SHA-256 of every readable record by name."""
        return {name: self.files[record_path(name)].sha256 for name in self.records}

    def _parse_file(self, kind: FileKind | None, path: str, content: bytes) -> None:
        try:
            text = content.decode()
            if kind is FileKind.RECORD:
                self._parse_record(path, text)
            elif kind is FileKind.PLAN:
                self._plan_text = content
                self._parse_plan(path, text)
            elif kind is FileKind.PROVENANCE:
                self._note_history(content)
            elif kind is FileKind.PRUNED:
                self.pruned = parse_document(Pruned, text, path)
            elif kind is FileKind.SUMS:
                self.sums = checksums.parse_sums(text, path)
            else:
                self.packing_list = parse_document(PackingList, text, path)
        except UnicodeDecodeError:
            self.add_finding(f"{path}: is not text")
        except (RecordError, ManifestError, DocumentError, checksums.ChecksumError) as error:
            self.add_finding(str(error))

    def _parse_record(self, path: str, text: str) -> None:
        """Add a record, and a finding if it is invalid.

        Raises:
            RecordError: The text is no record.
        """
        entry = self.records[Path(path).stem] = stored.parse_record(text, path)
        self._note_bare(path, text)
        try:
            record.check_unaltered(text, path)
        except RecordError as error:
            self.altered[path] = str(error)
        stored.check_record(entry, path)

    def _parse_plan(self, path: str, text: str) -> None:
        """Add the plan, and a finding if it is invalid.

        Raises:
            ManifestError: The text is no plan.
        """
        self.plan = stored.parse_manifest(text, path, self._history)
        self._note_bare(path, text)
        try:
            manifest.check_unaltered(self.plan, text, path)
            stored.check_manifest(self.plan, text, path)
        except ManifestError as error:
            self.altered[path] = str(error)

    def _note_bare(self, path: str, text: str) -> None:
        if not has_digest(text.encode()):
            self.bare.append(path)

    def _note_history(self, content: bytes) -> None:
        """Note the provenance of results. A plan of an earlier schema is read with it."""
        with contextlib.suppress(ValueError, RecursionError):
            entries = json.loads(content)
            self._history = entries if isinstance(entries, list) else []
        if self.plan is not None:
            self.plan = stored.parse_manifest(self._plan_text, manifest.FILE, self._history)


def record_path(name: str) -> str:
    """Return the relative path of a repetition's record."""
    return f"records/{name}.json"


def facts_of(content: bytes) -> Facts:
    """Return size and digest of content in memory."""
    return Facts(len(content), hashlib.sha256(content).hexdigest())


def survey_files(files: Iterable[tuple[str, Path]], survey: Survey | None = None) -> Survey:
    """Survey files of a folder.

    Raises:
        OSError: A file cannot be read.
    """
    survey = survey or Survey()
    for relative, path in files:
        with path.open("rb") as stream:
            survey.add_file(relative, stream)
    return survey
