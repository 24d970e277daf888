"""Record of one repetition: an envelope around a study's own body, written atomically.

docs/records.md describes every field. The envelope states the cell, the outcome, the evidence and
the circumstances. `measured` is the study's body, with its own schema number. Records of an earlier
envelope are upgraded when they are read.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from measure.document import (
    DIGEST_FIELD,
    find_non_finite,
    matches_digest,
    may_hold_non_finite,
    seal_text,
    to_printable,
)
from topologies import wording

#: Value of `environment.captures` if `--captures` discarded the repetition's captures.
NOT_KEPT = "not kept"
#: Meaning of the words in `environment.flags`; a flagged repetition counts all the same.
FLAGS = {"processor": "waited long for the processor", "retransmission": "sent a message again"}
SCHEMA = 2
#: Length of a path such as `link.options.hostapd.wpa_group_rekey`.
_OPTION_DEPTH = 4
#: Upper limit in bytes, larger than any record, plan or list of qop.
LARGEST_DOCUMENT_BYTES = 64 << 20
#: Upper limit of a repetition's or attempt's number.
_MOST = 1_000_000
#: End of the year 9999 (s since 1970), the last one in calendars.
_LAST_S = 253_402_300_799
#: Circumstances that tables show as words.
_WORDS = ("clock", "medium", "machine", "builder", "fault", "air")

#: Converts a document of one schema to the next. Raises RecordError, without a place, if the
#: document does not fit. Keyed by the schema that it reads.
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def join_settings(paths: Sequence[str]) -> str:
    """Return settings by their paths in words: `hostapd's wpa_group_rekey, dot1x.tls.key`."""
    return ", ".join(map(_describe_setting, paths))


def _describe_setting(path: str) -> str:
    parts = path.split(".")
    if len(parts) == _OPTION_DEPTH and parts[1] == "options":
        return f"{parts[2]}'s {parts[3]}"
    return f"{'.'.join(parts[:2])} at hostapd" if parts[2:] == ["hostapd"] else path


class RecordError(ValueError):
    """A file that is no readable record, described in one line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(to_printable(text))


class RecordPart(BaseModel):
    """A part of a record: strict about its fields, and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CheckRecord(RecordPart):
    """A check of the policy: statement, result and detail."""

    check: str
    ok: bool
    detail: str


class StudyRecord(RecordPart):
    """The study that measured, and its version."""

    id: str
    version: int


class Record(RecordPart):
    """The result of one repetition of one cell.

    - `cell`: the level of each factor, in the study's order.
    - `digests`: the digest of each level that has one.
    - `asked`: the workload's settings.
    - `measured`: the study's body, None if nothing was measured.
    - `files`: files kept in `files/NAME/`.
    - `secrets`: the run's secrets that the judge needed, by place and name.
    - `sha256`: the checksum of each judged file, by file name.
    - `unchecked`: paths of the cell's settings that no check covers, None if not recorded.
    - `content_sha256`: the digest of the file itself, "" in memory.
    """

    schema_: int = Field(alias="schema")
    study: StudyRecord
    cell: dict[str, str]
    repetition: int
    status: Literal["ok", "failed", "skipped"]
    reason: str
    digests: dict[str, str]
    asked: dict[str, Any]
    measured: dict[str, Any] | None
    evidence: list[CheckRecord]
    environment: dict[str, Any]
    captures: list[dict[str, Any]]
    files: list[str] = []
    secrets: dict[str, str] = {}
    sha256: dict[str, str] = {}
    unchecked: list[str] | None = None
    attempt: int = 1
    elapsed_s: float = 0.0
    raw: dict[str, Any] = {}
    content_sha256: str = ""

    model_config = ConfigDict(populate_by_name=True)

    @model_validator(mode="after")
    def _check_circumstances(self) -> Record:
        """Reject circumstances that no table can show."""
        for name, number in (("repetition", self.repetition), ("attempt", self.attempt)):
            if number > _MOST:
                raise ValueError(f"{name}: {number} is no number of one")
        flags = self.environment.get("flags")
        if flags is not None and not (isinstance(flags, list) and all(
                isinstance(flag, str) for flag in flags)):
            raise ValueError("environment.flags: not a list of words")
        for name in _WORDS:
            if not isinstance(self.environment.get(name), str | None):
                raise ValueError(f"environment.{name}: not a text")  # noqa: TRY004 - for pydantic
        stamps = self.raw.get("stamps")
        start = stamps.get("start") if isinstance(stamps, dict) else None
        if start is not None and (isinstance(start, bool) or not isinstance(start, int | float)
                                  or not 0 <= start <= _LAST_S):
            raise ValueError("raw.stamps.start: not a moment")
        return self

    @property
    def name(self) -> str:
        """Return the file name without extension: the levels' ids and the repetition."""
        return record_name(self.cell.values(), self.repetition)

    @property
    def cell_name(self) -> str:
        """Return the levels' ids, joined as a plan names the cell."""
        return "-".join(self.cell.values())

    @property
    def keeps_captures(self) -> bool:
        """Return whether the run was set to keep this repetition's captures."""
        return self.environment.get("captures") != NOT_KEPT

    @property
    def contradiction(self) -> str:
        """Return why an "ok" record is not proven, or "" if it is consistent."""
        if self.status != "ok":
            return ""
        failed = [check.check for check in self.evidence if not check.ok]
        return f"'{failed[0]}' does not hold" if failed else (
            "" if self.evidence else "it has no evidence")


def record_name(levels: Any, repetition: int) -> str:
    """Return a repetition's name in records, captures and logs.

    `levels` are the ids of the cell's levels.
    """
    return f"{'-'.join(levels)}-{repetition:03d}"


def write_record(record: Record, folder: Path) -> Path:
    """Write a record atomically under its name and return the path.

    The file is complete or absent, even if the process is killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.name}.json"
    temporary = folder / f".{record.name}.{os.getpid()}.tmp"
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(to_text(record))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def to_text(record: Record) -> str:
    """Return the text of a record's file, with the digest of its content."""
    plain = record.model_copy(update={DIGEST_FIELD: ""})
    return seal_text(plain.model_dump_json(by_alias=True, indent=1) + "\n")


def read_record(path: Path, upgrades: Mapping[int, Upgrade] | None = None) -> Record:
    """Read a record.

    Args:
        path: The file.
        upgrades: Upgrade functions by the schema that each reads; without them only the current
            envelope is read.

    Raises:
        RecordError: The file is no record that this version can read.
    """
    try:
        text = read_document(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None
    return parse_record(text, str(path), upgrades)


def read_document(path: Path) -> bytes:
    """Read a regular file of a results folder.

    The folder may come from anybody. A link could show other files, a pipe would block, and a huge
    file would fill the memory.

    Raises:
        OSError: The file cannot be read, is no regular file, or is too large.
    """
    state = path.lstat()
    if not stat.S_ISREG(state.st_mode):
        raise OSError("no plain file")
    if state.st_size > LARGEST_DOCUMENT_BYTES:
        raise OSError(f"{state.st_size} bytes, more than such a file ever has")
    return path.read_bytes()


def parse_record(text: str | bytes, where: str,
                 upgrades: Mapping[int, Upgrade] | None = None) -> Record:
    """Parse the text of a record.

    Args:
        text: The content of the file.
        where: Place for messages.
        upgrades: Upgrade functions by the schema that each reads.

    Raises:
        RecordError: The text is no record that this version can read.
    """
    record = None
    with contextlib.suppress(ValidationError):
        # Nearly every record has the current schema: parse it once, and check it in detail only if
        # that fails.
        record = Record.model_validate_json(text, strict=True)
    if record is None or record.schema_ != SCHEMA or may_hold_non_finite(text):
        record = _parse_carefully(text, where, upgrades or {})
    return record.model_copy(update={DIGEST_FIELD: ""})


def check_unaltered(text: str | bytes, where: str) -> None:
    """Check that a record's text matches its own digest.

    Raises:
        RecordError: The record was altered or damaged.
    """
    if not matches_digest(text):
        raise RecordError(f"{where}: is not what was written, by its {DIGEST_FIELD}; it was "
                          "altered or damaged, move it away or measure again")


def _parse_carefully(text: str | bytes, where: str, upgrades: Mapping[int, Upgrade]) -> Record:
    """Upgrade a record of an earlier schema, or report the exact fault."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_a_record(where, f"file: {error}") from None
    if not isinstance(document, dict):
        raise _not_a_record(where, "file: not a JSON object")
    schema = document.get("schema")
    while isinstance(schema, int) and schema in upgrades and schema < SCHEMA:
        try:
            document = upgrades[schema](document)
        except RecordError as error:
            raise _does_not_fit(where, schema, str(error)) from None
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise _does_not_fit(where, schema, f"{type(error).__name__}: {error}") from None
        schema = document["schema"]
    if isinstance(schema, int) and schema != SCHEMA:
        raise RecordError(f"{where}: schema {schema}, this version reads {SCHEMA}; "
                          "measure again or use the version that wrote it")
    if name := find_non_finite(document):
        raise _not_a_record(where, f"{name}: not a finite number")
    try:
        return Record.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise _not_a_record(where, describe_validation_error(error)) from None


def describe_validation_error(error: ValidationError) -> str:
    """Return the first fault of a document, in a few words."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "file"
    what = wording.describe_error(first)
    return to_printable(" ".join((f"{where}: {what}" if first["loc"] else what).split()))


def _does_not_fit(where: str, schema: int, what: str) -> RecordError:
    return RecordError(f"{where}: {' '.join(what.split())[:200]}; a record of schema {schema} that "
                       "does not fit, move it away or measure again")


def _not_a_record(where: str, what: str) -> RecordError:
    return RecordError(f"{where}: {' '.join(what.split())}; not a record of schema {SCHEMA}, move "
                       "it away or measure again")


def read_records(folder: Path,
                 upgrades: Mapping[int, Upgrade] | None = None) -> tuple[list[Record], list[str]]:
    """Read every record of a folder in order of name.

    Returns:
        The records, and a line for each file that is no record.
    """
    records, complaints = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(read_record(path, upgrades))
        except RecordError as error:
            complaints.append(str(error))
    return records, complaints
