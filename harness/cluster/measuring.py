"""What a worker does for a run: it says what it measures with, and measures shares.

These are tasks of dask's. What they have to say goes to the run as events on its topic, one
ordered stream, as plain data. A share is measured as a local run is, in a results folder of the
worker's, the spool: a worker that is started anew on this machine sends what one that was killed
had finished.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from distributed import get_worker

from harness.cluster import guard, spool
from harness.cluster.shares import Share, strike
from harness.engine import provenance, setup, variants
from harness.engine.campaign import Campaign
from harness.engine.events import Event, EventLog
from harness.engine.plan import Plan
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from measure.record import Record

#: What of a worker a share takes: there is one of it.
RESOURCE = "machine"
#: How much of all logs of a share is sent, from the newest back.
LOG_BYTES = 8 << 20
_LOOK_S = 0.5
#: What a message needs beside its contents.
_ENVELOPE_BYTES = 1 << 16
#: Measures a share in a results folder; told of events and of every record once it is kept.
Measurer = Callable[[Share, ResultsFolder, EventLog, Callable[[Record], None]], Awaitable[None]]


async def campaign(share: Share, results: ResultsFolder, events: EventLog,
                   kept: Callable[[Record], None]) -> None:
    """Measure a share as a local run does."""
    machine = await asyncio.to_thread(setup.machine, share.plan)
    await Campaign(share.plan, machine, results, events, kept=kept).run(share.steps, share.again)


class _Voice:
    """What a worker says to a run about a task, in order."""

    def __init__(self, run: str, serial: str) -> None:
        self._say = functools.partial(get_worker().log_event, f"{guard.TOPIC}{run}")
        self._serial = serial

    def __call__(self, kind: str, **content: Any) -> None:
        self._say({"kind": kind, "serial": self._serial, **content})

    def event(self, event: Event) -> None:
        """What happened; of a record the run makes an event of its own."""
        if event["event"] not in ("repetition-recorded", "repetition-flagged"):
            self("event", event=dict(event))

    def finding(self, results: ResultsFolder, entry: Record) -> None:
        """A finished repetition with all that belongs to it, as JSON and bytes by file name."""
        folders = {"captures": results.captures / entry.name, "files": results.files / entry.name}
        content = {name: {path.name: path.read_bytes() for path in sorted(folder.glob("*"))}
                   for name, folder in folders.items()}
        reports = results.reports / f"{entry.name}.jsonl"
        said = reports.read_bytes() if reports.exists() else b""
        size = len(said) + sum(len(data) for files in content.values() for data in files.values())
        if size > guard.MESSAGE_BYTES - _ENVELOPE_BYTES:
            raise UserError(f"{entry.name}: {size} bytes, more than a worker may send; measure it "
                            "with '--captures none', or without --cluster", status=1)
        self("finding", record=(results.records / f"{entry.name}.json").read_text(), reports=said,
             **content)

    def logs(self, folder: Path) -> None:
        """The newest logs, as much of them as is sent."""
        left = LOG_BYTES
        paths = (path for path in folder.rglob("*") if path.is_file())
        for path in sorted(paths, key=lambda path: -path.stat().st_mtime):
            data = path.read_bytes()[-left:] if left else b""
            left -= len(data)
            self("log", path=path.relative_to(folder).as_posix(), content=data)


def identity(plan: Plan) -> dict[str, Any]:
    """What this machine measures a plan with, as `received.WorkerIdentity` has it."""
    code = provenance.code_digest(plan.study.id)
    key = variants.key_of(variants.built(plan))
    if not key:
        return {"code": code, "image": "", "processors": 0}
    machine = setup.machine(plan)
    return {"code": code, "image": key, "processors": len(machine.processors),
            "description": provenance.describe(plan, machine)}


def identify(run: str, serial: str, plan: Plan) -> None:
    """Say what this worker measures with, and which steps of this run it has finished before."""
    finished = tuple(sorted({name for _, name in spool.left(run)}))
    _Voice(run, serial)("identity", **identity(plan), finished=finished)


async def measure(run: str, serial: str, share: Share, measurer: Measurer = campaign) -> None:
    """Measure a share and say all that comes of it, the last how it ended.

    A share whose run gave it up, or is gone, ends: dask tells by the state of its task.
    """
    worker = get_worker()
    say = _Voice(run, serial)
    spool.forget(run, worker.id)  # its run has had all of the last one, or would not ask again
    task = asyncio.create_task(_measured(run, share, measurer, say))
    worker.measuring.add(task)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
            state = worker.state.tasks.get(f"{measure.__name__}-{serial}")
            if state is None or state.state != "executing":
                task.cancel()
    finally:
        worker.measuring.discard(task)
    say("end", broken="stopped" if task.cancelled() else _why(task.exception()))
    if task.cancelled():
        spool.forget(run, worker.id)


def _why(error: BaseException | None) -> str:
    if error is None:
        return ""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


async def _measured(run: str, share: Share, measurer: Measurer, say: _Voice) -> None:
    """Measure a share, but for what a worker that was killed had finished of it: that is sent."""
    with ResultsFolder(spool.place(run, get_worker().id), share.captures) as results:
        awaited = share.awaited
        for entry in spool.take_over(run, results, share):
            if not awaited[entry.name] or entry.environment.get("alone"):
                say.finding(results, entry)
                strike(awaited, entry)
        try:
            await measurer(share.left(awaited), results, EventLog(results.path, say.event),
                           functools.partial(say.finding, results))
        finally:
            say.logs(results.logs)
