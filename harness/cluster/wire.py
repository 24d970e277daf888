"""What client and worker send each other: who a worker is, shares of a plan, what came of them.

Plain data. Both sides run the same code, which is checked before anything else is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.engine.plan import Plan, Step


@dataclass(frozen=True)
class WorkerIdentity:
    """What a worker measures with, and how much of it there is.

    `code` and `image` are digests; `image` is "" where none is built. `description` is what a
    results folder keeps as provenance.
    """

    code: str
    image: str
    processors: int
    description: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """Some testbeds' steps, which one worker measures from the first boot to the last record.

    `again` are steps whose record is there, but flagged: they are measured exclusively. `captures`
    says which captures are to be kept.
    """

    serial: str
    plan: Plan
    steps: Sequence[Step]
    again: Sequence[Step] = ()
    captures: str = "all"


@dataclass(frozen=True)
class Finished:
    """A finished repetition: its record as JSON, and its captures, compressed, by file name.

    So are the `files` that its study keeps; `reports` is what it said while it ran, as lines.
    `number` is unique in its share; what has been kept is acknowledged by it.
    """

    number: int
    record: str
    captures: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    reports: bytes = b""


@dataclass(frozen=True)
class Said:
    """How a share stands.

    `events` are those of the share's own run since the last answer, but for records, which come as
    `finished`. `ended` with an empty `broken` means that all of it was measured; `logs` come with
    the end, by path below logs/.
    """

    finished: Sequence[Finished] = ()
    events: Sequence[Mapping[str, Any]] = ()
    ended: bool = False
    broken: str = ""
    logs: Mapping[str, bytes] = field(default_factory=dict)
