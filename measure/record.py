"""The record of one repetition: its shape, and how it is written so that none is ever half there.

docs/records.md describes every field.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

SCHEMA = 1


class RecordError(ValueError):
    """A file that is no record this version can read; the text is one line for the user."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PhaseRecord(_Part):
    """A phase of getting on the network; seconds after the repetition's start."""

    name: str
    start_s: float
    duration_s: float
    packets: int


class StreamRecord(_Part):
    """One stream as the receiver saw it; `iperf` keeps what iperf3 said beside it."""

    goodput_bps: float
    bytes: int
    duration_s: float
    iperf: dict[str, float]


class CheckRecord(_Part):
    """One piece of evidence that the policy was in force, or not."""

    check: str
    ok: bool
    detail: str


class Record(_Part):
    """One repetition of one cell."""

    schema_: int
    policy: str
    scenario: str
    repetition: int
    status: Literal["ok", "failed", "skipped"]
    reason: str
    authentication_time_s: float | None
    authentication_components_s: dict[str, float]
    authentication_sum: list[str]
    phases: list[PhaseRecord]
    handoff: list[PhaseRecord]
    tcp: StreamRecord | None
    udp: StreamRecord | None
    evidence: list[CheckRecord]
    environment: dict[str, Any]
    captures: list[dict[str, Any]]
    attempt: int = 1
    elapsed_s: float = 0.0
    raw: dict[str, Any] = {}

    model_config = ConfigDict(alias_generator=lambda name: {
        "schema_": "schema"}.get(name, name), populate_by_name=True)

    @property
    def name(self) -> str:
        """The record's file name without its ending: POLICY-SCENARIO-REPETITION."""
        return record_name(self.policy, self.scenario, self.repetition)


def record_name(policy: str, scenario: str, repetition: int) -> str:
    """How a repetition is called, in records, captures and logs alike."""
    return f"{policy}-{scenario}-{repetition:03d}"


def write(record: Record, folder: Path) -> Path:
    """Write a record under its name: whole or not at all, whenever the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.name}.json"
    temporary = folder / f".{record.name}.{os.getpid()}.tmp"
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(record.model_dump_json(by_alias=True, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read(path: Path) -> Record:
    """Read a record; raises RecordError for anything else."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read ({error})") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> Record:
    """The record that a text is; raises RecordError, which names `where` it stands."""
    found = _schema_of(text)
    if found is not None and found != SCHEMA:
        raise RecordError(f"{where}: schema {found}, this version reads {SCHEMA}; "
                          "measure again or use the version that wrote it")
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        said = " ".join(f"{field}: {first['msg']}".split())
        raise RecordError(f"{where}: {said}; not a record of schema {SCHEMA}, "
                          "move it away or measure again") from None


def _schema_of(text: str) -> int | None:
    """The schema number of what may be a record of any version; None if it has none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = document.get("schema") if isinstance(document, dict) else None
    return found if isinstance(found, int) else None


def read_all(folder: Path) -> tuple[list[Record], list[str]]:
    """Every record of a folder in order of name, and a line for each file that is none."""
    records, complaints = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(read(path))
        except RecordError as error:
            complaints.append(str(error))
    return records, complaints
