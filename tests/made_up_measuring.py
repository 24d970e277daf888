"""Shares of a cluster whose records are made up, for workers in the tests' own process."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import get_worker
from distributed.protocol import to_serialize
from distributed.protocol.serialize import ToPickle

from fabricated import make
from harness.cluster.guard import TOPIC
from harness.cluster.measuring import Share
from harness.engine import recording
from harness.engine.events import EventLog
from harness.engine.plan import Step
from harness.engine.results import ResultsFolder
from measure import record
from measure.record import Record

BROKEN = "no space left on device"
LINE = b"a line\n"


@dataclass
class Script:
    """How workers behave, and what they did."""

    #: Steps that no share survives.
    poisonous: set[str] = field(default_factory=set)
    #: Steps that are flagged unless they are measured exclusively.
    flagged: set[str] = field(default_factory=set)
    #: Addresses of workers that cannot even begin.
    broken: set[str] = field(default_factory=set)
    #: The first worker that has measured so many repetitions measures no more.
    stalls_after: int = 10**6
    stalled: str = ""
    #: What the worker of an address says once it has measured one repetition.
    lie: Callable[[Share], None] | None = None
    liar: str = ""
    #: Steps by the address of the worker that measured them, in order.
    measured: dict[str, list[str]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)


SCRIPT = Script()


async def measure(share: Share, results: ResultsFolder, events: EventLog,
                  kept: Callable[[Record], None]) -> None:
    """Make up one repetition after the other, as the script says."""
    at, lie, count = get_worker().address, SCRIPT.lie, 0
    if at in SCRIPT.broken:
        raise OSError(BROKEN)
    todo = [(step, False) for step in share.steps] + [(step, True) for step in share.again]
    try:
        for step, exclusive in todo:
            events.say("repetition-started", name=step.name, testbed=share.plan.testbed_of(
                step.cell), attempt=1, exclusive=exclusive)
            if count >= SCRIPT.stalls_after and SCRIPT.stalled in {"", at}:
                SCRIPT.stalled = at
                await asyncio.Event().wait()
            if step.name in SCRIPT.poisonous:
                raise RuntimeError("its guest killed it")
            entry = made(share, step, exclusive=exclusive)
            put(results, entry)
            SCRIPT.measured.setdefault(at, []).append(step.name)
            kept(entry)
            if entry.environment["flags"]:
                todo.append((step, True))
            count += 1
            await asyncio.sleep(0.02)
            if lie is not None and SCRIPT.liar in {"", at}:
                SCRIPT.liar = at
                lie(share)
                await asyncio.sleep(0.3)  # what follows was said by a worker that was found out
        log = results.logs / "cells" / "P1-N2.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(LINE)
    finally:
        SCRIPT.closed.append(at)


def made(share: Share, step: Step, *, exclusive: bool = False) -> Record:
    """The record of a step, as a plan wants it."""
    flagged = step.name in SCRIPT.flagged and not exclusive
    return make(step.cell.ids["policy"], step.repetition).model_copy(update={
        "digests": {name: level.digest for name, level in step.cell.levels.items()
                    if level.digest},
        "asked": share.plan.asked.kept(), "captures": [{"file": "auth-mn.pcap"}],
        "files": ["trace.txt"],
        "environment": {**recording.circumstances(share.plan, step), "alone": exclusive,
                        "flags": ["processor"] if flagged else []}})


def put(results: ResultsFolder, entry: Record) -> None:
    """Put a repetition into a results folder."""
    record.write(entry, results.records)
    for path in (results.captures / entry.name / "auth-mn.pcap.gz",
                 results.files / entry.name / "trace.txt", results.reports / f"{entry.name}.jsonl"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LINE if path.suffix == ".jsonl" else entry.name.encode())


# --- Lies -----------------------------------------------------------------------------------------


def say(share: Share, kind: str, **content: Any) -> None:
    """Say something of a share, whatever it is."""
    get_worker().log_event(f"{TOPIC}{share.run}", {"kind": kind, "serial": share.serial, **content})


def finding(share: Share, changes: Mapping[str, Any] | None = None, *, number: int = 1,
            **content: Any) -> None:
    """Send a step's record with changes, and other files."""
    entry = made(share, share.steps[number]).model_copy(update=dict(changes or {}))
    say(share, "finding", **{"record": entry.model_dump_json(by_alias=True), "captures": {},
                             "files": {}, "reports": b"", **content})


def of_another_worker(share: Share) -> None:
    """The record of a cell that this worker was not given."""
    mine = {step.name for step in share.all_steps}
    other = next(step for step in share.plan.steps() if step.name not in mine)
    say(share, "finding", record=made(share, other).model_dump_json(by_alias=True), captures={},
        files={}, reports=b"")


class Bomb:
    """Leaves a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


def bombs(path: Path) -> Mapping[str, Callable[[Share], None]]:
    """Pickles that a worker may send, by the way that they take."""
    def send(message: dict[str, Any]) -> None:
        get_worker().batched_send(message)

    def erred(share: Share) -> dict[str, Any]:
        return {"op": "task-erred", "key": f"measure-{share.serial}", "exception_text": "",
                "traceback_text": "", "stimulus_id": "x", "startstops": (), "run_id": 1}

    blob = pickle.dumps(Bomb(path))
    return {
        "an event": lambda share: send({"op": "log-event", "topic": f"{TOPIC}{share.run}",
                                        "msg": ToPickle(Bomb(path))}),
        "an event's part": lambda share: send({
            "op": "log-event", "topic": f"{TOPIC}{share.run}",
            "msg": {"kind": "end", "broken": to_serialize(Bomb(path)), "serial": share.serial}}),
        "an exception": lambda share: send({
            **erred(share), "exception": to_serialize(blob), "traceback": to_serialize(blob)}),
        "an exception's bytes": lambda share: send({
            **erred(share), "exception": blob, "traceback": blob}),
        "a warning": lambda _: send({"op": "log-event", "topic": "warn", "msg": {
            "message": blob}}),
        "a graph": lambda _: send({"op": "update-graph", "expr_ser": to_serialize(Bomb(path))}),
    }
