"""The record of one repetition: an envelope around a study's own body, written whole or not at all.

docs/records.md describes every field. The envelope says what was measured of which cell, how it
ended, by which evidence and under which circumstances; `measured` is the study's, with a schema
number of its own. Records of an earlier envelope are read by upgrading them.
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
    is_as_written,
    may_hold_non_finite,
    printable,
    seal_text,
)
from topologies import wording

#: `environment.captures` of a repetition whose captures were not kept, as `--captures` asked.
NOT_KEPT = "not kept"
#: What words of `environment.flags` say of a repetition, which counts all the same.
FLAGS = {"processor": "waited long for the processor", "retransmission": "sent a message again"}
SCHEMA = 2
#: Keys of a path such as `link.options.hostapd.wpa_group_rekey`.
_OPTION_DEPTH = 4
#: More than any record, plan or list of ours has.
LARGEST_DOCUMENT_BYTES = 64 << 20
#: More than any number of repetitions or attempts.
_MOST = 1_000_000
#: The end of the year 9999 (s), after which no calendar has a day.
_LAST_S = 253_402_300_799
#: Circumstances that tables show as words.
_WORDS = ("clock", "medium", "machine", "builder", "fault", "air")

#: Makes a document of an earlier schema one of the next; raises RecordError (without a place) where
#: it does not fit. By the schema that it reads.
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def listed_settings(paths: Sequence[str]) -> str:
    """Return settings by their paths in words: `hostapd's wpa_group_rekey, dot1x.tls.key`."""
    return ", ".join(map(_setting_in_words, paths))


def _setting_in_words(path: str) -> str:
    parts = path.split(".")
    if len(parts) == _OPTION_DEPTH and parts[1] == "options":
        return f"{parts[2]}'s {parts[3]}"
    return f"{'.'.join(parts[:2])} at hostapd" if parts[2:] == ["hostapd"] else path


class RecordError(ValueError):
    """A file that is no record this version can read; the text is one line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class RecordPart(BaseModel):
    """A part of a record: strict about its fields, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CheckRecord(RecordPart):
    """One piece of evidence that the policy was in force, or not."""

    check: str
    ok: bool
    detail: str


class StudyRecord(RecordPart):
    """Which study measured, in which version of it."""

    id: str
    version: int


class Record(RecordPart):
    """One repetition of one cell.

    `cell` has the level of each factor, in the study's order; `digests` the digest of each level
    that has one. `asked` are the workload's settings. `measured` is None where nothing was.
    `files` are kept in `files/NAME/`. `secrets` are those of the run that the judge needed, by
    place and name; `sha256` has the checksum of each file that it judged, by the file's name.
    `unchecked` are settings of the cell, by their paths, that no check of the evidence covers; None
    where that was not recorded. `content_sha256` is the digest of the file that holds the record,
    and is "" in memory.
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
        """Refuse circumstances that no table can show."""
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
        """The record's file name without its ending: the levels' ids and the repetition."""
        return record_name(self.cell.values(), self.repetition)

    @property
    def cell_name(self) -> str:
        """The levels' ids, as the cell of a plan is called."""
        return "-".join(self.cell.values())

    @property
    def keeps_captures(self) -> bool:
        """Whether its captures were to be kept when it was measured."""
        return self.environment.get("captures") != NOT_KEPT

    @property
    def contradiction(self) -> str:
        """Why it is not proven although it says ok, whoever wrote it; "" where nothing says so."""
        if self.status != "ok":
            return ""
        failed = [check.check for check in self.evidence if not check.ok]
        return f"'{failed[0]}' does not hold" if failed else (
            "" if self.evidence else "it has no evidence")


def record_name(levels: Any, repetition: int) -> str:
    """How a repetition is called, in records, captures and logs alike; `levels` are ids."""
    return f"{'-'.join(levels)}-{repetition:03d}"


def write(record: Record, folder: Path) -> Path:
    """Write a record under its name: whole or not at all, whenever the process ends."""
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
    """Return the text of a record's file, with the digest of all that it says."""
    plain = record.model_copy(update={DIGEST_FIELD: ""})
    return seal_text(plain.model_dump_json(by_alias=True, indent=1) + "\n")


def read(path: Path, upgrades: Mapping[int, Upgrade] | None = None) -> Record:
    """Read a record; raises RecordError for anything else.

    `upgrades` by the schema that each reads; without them, only today's envelope is read.
    """
    try:
        text = read_document(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None
    return parse(text, str(path), upgrades)


def read_document(path: Path) -> bytes:
    """A plain file of a results folder, whole; raises OSError.

    Whoever wrote the folder: a link shows what it does not hold, a pipe would be waited for, and
    what is larger than any document of ours does not go into memory.
    """
    state = path.lstat()
    if not stat.S_ISREG(state.st_mode):
        raise OSError("no plain file")
    if state.st_size > LARGEST_DOCUMENT_BYTES:
        raise OSError(f"{state.st_size} bytes, more than such a file ever has")
    return path.read_bytes()


def parse(text: str | bytes, where: str, upgrades: Mapping[int, Upgrade] | None = None) -> Record:
    """The record that a text is; raises RecordError, which names `where` it stands."""
    record = None
    with contextlib.suppress(ValidationError):
        # Nearly every record is of today's schema: parsed once, and carefully only if it is not.
        record = Record.model_validate_json(text, strict=True)
    if record is None or record.schema_ != SCHEMA or may_hold_non_finite(text):
        record = _parse_carefully(text, where, upgrades or {})
    return record.model_copy(update={DIGEST_FIELD: ""})


def refuse_altered(text: str | bytes, where: str) -> None:
    """Raise RecordError where the text of a record is not what its own digest says."""
    if not is_as_written(text):
        raise RecordError(f"{where}: is not what was written, by its {DIGEST_FIELD}; it was "
                          "altered or damaged, move it away or measure again")


def _parse_carefully(text: str | bytes, where: str, upgrades: Mapping[int, Upgrade]) -> Record:
    """Upgrade what is of an earlier schema, and say exactly what is wrong with anything else."""
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
        raise _not_a_record(where, said(error)) from None


def said(error: ValidationError) -> str:
    """The first thing that is wrong with a document, in a few words."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "file"
    what = wording.what(first)
    return printable(" ".join((f"{where}: {what}" if first["loc"] else what).split()))


def _does_not_fit(where: str, schema: int, what: str) -> RecordError:
    return RecordError(f"{where}: {' '.join(what.split())[:200]}; a record of schema {schema} that "
                       "does not fit, move it away or measure again")


def _not_a_record(where: str, what: str) -> RecordError:
    return RecordError(f"{where}: {' '.join(what.split())}; not a record of schema {SCHEMA}, move "
                       "it away or measure again")


def read_all(folder: Path,
             upgrades: Mapping[int, Upgrade] | None = None) -> tuple[list[Record], list[str]]:
    """Every record of a folder in order of name, and a line for each file that is none."""
    records, complaints = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(read(path, upgrades))
        except RecordError as error:
            complaints.append(str(error))
    return records, complaints
