"""What a worker says, read as the data that it should be and held to what it was asked for.

A worker is not believed: what it says of another's steps, of files outside its own or without end
is a lie, and one lie is the last that is heard of it. Numbers that it makes up for its own steps
nobody here can tell; their captures can (`./qop verify --redo`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    TypeAdapter,
    ValidationError,
)

from harness.cluster.measuring import LOG_BYTES
from harness.cluster.shares import Share
from harness.engine import recording
from harness.engine.packing import SUFFIX
from harness.engine.plan import Plan, Step
from harness.portable.contents import FileKind, kind_of
from measure.record import Record, RecordError, said
from policies.errors import one_line
from studies import records as stored

#: Events of a share's own run that are taken over, by the names of what they say.
_EVENTS: Mapping[str, tuple[str, ...]] = {
    "testbed-starting": ("testbed", "processor"),
    "testbed-ready": ("testbed",),
    "testbed-lost": ("testbed", "reason"),
    "testbed-ended": ("testbed",),
    "repetition-started": ("name", "testbed", "attempt", "exclusive"),
    "repetition-measured": ("name", "lasted_s")}
_TEXTS = frozenset({"event", "testbed", "name", "reason"})
#: A step begins and ends, as often as it is tried; testbeds come and go.
_EVENTS_A_STEP = 100
_LONGEST_TEXT = 300
_DESCRIPTION_BYTES = 1 << 18
_ShortText = Annotated[str, Field(max_length=_LONGEST_TEXT)]
#: What of a record's circumstances differs from machine to machine.
_OF_ITS_OWN = frozenset({"load_average"})


class LieError(Exception):
    """A worker said what cannot be so; the text is what, for the user."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WorkerIdentity(_Message):
    """What a worker measures with, and how much of it there is.

    `code` is a digest; `images` are keys by the packages that are in them, "" for none.
    `description` is what a results folder keeps as provenance. `finished` steps are on its disk,
    of a worker before it.
    """

    kind: Literal["identity"] = "identity"
    code: _ShortText
    images: dict[_ShortText, _ShortText]
    processors: int = Field(ge=1, le=4096)
    # What is longer than this is no JSON any more.
    description: Annotated[Json[dict[str, Any]],
                           BeforeValidator(lambda text: str(text)[:_DESCRIPTION_BYTES])]
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


class Ended(_Message):
    """The share ended; with an empty `broken`, all of it was measured.

    `logs` are the newest of it, by path below logs/.
    """

    kind: Literal["end"]
    broken: str
    logs: dict[str, bytes]


Message = WorkerIdentity | SentFinding | Happened | Ended
_MESSAGES: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def read(document: Mapping[str, Any]) -> Message:
    """What a worker said, as data. Raises LieError."""
    try:
        return _MESSAGES.validate_python(document)
    except ValidationError as error:
        raise LieError(f"it said something that nobody does ({printable(said(error))})") from None


def printable(text: str) -> str:
    """A worker's words on one line, without what would steer a terminal."""
    return one_line(" ".join(text.split())[:_LONGEST_TEXT])


class ShareHearing:
    """What one worker has said of one share, and what it may say."""

    def __init__(self, share: Share) -> None:
        #: What is left of it.
        self.share = share
        self._steps = dict(share.steps)
        #: Steps that it has begun and not finished.
        self.under_way: set[str] = set()
        #: Whether there is a record of any.
        self.has_records = False
        #: Why the share broke, "" if it did not; None before its end.
        self.broken: str | None = None
        self._events = 0

    def event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An event with what belongs to it. Raises LieError."""
        self._events += 1
        if self._events > _EVENTS_A_STEP * (1 + len(self._steps)):
            raise LieError("its events do not end")
        kind = str(event.get("event"))
        fields: dict[str, Any] = {name: event.get(name)
                                  for name in ("event", *_EVENTS.get(kind, ()))}
        if kind not in _EVENTS or not all(
                isinstance(value, str if name in _TEXTS else int | float)
                for name, value in fields.items()):
            raise LieError("it told of an event that there is not")
        if "name" in fields and fields["name"] not in self._steps:
            raise LieError("it told of a repetition that is not of its share")
        if fields.get("testbed", "") not in {"", *self.share.plan.testbeds}:
            raise LieError("it told of a testbed that is not of the plan")
        if kind == "repetition-started":
            self.under_way.add(fields["name"])
        elif kind == "repetition-measured":
            self.under_way.discard(fields["name"])
        return fields | ({"reason": printable(fields["reason"])} if "reason" in fields else {})

    def end(self, ended: Ended) -> None:
        """Its end, with logs that may be kept. Raises LieError."""
        if self.broken is not None:
            raise LieError("it ended a second time")
        for path in ended.logs:
            if kind_of(f"logs/{path}") is not FileKind.LOG:
                raise LieError("a log that is none, or would stand elsewhere "
                               f"({printable(path)!r})")
        if sum(map(len, ended.logs.values())) > LOG_BYTES:
            raise LieError(f"more than {LOG_BYTES >> 20} MB of logs")
        self.broken = printable(ended.broken)

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
        for folder, there, names in (("captures", finding.captures, captures),
                                     ("files", finding.files, set(entry.files))):
            for name in there:
                if name not in names or "/" in name or not kind_of(f"{folder}/{step.name}/{name}"):
                    raise LieError(f"with {step.name} a file that its record does not name, or "
                                   f"that holds no data ({printable(name)!r})")
        if not self.share.awaits(entry):
            raise LieError(f"the record {entry.name} a second time")
        return entry

    def kept(self, entry: Record) -> None:
        """A record of it is kept."""
        self.share.strike(entry)
        self.under_way.discard(entry.name)
        self.has_records = True


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
    texts = [entry.reason, *(entry.environment.get("flags") or ())]
    if not all(letter.isprintable() or letter.isspace() for text in texts for letter in text):
        return "a reason that is not text"
    return next((what for what, there, right in parts if there != right), "")
