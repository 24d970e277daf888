"""What is in a results folder or an archive: each file read once, in any order, and understood.

`Survey.look` takes one file after the other as a stream, so that a folder and an archive are read
alike and nothing has to be unpacked to be judged. `harness.portable.integrity` judges the whole.
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
from harness.portable.documents import DocumentError, PackingList, Pruned, parse
from measure import manifest, record
from measure.document import has_digest
from measure.manifest import Manifest, ManifestError
from measure.record import LARGEST_DOCUMENT_BYTES, Record, RecordError
from studies import records as stored

_TEXTS = frozenset({FileKind.PLAN, FileKind.RECORD, FileKind.PRUNED, FileKind.SUMS,
                    FileKind.PACKING_LIST})


class ReadableStream(Protocol):
    """What a file is read from."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""


@dataclass(frozen=True)
class Facts:
    """One file: its size and SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class IntegrityFinding:
    """Something that is not as it should be; `renewable`: new checksums would put it right."""

    text: str
    renewable: bool = False


@dataclass
class Survey:
    """Everything that is known of a folder or an archive once all its files were looked at.

    `records` are by the name of their file, those that no table can use among them; `broken` says
    what is wrong with captures and other compressed files, by path, and `altered` which documents
    are not what their own digest says; `bare` are those without one. `sums` are what SHA256SUMS
    lists.
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
    #: What is needed to read a plan of an earlier schema, in whatever order its parts come.
    _plan_text: bytes = b""
    _history: list[Any] = field(default_factory=list)

    def look(self, path: str, stream: ReadableStream) -> None:
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
        if test is not None and (complaint := test.complaint()):
            self.broken[path] = complaint
        elif kind in _TEXTS and size > LARGEST_DOCUMENT_BYTES:
            self.complain(f"{path}: has {size} bytes, more than such a file ever has")
        elif kind in _TEXTS or path == manifest.HISTORY:
            self._understand(kind, path, bytes(text))

    def complain(self, text: str, *, renewable: bool = False) -> None:
        """Add a finding, on one line whatever is in it."""
        line = "".join(letter if letter.isprintable() else "?" for letter in text)
        self.findings.append(IntegrityFinding(line, renewable))

    def record_digests(self) -> dict[str, str]:
        """SHA-256 of every readable record by name."""
        return {name: self.files[record_path(name)].sha256 for name in self.records}

    def _understand(self, kind: FileKind | None, path: str, content: bytes) -> None:
        try:
            text = content.decode()
            if kind is FileKind.RECORD:
                self._understand_record(path, text)
            elif kind is FileKind.PLAN:
                self._plan_text = content
                self._understand_plan(path, text)
            elif kind is FileKind.PROVENANCE:
                self._note_history(content)
            elif kind is FileKind.PRUNED:
                self.pruned = parse(Pruned, text, path)
            elif kind is FileKind.SUMS:
                self.sums = checksums.parse(text, path)
            else:
                self.packing_list = parse(PackingList, text, path)
        except UnicodeDecodeError:
            self.complain(f"{path}: is not text")
        except (RecordError, ManifestError, DocumentError, checksums.ChecksumError) as error:
            self.complain(str(error))

    def _understand_record(self, path: str, text: str) -> None:
        """Take a record in, with what is wrong with it. Raises RecordError where it is none."""
        entry = self.records[Path(path).stem] = stored.parse(text, path)
        self._note_bare(path, text)
        try:
            record.refuse_altered(text, path)
        except RecordError as error:
            self.altered[path] = str(error)
        stored.check(entry, path)

    def _understand_plan(self, path: str, text: str) -> None:
        """Take the plan in, with what is wrong with it. Raises ManifestError where it is none."""
        self.plan = stored.parse_manifest(text, path, self._history)
        self._note_bare(path, text)
        try:
            manifest.refuse_altered(self.plan, text, path)
            stored.check_manifest(self.plan, text, path)
        except ManifestError as error:
            self.altered[path] = str(error)

    def _note_bare(self, path: str, text: str) -> None:
        if not has_digest(text.encode()):
            self.bare.append(path)

    def _note_history(self, content: bytes) -> None:
        """Take down what results were made with; a plan of an earlier schema is read with it."""
        with contextlib.suppress(ValueError, RecursionError):
            entries = json.loads(content)
            self._history = entries if isinstance(entries, list) else []
        if self.plan is not None:
            self.plan = stored.parse_manifest(self._plan_text, manifest.FILE, self._history)


def record_path(name: str) -> str:
    """Where the record of a repetition is."""
    return f"records/{name}.json"


def facts_of(content: bytes) -> Facts:
    """Size and digest of what is in memory."""
    return Facts(len(content), hashlib.sha256(content).hexdigest())


def look_at(files: Iterable[tuple[str, Path]], survey: Survey | None = None) -> Survey:
    """A survey of files of a folder; raises OSError for what cannot be read."""
    survey = survey or Survey()
    for relative, path in files:
        with path.open("rb") as stream:
            survey.look(relative, stream)
    return survey
