"""Messages of a worker, validated against the share that it was given.

A worker is not trusted. Invalid are messages about another worker's steps or about files outside
of its own folders, and endless streams. After one invalid message the worker is dropped. Invented
numbers for its own steps cannot be noticed here; its captures can show them (`./qop verify
--redo`).
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
from measure.record import Record, RecordError, describe_validation_error
from policies.errors import one_line
from studies import records as stored

#: Events of a share's own run that are accepted, with their fields.
_EVENTS: Mapping[str, tuple[str, ...]] = {
    "testbed-starting": ("testbed", "processor"),
    "testbed-ready": ("testbed",),
    "testbed-lost": ("testbed", "reason"),
    "testbed-ended": ("testbed",),
    "repetition-started": ("name", "testbed", "attempt", "exclusive"),
    "repetition-measured": ("name", "lasted_s")}
_TEXTS = frozenset({"event", "testbed", "name", "reason"})
#: A step starts and ends on every attempt; testbeds start and stop.
_EVENTS_A_STEP = 100
_LONGEST_TEXT = 300
_DESCRIPTION_BYTES = 1 << 18
_ShortText = Annotated[str, Field(max_length=_LONGEST_TEXT)]
#: Fields of a record's environment that differ between machines.
_OF_ITS_OWN = frozenset({"load_average"})


class InvalidWorkerMessage(Exception):
    """A worker sent an invalid message. The text describes it for the user."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WorkerIdentity(_Message):
    """The code, guest images and processors that a worker measures with.

    `code` is a digest. `images` are image keys by the packages in the image, "" for none.
    `description` is what a results folder stores as provenance. `finished` steps are on the
    machine's disk, from an earlier worker.
    """

    kind: Literal["identity"] = "identity"
    code: _ShortText
    images: dict[_ShortText, _ShortText]
    processors: int = Field(ge=1, le=4096)
    # A longer text is cut here and is then no valid JSON.
    description: Annotated[Json[dict[str, Any]],
                           BeforeValidator(lambda text: str(text)[:_DESCRIPTION_BYTES])]
    finished: tuple[str, ...] = ()


class SentFinding(_Message):
    """A finished repetition: its record as JSON, and its compressed captures by file name.

    `files` are the files that its study keeps, also by name. `reports` are the lines that the
    repetition reported while it ran.
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
    """The end of a share. An empty `broken` means that all of it was measured.

    `logs` are the newest logs of the share, by path below logs/.
    """

    kind: Literal["end"]
    broken: str
    logs: dict[str, bytes]


Message = WorkerIdentity | SentFinding | Happened | Ended
_MESSAGES: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def parse_message(document: Mapping[str, Any]) -> Message:
    """Parse a worker's message.

    Raises:
        LieError: The message is invalid.
    """
    try:
        return _MESSAGES.validate_python(document)
    except ValidationError as error:
        raise InvalidWorkerMessage(
            "it said something that nobody does "
            f"({printable_line(describe_validation_error(error))})") from None


def printable_line(text: str) -> str:
    """Return a worker's text on one line, without terminal control characters."""
    return one_line(" ".join(text.split())[:_LONGEST_TEXT])


class ShareHearing:
    """The state of one share as its worker reports it. It validates each message."""

    def __init__(self, share: Share) -> None:
        #: Steps of the share that are left to measure.
        self.share = share
        self._steps = dict(share.steps)
        #: Names of the steps that are started and not finished.
        self.under_way: set[str] = set()
        #: Whether any record was stored.
        self.has_records = False
        #: Reason why the share broke, "" if it did not; None before its end.
        self.broken: str | None = None
        self._events = 0

    def accept_event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event with its known fields.

        Raises:
            LieError: The event or one of its fields is invalid, or there are too many events.
        """
        self._events += 1
        if self._events > _EVENTS_A_STEP * (1 + len(self._steps)):
            raise InvalidWorkerMessage("its events do not end")
        kind = str(event.get("event"))
        fields: dict[str, Any] = {name: event.get(name)
                                  for name in ("event", *_EVENTS.get(kind, ()))}
        if kind not in _EVENTS or not all(
                isinstance(value, str if name in _TEXTS else int | float)
                for name, value in fields.items()):
            raise InvalidWorkerMessage("it told of an event that there is not")
        if "name" in fields and fields["name"] not in self._steps:
            raise InvalidWorkerMessage("it told of a repetition that is not of its share")
        if fields.get("testbed", "") not in {"", *self.share.plan.testbeds}:
            raise InvalidWorkerMessage("it told of a testbed that is not of the plan")
        if kind == "repetition-started":
            self.under_way.add(fields["name"])
        elif kind == "repetition-measured":
            self.under_way.discard(fields["name"])
        return fields | ({"reason": printable_line(fields["reason"])} if "reason" in fields else {})

    def accept_end(self, ended: Ended) -> None:
        """Record the end of the share, and check that its logs may be stored.

        Raises:
            LieError: A second end, a path that is no log, or too many bytes of logs.
        """
        if self.broken is not None:
            raise InvalidWorkerMessage("it ended a second time")
        for path in ended.logs:
            if kind_of(f"logs/{path}") is not FileKind.LOG:
                raise InvalidWorkerMessage("a log that is none, or would stand elsewhere "
                                           f"({printable_line(path)!r})")
        if sum(map(len, ended.logs.values())) > LOG_BYTES:
            raise InvalidWorkerMessage(f"more than {LOG_BYTES >> 20} MB of logs")
        self.broken = printable_line(ended.broken)

    def accept_record(self, finding: SentFinding) -> Record:
        """Return the record of a finding that may be stored.

        Raises:
            LieError: The record or a file does not belong to the share.
        """
        try:
            entry = stored.parse_record(finding.record, "its record")
        except RecordError as error:
            raise InvalidWorkerMessage(printable_line(str(error))) from None
        step = self._steps.get(entry.name)
        if step is None:
            raise InvalidWorkerMessage(
                f"the record {printable_line(entry.name)}, which is not of its share")
        if what := _describe_mismatch(entry, step, self.share.plan):
            raise InvalidWorkerMessage(f"a record of {step.name} with {what}")
        captures = {f"{capture.get('file')}{SUFFIX}" for capture in entry.captures}
        for folder, there, names in (("captures", finding.captures, captures),
                                     ("files", finding.files, set(entry.files))):
            for name in there:
                if name not in names or "/" in name or not kind_of(f"{folder}/{step.name}/{name}"):
                    raise InvalidWorkerMessage(
                        f"with {step.name} a file that its record does not name, or "
                                               f"that holds no data ({printable_line(name)!r})")
        if not self.share.is_expected(entry):
            raise InvalidWorkerMessage(f"the record {entry.name} a second time")
        return entry

    def mark_stored(self, entry: Record) -> None:
        """Mark a record of the share as stored."""
        self.share.mark_received(entry)
        self.under_way.discard(entry.name)
        self.has_records = True


def _describe_mismatch(entry: Record, step: Step, plan: Plan) -> str:
    """Describe how a record differs from the plan for its step, "" if it does not."""
    environment = recording.describe_circumstances(plan, step)
    levels = {name: level.digest for name, level in step.cell.levels.items() if level.digest}
    parts = (("another cell", entry.cell, dict(step.cell.ids)),
             ("another study", (entry.study.id, entry.study.version),
              (plan.study.id, plan.study.version)),
             ("another level's content", entry.digests, levels),
             ("other settings", entry.asked, plan.asked.to_stored_settings()),
             *((f"another {name}", entry.environment.get(name), value)
               for name, value in environment.items() if name not in _OF_ITS_OWN))
    texts = [entry.reason, *(entry.environment.get("flags") or ())]
    if not all(letter.isprintable() or letter.isspace() for text in texts for letter in text):
        return "a reason that is not text"
    return next((what for what, there, right in parts if there != right), "")
