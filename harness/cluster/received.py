"""What a worker says, read as the data that it should be and held to what it was asked for.

A worker is not believed: what it says of another's steps, of files outside its own or without end
is a lie, and one lie is the last that is heard of it. Numbers that it makes up for its own steps
nobody here can tell; their captures can (`./qop verify --redo`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from harness.cluster.measuring import LOG_BYTES
from harness.cluster.shares import Share, strike
from harness.engine import recording
from harness.engine.packing import SUFFIX
from harness.engine.plan import Plan, Step
from harness.portable.contents import is_safe
from measure.record import Record, RecordError, said
from policies.errors import one_line
from studies import records as stored

#: Events of a share's own run that are taken over, by the names of what they say.
_EVENTS: Mapping[str, frozenset[str]] = {
    "testbed-starting": frozenset({"testbed", "processor"}),
    "testbed-ready": frozenset({"testbed"}),
    "testbed-lost": frozenset({"testbed", "reason"}),
    "testbed-ended": frozenset({"testbed"}),
    "repetition-started": frozenset({"name", "testbed", "attempt", "exclusive"}),
    "repetition-measured": frozenset({"name", "lasted_s"})}
#: A step begins and ends, as often as it is tried; testbeds come and go.
_EVENTS_A_STEP = 100
_LONGEST_TEXT = 300
_DESCRIPTION_BYTES = 1 << 18
#: What of a record's circumstances differs from machine to machine.
_OF_ITS_OWN = frozenset({"load_average"})


class LieError(Exception):
    """A worker said what cannot be so; the text is what, for the user."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WorkerIdentity(_Message):
    """What a worker measures with, and how much of it there is.

    `code` and `image` are digests; `image` is "" where none is built. `description` is what a
    results folder keeps as provenance. `finished` steps are on its disk, of a worker before it.
    """

    kind: Literal["identity"] = "identity"
    code: str = Field(max_length=_LONGEST_TEXT)
    image: str = Field(max_length=_LONGEST_TEXT)
    processors: int = Field(ge=0, le=4096)
    description: dict[str, Any] = {}
    finished: tuple[str, ...] = ()


class SentFinding(_Message):
    """A finished repetition: its record as JSON, and its captures, compressed, by file name.

    So are the `files` that its study keeps; `reports` is what it said while it ran, as lines.
    """

    kind: Literal["finding"]
    record: str
    captures: dict[str, bytes]
    files: dict[str, bytes]
    reports: bytes


class Happened(_Message):
    """An event of the share's own run."""

    kind: Literal["event"]
    event: dict[str, Any]


class ShareLog(_Message):
    """A log of the share, by its path below logs/."""

    kind: Literal["log"]
    path: str
    content: bytes


class Ended(_Message):
    """The share ended; with an empty `broken`, all of it was measured."""

    kind: Literal["end"]
    broken: str


Message = WorkerIdentity | SentFinding | Happened | ShareLog | Ended
_MESSAGES: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def read(document: Mapping[str, Any]) -> Message:
    """What a worker said, but for who said it of which share. Raises LieError."""
    try:
        message = _MESSAGES.validate_python(
            {name: value for name, value in document.items() if name not in ("worker", "serial")})
    except (ValidationError, RecursionError) as error:
        what = said(error) if isinstance(error, ValidationError) else "nested too deep"
        raise LieError(f"it said something that nobody does ({printable(what)})") from None
    if isinstance(message, WorkerIdentity):
        try:
            size = len(json.dumps(message.description))
        except (ValueError, TypeError, RecursionError):
            size = _DESCRIPTION_BYTES + 1
        if size > _DESCRIPTION_BYTES:
            raise LieError("its description of itself cannot be kept")
    return message


def printable(text: str) -> str:
    """A worker's words on one line, without what would steer a terminal."""
    return one_line(" ".join(text.split())[:_LONGEST_TEXT])


class ShareHearing:
    """What one worker has said of one share, and what it may say."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self._steps = {step.name: step for step in share.all_steps}
        #: Steps whose record is to come, and whether it must be an exclusively measured one.
        self.awaited = share.awaited
        #: Steps that it has begun and not finished.
        self.under_way: set[str] = set()
        #: Why the share broke, "" if it did not.
        self.broken = ""
        self._log_bytes = 0
        self._events = 0

    def event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An event with what belongs to it. Raises LieError."""
        self._events += 1
        if self._events > _EVENTS_A_STEP * (1 + len(self._steps)):
            raise LieError("its events do not end")
        fields = _EVENTS.get(str(event.get("event")), frozenset({""}))
        taken = {name: event[name] for name in ("event", *sorted(fields)) if name in event}
        if len(taken) <= len(fields) or not all(isinstance(value, str | int | float)
                                                for value in taken.values()):
            raise LieError("it told of an event that there is not")
        name = taken.get("name")
        if "name" in taken and name not in self._steps:
            raise LieError("it told of a repetition that is not of its share")
        if taken.get("testbed", "") not in {"", *self.share.plan.testbeds}:
            raise LieError("it told of a testbed that is not of the plan")
        if event["event"] == "repetition-started":
            self.under_way.add(str(name))
        elif event["event"] == "repetition-measured":
            self.under_way.discard(str(name))
        return {name: printable(value) if name == "reason" else value
                for name, value in taken.items()}

    def log(self, log: ShareLog) -> ShareLog:
        """A log that may be kept. Raises LieError."""
        if not is_safe(log.path):
            raise LieError(f"a log that would stand elsewhere ({printable(log.path)!r})")
        self._log_bytes += len(log.content)
        if self._log_bytes > LOG_BYTES:
            raise LieError(f"more than {LOG_BYTES >> 20} MB of logs")
        return log

    def record(self, finding: SentFinding) -> Record:
        """The record of a finding that may be kept. Raises LieError."""
        try:
            entry = stored.parse(finding.record, "its record")
        except RecordError as error:
            raise LieError(printable(str(error))) from None
        step = self._steps.get(entry.name)
        if step is None:
            raise LieError(f"the record {printable(entry.name)}, which is not of its share")
        if what := _foreign(entry, step, self.share.plan):
            raise LieError(f"a record of {step.name} with {what}")
        captures = {f"{capture.get('file')}{SUFFIX}" for capture in entry.captures}
        for there, names in ((finding.captures, captures), (finding.files, set(entry.files))):
            for name in there:
                if name not in names or "/" in name or not is_safe(name):
                    raise LieError(f"with {step.name} a file that its record does not name "
                                   f"({printable(name)!r})")
        exclusive = self.awaited.get(entry.name)
        if exclusive is None or (exclusive and not entry.environment.get("alone")):
            raise LieError(f"the record {entry.name} a second time")
        strike(self.awaited, entry)
        self.under_way.discard(entry.name)
        return entry


def _foreign(entry: Record, step: Step, plan: Plan) -> str:
    """What of a record is not as the plan has it for this step, in words; "" if nothing."""
    environment = recording.circumstances(plan, step)
    levels = {name: level.digest for name, level in step.cell.levels.items() if level.digest}
    parts = (("another cell", entry.cell, dict(step.cell.ids)),
             ("another study", (entry.study.id, entry.study.version),
              (plan.study.id, plan.study.version)),
             ("another level's content", entry.digests, levels),
             ("other settings", entry.asked, plan.asked.kept()),
             *((f"another {name}", entry.environment.get(name), value)
               for name, value in environment.items() if name not in _OF_ITS_OWN))
    if not all(letter.isprintable() or letter.isspace() for letter in entry.reason):
        return "a reason that is not text"
    return next((what for what, there, right in parts if there != right), "")
