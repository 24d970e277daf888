"""Read, verify and write the record of one measurement: a JSON file with its results.

Each repetition of each combination (such as one policy in one scenario) has a `Record`: status,
checks, circumstances and measured values. `write_record` and `read_record` write and read one,
`read_records` reads a folder. The fields outside of `measured` are equal for all studies.
`measured` has the study's own values, with a schema number of its own. Values of an earlier schema
are upgraded when they are read (`upgrade_body`). docs/records.md describes every field.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from documents import refusals
from measure.records.document import (
    DIGEST_FIELD,
    find_non_finite,
    matches_digest,
    may_hold_non_finite,
    seal_text,
    to_printable,
)

#: Value of `environment.captures` if `--captures` discarded the repetition's captures.
NOT_STORED = "not kept"
#: Meaning of the words in `environment.flags`; a flagged repetition counts all the same.
FLAGS = {"processor": "waited long for the processor", "retransmission": "sent a message again"}
#: Beginning of the reason that a check does not hold.
NOT_PROVEN = "not proven: "
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
_WORDS = ("clock", "medium", "machine", "builder", "debian", "fault", "air", "accelerator",
          "architecture")


def join_settings(paths: Sequence[str]) -> str:
    """Return setting paths in words, such as `hostapd's wpa_group_rekey, dot1x.tls.key`."""
    return ", ".join(map(_describe_setting, paths))


def _describe_setting(path: str) -> str:
    parts = path.split(".")
    if len(parts) == _OPTION_DEPTH and parts[1] == "options":
        return f"{parts[2]}'s {parts[3]}"
    return f"{'.'.join(parts[:2])} at {parts[2]}" if parts[2:] in (
        ["hostapd"], ["wpa_supplicant"]) else path


def format_programs(programs: object) -> str:
    """Return the user's own daemons (`--programs`) with version and file, "" without any.

    Args:
        programs: The programs by name, as `plan.json` and records contain them, or None.

    Raises:
        ValueError: The value has another form. It may come from anybody.
    """
    if programs is None:
        return ""
    if not isinstance(programs, dict):
        raise ValueError("programs: not programs by name")  # noqa: TRY004 - for pydantic
    texts = []
    for name, program in sorted(programs.items()):
        if not isinstance(program, dict) or not all(
                isinstance(program.get(key), str) for key in ("version", "file")):
            raise ValueError(f"programs.{name}: has no version and file")
        texts.append(f"{name} {program['version']} ({program['file']})")
    return ", ".join(texts)


class RecordError(ValueError):
    """An error: a file is no readable record. The text is one line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(to_printable(text))


class RecordPart(BaseModel):
    """A part of a record. Unknown fields are refused, and values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CheckRecord(RecordPart):
    """A check in a record: its statement, whether it holds, and details."""

    check: str
    ok: bool
    detail: str


class StudyRecord(RecordPart):
    """The name and version of the study that measured."""

    id: str
    version: int


class Record(RecordPart):
    """The result of one repetition of one cell, such as one policy in one scenario.

    - `cell`: the level of each factor, in the study's order.
    - `repetition`: its number, from 1.
    - `status`, `reason`: whether it counts, and if not, the reason.
    - `digests`: the digest of each level that has one.
    - `asked`: the workload's settings.
    - `measured`: the study's values, None if nothing was measured.
    - `evidence`: the results of the checks.
    - `environment`: clock, versions, host and flags of the measurement.
    - `captures`: file, point and packet counts of each capture.
    - `files`: files kept in `files/NAME/`.
    - `secrets`: the run's secrets that the judge needed, by place and name.
    - `sha256`: the checksum of each judged file, by file name.
    - `unchecked`: paths of the policies' settings that no check covers, None if not recorded.
    - `attempt`: the number of the attempt that succeeded.
    - `elapsed_s`: duration of the repetition.
    - `raw`: raw values of the workload, such as time stamps.
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
        """Raise an error if the record's circumstances are of a kind that no table can show."""
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
        format_programs(self.environment.get("programs"))
        stamps = self.raw.get("stamps")
        start = stamps.get("start") if isinstance(stamps, dict) else None
        if start is not None and (isinstance(start, bool) or not isinstance(start, int | float)
                                  or not 0 <= start <= _LAST_S):
            raise ValueError("raw.stamps.start: not a moment")
        return self

    @property
    def name(self) -> str:
        """Return the record's file name without extension: the levels' ids and the repetition."""
        return record_name(self.cell.values(), self.repetition)

    @property
    def cell_name(self) -> str:
        """Return the name of the measured cell: its levels' ids, such as of policy and scenario."""
        return "-".join(self.cell.values())

    @property
    def keeps_captures(self) -> bool:
        """Return whether the run was set to keep this repetition's captures."""
        return self.environment.get("captures") != NOT_STORED

    @property
    def contradiction(self) -> str:
        """Return why a record with status "ok" lacks its proof, "" if it is consistent."""
        if self.status != "ok":
            return ""
        failed = [check.check for check in self.evidence if not check.ok]
        return f"'{failed[0]}' does not hold" if failed else (
            "" if self.evidence else "it has no evidence")


def record_name(levels: Any, repetition: int) -> str:
    """Return the name of a repetition in records, captures and logs: levels and number.

    `levels` are the ids of the measured levels, such as of a policy and a scenario.
    """
    return f"{'-'.join(levels)}-{repetition:03d}"


def write_record(record: Record, folder: Path) -> Path:
    """Write a record to its file in a folder, and return the path.

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
    """Return the content of a record's file, with the digest of its content."""
    plain = record.model_copy(update={DIGEST_FIELD: ""})
    return seal_text(plain.model_dump_json(by_alias=True, indent=1) + "\n")


def read_record(path: Path) -> Record:
    """Read and validate the file of a record.

    Raises:
        RecordError: The file is no record that this version can read.
    """
    try:
        text = read_document(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None
    return parse_record(text, str(path))


def read_document(path: Path) -> bytes:
    """Read a file of a results folder.

    Links, pipes and huge files are refused.

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


def parse_record(text: str | bytes, where: str) -> Record:
    """Parse the text of a record. The caller checks whether the record was altered.

    Args:
        text: The content of the file.
        where: Place for messages.

    Raises:
        RecordError: The text is no record that this version can read.
    """
    record = None
    with contextlib.suppress(ValidationError):
        # Nearly every record has the current schema: parse it once, and check it in detail only if
        # that fails.
        record = Record.model_validate_json(text, strict=True)
    if record is None or record.schema_ != SCHEMA or may_hold_non_finite(text):
        record = _parse_carefully(text, where)
    return record.model_copy(update={DIGEST_FIELD: ""})


def check_unaltered(text: str | bytes, where: str) -> None:
    """Check that the content of a record matches the digest in it.

    Raises:
        RecordError: The record was altered or damaged.
    """
    if not matches_digest(text):
        raise RecordError(f"{where}: is not what was written, by its {DIGEST_FIELD}; it was "
                          "altered or damaged, move it away or measure again")


def _parse_carefully(text: str | bytes, where: str) -> Record:
    """Parse a record, or raise an error that names the exact fault."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_a_record(where, f"file: {error}") from None
    if not isinstance(document, dict):
        raise _not_a_record(where, "file: not a JSON object")
    schema = document.get("schema")
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
    """Return the first fault that pydantic found in a document, in a few words."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "file"
    what = refusals.describe_refused_value(first)
    return to_printable(" ".join((f"{where}: {what}" if first["loc"] else what).split()))


def _not_a_record(where: str, what: str) -> RecordError:
    return RecordError(f"{where}: {' '.join(what.split())}; not a record of schema {SCHEMA}, move "
                       "it away or measure again")


def read_records(folder: Path, read: Callable[[Path], Record] | None = None
                 ) -> tuple[list[Record], list[str]]:
    """Read every record of a folder in order of name.

    Args:
        folder: The folder.
        read: Function that reads one file (default: `read_record`).

    Returns:
        The records, and a line for each file that is no record.
    """
    records, complaints = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append((read or read_record)(path))
        except RecordError as error:
            complaints.append(str(error))
    return records, complaints


# --- Upgrade of a record's body to the current schema ---

#: Upgrade functions by the schema that each reads; each returns a body of the next schema.
BodyUpgrades: TypeAlias = Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]
_KEY = "schema"


def current_schema(kind: type[BaseModel]) -> int | None:
    """Return the present schema number of a study's measured values, None if it has none."""
    for name, field in kind.model_fields.items():
        if _KEY in (field.alias, name) and isinstance(field.default, int):
            return field.default
    return None


def upgrade_body(document: Mapping[str, Any], kind: type[BaseModel],
                 upgrades: BodyUpgrades) -> dict[str, Any]:
    """Upgrade a record's measured values to the present schema of their study.

    Args:
        document: The body as recorded.
        kind: The study's class of bodies.
        upgrades: Upgrade functions by the schema that each reads.

    Raises:
        RecordError: The body cannot be upgraded; the text names no file.
    """
    body = dict(document)
    current = current_schema(kind)
    if current is None:
        return body
    number = body.get(_KEY, current)
    while number != current:
        if not isinstance(number, int) or number not in upgrades:
            raise RecordError(f"measured is of schema {number!r:.40}, this version of its study "
                              f"reads {current}; use the version that wrote it, or measure again")
        try:
            body = dict(upgrades[number](body))
        except Exception as error:  # noqa: BLE001 - a study's own code may raise anything
            what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise RecordError(f"measured is of schema {number} and does not fit ({what}); move it "
                              "away or measure again") from None
        if body.get(_KEY) == number:
            raise RecordError(f"measured is of schema {number}, which its upgrade leaves; correct "
                              "the study")
        number = body.get(_KEY)
    return body
