"""Check that a results folder or an archive is complete and unchanged.

A results folder has the plan, records and captures of a run. `survey_files` reads each file once,
as a stream and in any order, and collects checksums in a `FolderSurvey`. Captures are tested for
completeness while they are read. `judge_survey` then compares the files with SHA256SUMS, the plan
and each other, and returns an `IntegrityFinding` for each problem. `harness.portable.verification`
uses this for `./qop verify`.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from guest.releases import DEFAULT
from harness.portable import checksums, folder
from harness.portable.folder import (
    DESCRIBING,
    PACKING_LIST_FILE,
    PLAN_FILE,
    PRUNED_FILE,
    SUMS_FILE,
    DocumentError,
    FileKind,
    PackingList,
    PrunedCaptures,
    find_file_kind,
    find_repetition_name,
    parse_document,
)
from measure.records import manifest, record
from measure.records.document import has_digest
from measure.records.manifest import Manifest, ManifestError
from measure.records.record import LARGEST_DOCUMENT_BYTES, Record, RecordError
from studies import records as stored

# --- Completeness of a compressed capture, tested as a stream and without storing it ---

_PIECE_BYTES = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
#: First bytes of pcap (micro- and nanoseconds, either byte order) and of pcapng.
_MAGIC = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1",
          b"\x0a\x0d\x0d\x0a")


class CaptureTest:
    """A test whether a .pcap.gz or .pcap file is complete, fed piece by piece.

    `find_fault` gives the result. If a compressed file is no capture, only its gzip stream is
    tested.
    """

    def __init__(self, name: str, *, is_capture: bool = True) -> None:
        self._compressed = name.endswith(".gz")
        self._is_capture = is_capture
        self._inflater = zlib.decompressobj(_GZIP)
        self._head = b""
        self._broken = ""

    def feed_piece(self, data: bytes) -> None:
        """Process the next bytes of the capture file."""
        if self._broken or not self._compressed:
            self._note_head(data)
            return
        try:
            self._inflate_capture(data)
        except zlib.error as error:
            self._broken = f"gzip stream is damaged ({str(error).rpartition(': ')[2]})"

    def find_fault(self) -> str:
        """Return what is wrong with the capture file, "" if it is complete."""
        if self._broken:
            return self._broken
        if self._compressed and not self._inflater.eof:
            return "gzip stream is cut short"
        return "" if self._head in _MAGIC or not self._is_capture else "is not a packet capture"

    def _inflate_capture(self, data: bytes) -> None:
        while data:
            if self._inflater.eof:
                # A gzip file may consist of several streams; padding after the last one is
                # allowed, too.
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._inflater = zlib.decompressobj(_GZIP)
            # In pieces, because the output may be a thousand times as large as the input.
            self._note_head(self._inflater.decompress(data, _PIECE_BYTES))
            data = self._inflater.unused_data or self._inflater.unconsumed_tail
        # Read the output that the inflater still buffers when all input is consumed.
        while not self._inflater.eof and (more := self._inflater.decompress(b"", _PIECE_BYTES)):
            self._note_head(more)

    def _note_head(self, data: bytes) -> None:
        if len(self._head) < 4:
            self._head += data[:4 - len(self._head)]


# --- Survey of a folder or an archive ---
# `FolderSurvey.add_file` reads one file after the other as a stream. So a folder and an archive are
# read alike, and nothing has to be unpacked first.

_TEXTS = frozenset({FileKind.PLAN, FileKind.RECORD, FileKind.PRUNED, FileKind.SUMS,
                    FileKind.PACKING_LIST})


class ReadableStream(Protocol):
    """A stream from which a file's bytes are read."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, none at the end."""


@dataclass(frozen=True)
class FileDigest:
    """The size and the SHA-256 of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class IntegrityFinding:
    """A problem with a file of a results folder. New checksums would solve it if `renewable`."""

    text: str
    renewable: bool = False


@dataclass
class FolderSurvey:
    """The facts about a results folder or an archive, collected while its files are read.

    - `files`: size and digest of each file, by path
    - `findings`: faults of the folder so far
    - `plan`, `pruned`, `packing_list`: plan, list of removed captures and archive's manifest, if
      there are any
    - `records`: records by the name of their file, including those that no table can use
    - `broken`: faults of captures and other compressed files, by path
    - `altered`: documents that do not match their own digest, with the reason
    - `bare`: documents without a digest
    - `sums`: the lines of SHA256SUMS
    """

    files: dict[str, FileDigest] = field(default_factory=dict)
    findings: list[IntegrityFinding] = field(default_factory=list)
    plan: Manifest | None = None
    pruned: PrunedCaptures = field(default_factory=PrunedCaptures)
    records: dict[str, Record] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    altered: dict[str, str] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)
    sums: dict[str, str] | None = None
    packing_list: PackingList | None = None

    def add_file(self, path: str, stream: ReadableStream) -> None:
        """Read one file to its end, and note its checksum and what is wrong with it."""
        kind = folder.find_file_kind(path)
        is_packed = kind is FileKind.FILE and path.endswith(".gz")
        test = CaptureTest(path, is_capture=kind is FileKind.CAPTURE) \
            if kind is FileKind.CAPTURE or is_packed else None
        digest, size = hashlib.sha256(), 0
        text = bytearray()
        while data := stream.read(checksums.CHUNK_BYTES):
            digest.update(data)
            size += len(data)
            if test is not None:
                test.feed_piece(data)
            elif kind in _TEXTS and size <= LARGEST_DOCUMENT_BYTES:
                text += data
        self.files[path] = FileDigest(size, digest.hexdigest())
        if test is not None and (complaint := test.find_fault()):
            self.broken[path] = complaint
        elif kind in _TEXTS and size > LARGEST_DOCUMENT_BYTES:
            self.add_finding(f"{path}: has {size} bytes, more than such a file ever has")
        elif kind in _TEXTS:
            self._parse_file(kind, path, bytes(text))

    def add_finding(self, text: str, *, renewable: bool = False) -> None:
        """Add a problem to the findings, as one line of printable characters.

        `renewable` says whether new checksums would solve it.
        """
        line = "".join(letter if letter.isprintable() else "?" for letter in text)
        self.findings.append(IntegrityFinding(line, renewable))

    def record_digests(self) -> dict[str, str]:
        """Return the SHA-256 of every readable record by name."""
        return {name: self.files[find_record_path(name)].sha256 for name in self.records}

    def _parse_file(self, kind: FileKind | None, path: str, content: bytes) -> None:
        try:
            text = content.decode()
            if kind is FileKind.RECORD:
                self._parse_record(path, text)
            elif kind is FileKind.PLAN:
                self._parse_plan(path, text)
            elif kind is FileKind.PRUNED:
                self.pruned = parse_document(PrunedCaptures, text, path)
            elif kind is FileKind.SUMS:
                self.sums = checksums.parse_sums(text, path)
            else:
                self.packing_list = parse_document(PackingList, text, path)
        except UnicodeDecodeError:
            self.add_finding(f"{path}: is not text")
        except (RecordError, ManifestError, DocumentError, checksums.ChecksumError) as error:
            self.add_finding(str(error))

    def _parse_record(self, path: str, text: str) -> None:
        """Parse a record, and add a finding if it is inconsistent or was altered.

        Raises:
            RecordError: The text is no record.
        """
        entry = self.records[Path(path).stem] = record.parse_record(text, path)
        self._note_bare(path, text)
        try:
            record.check_unaltered(text, path)
        except RecordError as error:
            self.altered[path] = str(error)
        stored.check_record(entry, path)

    def _parse_plan(self, path: str, text: str) -> None:
        """Parse the plan.

        If it is inconsistent or was altered, add a finding.

        Raises:
            ManifestError: The text is no plan.
        """
        self.plan = manifest.parse_manifest(text, path)
        self._note_bare(path, text)
        try:
            manifest.check_unaltered(self.plan, text, path)
            stored.check_manifest(self.plan, text, path)
        except ManifestError as error:
            self.altered[path] = str(error)

    def _note_bare(self, path: str, text: str) -> None:
        if not has_digest(text.encode()):
            self.bare.append(path)


def find_record_path(name: str) -> str:
    """Return the relative path of a repetition's record in a results folder."""
    return f"records/{name}.json"


def digest_content(content: bytes) -> FileDigest:
    """Return size and SHA-256 of bytes in memory."""
    return FileDigest(len(content), hashlib.sha256(content).hexdigest())


def survey_files(files: Iterable[tuple[str, Path]],
                 survey: FolderSurvey | None = None) -> FolderSurvey:
    """Read the files of a results folder, and collect their checksums and problems.

    Raises:
        OSError: A file cannot be read.
    """
    survey = survey or FolderSurvey()
    for relative, path in files:
        with path.open("rb") as stream:
            survey.add_file(relative, stream)
    return survey


# --- Judgement of a survey ---

def judge_survey(survey: FolderSurvey, *, archived: bool) -> list[IntegrityFinding]:
    """Return all problems of a results folder or archive, in order of path.

    An empty list means that everything is intact.

    Args:
        survey: What was read of the folder or archive.
        archived: Whether this is an archive, which must be complete. A folder may lack SHA256SUMS,
            and its reports may change.
    """
    before = len(survey.findings)
    if PLAN_FILE not in survey.files:
        survey.add_finding(f"{PLAN_FILE}: is not there, so nobody knows what was to be measured")
    _judge_sums(survey, archived=archived)
    if archived:
        _judge_packing_list(survey)
    for name, entry in survey.records.items():
        _judge_record(survey, name, entry)
    for path, complaint in survey.broken.items():
        # A killed run leaves captures of a repetition that has no record yet.
        if find_record_path(find_repetition_name(path)) in survey.files:
            survey.add_finding(f"{path}: {complaint}")
    _judge_pruned(survey)
    reported = {finding.text.partition(": ")[0] for finding in survey.findings}
    for path, complaint in survey.altered.items():
        # A more detailed finding about the same document exists already.
        if path not in reported:
            survey.add_finding(complaint)
    return [*survey.findings[:before],
            *sorted(survey.findings[before:], key=lambda finding: finding.text)]


def _judge_sums(survey: FolderSurvey, *, archived: bool) -> None:
    if survey.sums is None:
        if archived and SUMS_FILE not in survey.files:
            survey.add_finding(
                f"{SUMS_FILE}: is not there; this is not an archive of './qop export'")
        return
    for path, digest in survey.sums.items():
        facts = survey.files.get(path)
        if facts is None:
            if not _is_pruned(survey, path):
                survey.add_finding(f"{path}: is missing; {SUMS_FILE} lists it")
        elif facts.sha256 != digest:
            survey.add_finding(f"{path}: is not what it was when {SUMS_FILE} was written")
    for path in survey.files:
        belongs = path != SUMS_FILE if archived else checksums.is_listed(path)
        if belongs and path not in survey.sums and not _is_pruned(survey, path):
            survey.add_finding(f"{path}: is not listed in {SUMS_FILE}", renewable=not archived)


def _is_pruned(survey: FolderSurvey, path: str) -> bool:
    """Return whether a file is a capture or raw data that was left out on request."""
    if not path.startswith(("captures/", "files/")):
        return False
    name = find_repetition_name(path)
    record = survey.files.get(find_record_path(name))
    return record is not None and survey.pruned.covers_file(name, record.sha256,
                                                            path.split("/", 2)[2])


def _judge_packing_list(survey: FolderSurvey) -> None:
    packing_list = survey.packing_list
    if packing_list is None:
        if PACKING_LIST_FILE not in survey.files:
            survey.add_finding(f"{PACKING_LIST_FILE}: is not there; this is not an archive of "
                               "'./qop export'")
        return
    found_bytes = {path: facts.bytes for path, facts in survey.files.items()
                   if find_file_kind(path) not in DESCRIBING}
    for path in packing_list.files.keys() | found_bytes.keys():
        if packing_list.files.get(path) != found_bytes.get(path):
            listed = _describe_size(packing_list.files.get(path))
            survey.add_finding(f"{path}: {_describe_size(found_bytes.get(path))}, by "
                               f"{PACKING_LIST_FILE} {listed}")
    records = sum(path.startswith("records/") for path in found_bytes)
    if packing_list.records != records:
        survey.add_finding(f"{PACKING_LIST_FILE}: counts {packing_list.records} records, there are "
                           f"{records}")
    if survey.plan is not None and packing_list.plan != survey.plan.digest:
        survey.add_finding(f"{PACKING_LIST_FILE}: is of another plan than {PLAN_FILE}")


def _describe_size(size: int | None) -> str:
    return "not there" if size is None else f"{size} bytes"


def _judge_record(survey: FolderSurvey, name: str, entry: Record) -> None:
    path = find_record_path(name)
    if entry.name != name:
        return  # reported when it was read
    if survey.plan is not None:
        # One reason is enough: a record of another plan differs in more than one way.
        reason = next(filter(None, (check(survey.plan, entry) for check in _BELONGS)), None)
        if reason:
            survey.add_finding(f"{path}: {reason}")
    for capture in entry.captures:
        _judge_capture(survey, name, capture.get("file"), is_kept=entry.keeps_captures)
    for file in entry.files:
        if f"files/{name}/{file}" not in survey.files and not survey.pruned.covers_file(
                name, survey.files[path].sha256, file):
            survey.add_finding(f"files/{name}/{file}: is missing; {path} names it")


def _judge_capture(survey: FolderSurvey, name: str, file: object, *, is_kept: bool) -> None:
    path = find_record_path(name)
    if not isinstance(file, str) or "/" in file:
        survey.add_finding(f"{path}: names a capture that cannot be one ({file!r})")
        return
    packed = file if file.endswith(".gz") else f"{file}.gz"
    choices = [f"captures/{name}/{choice}" for choice in (packed, file)]
    # A listed file that is missing is reported already.
    if any(choice in survey.files or choice in (survey.sums or {}) for choice in choices):
        return
    if is_kept and not survey.pruned.covers_file(name, survey.files[path].sha256, packed):
        survey.add_finding(f"captures/{name}/{packed}: is missing; {path} names it")


def _judge_pruned(survey: FolderSurvey) -> None:
    for name, removed in survey.pruned.without_outdated(survey.record_digests()).captures.items():
        for file in removed.files:
            if (place := folder.find_removed_path(name, file)) in survey.files:
                survey.add_finding(f"{place}: is there, and {PRUNED_FILE} says that it was "
                                   "removed; './qop prune' was interrupted, give it again")


def _same_study(plan: Manifest, entry: Record) -> str:
    return "" if entry.study == plan.study else (
        f"is of study {entry.study.id}, version {entry.study.version}, and the plan of "
        f"{plan.study.id}, version {plan.study.version}; move it away")


def _known_levels(plan: Manifest, entry: Record) -> str:
    if list(entry.cell) != [factor.name for factor in plan.factors]:
        return f"is of other factors than the plan's ({', '.join(entry.cell)}); move it away"
    return next((f"{factor} {level} is not in the plan" for factor, level in entry.cell.items()
                 if level not in plan.levels.get(factor, {})), "")


def _known_cell(plan: Manifest, entry: Record) -> str:
    return "" if list(entry.cell.values()) in plan.cells else (
        f"cell {'-'.join(entry.cell.values())} is not in the plan")


def _same_levels(plan: Manifest, entry: Record) -> str:
    for factor, digest in entry.digests.items():
        level = plan.levels[factor][entry.cell[factor]] if factor in plan.levels else None
        if level is None or level.digest != digest:
            return (f"was measured with another version of {factor} {entry.cell.get(factor)} than "
                    "the plan's; './qop run' measures it again")
    return ""


def _same_plan(plan: Manifest, entry: Record) -> str:
    same = entry.environment.get("plan") == plan.digest
    return "" if same else "was measured for another plan; move it away"


def _same_control(plan: Manifest, entry: Record) -> str:
    """Check that a record and the plan name the same negative control (deliberate fault).

    Returns the problem as text, "" if there is none.
    """
    of_record, of_plan = entry.environment.get("fault"), plan.settings.get("fault")
    return "" if of_record == of_plan else (
        f"was measured under {_describe_control(of_record)}, and the plan has "
        f"{_describe_control(of_plan)}; move it away")


def _describe_control(fault: object) -> str:
    return f"the negative control '{fault}'" if fault else "no negative control"


def _same_circumstances(plan: Manifest, entry: Record) -> str:
    """Check that the circumstances of a record match the plan, such as clock and machine.

    Returns the problem as text, "" if there is none.
    """
    there = entry.environment
    pairs = [(name, plan.settings[setting], there[name]) for name, setting in _SETTINGS.items()
             if setting in plan.settings and there.get(name) is not None]
    if "release" not in entry.cell and there.get("debian") is not None:
        pairs.append(("debian", plan.settings.get("release", DEFAULT.suite), there["debian"]))
    medium = there.get("medium")
    if isinstance(medium, str) and plan.media:
        document = plan.media.get(medium)
        pairs.append(("medium", medium if document else ", ".join(plan.media), medium))
        if document and there.get("air") is not None and "air" in document:
            pairs.append(("air", document["air"], there["air"]))
    pairs += [(f"asked.{name}", plan.asked[name], value) for name, value in entry.asked.items()
              if name in plan.asked]
    return next((f"says {name} {recorded!r}, and the plan {planned!r}; move it away"
                 for name, planned, recorded in pairs if planned != recorded), "")


#: Fields of a record's environment, with the settings of the plan that they must equal.
_SETTINGS = {"clock": "clock", "machine": "on", "builder": "builder", "programs": "programs",
             "daemons": "daemons"}
_BELONGS: tuple[Callable[[Manifest, Record], str], ...] = (
    _same_study, _known_levels, _known_cell, _same_levels, _same_plan, _same_control,
    _same_circumstances)
