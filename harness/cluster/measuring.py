"""What a worker does for a run: it says what it measures with, and measures shares.

These are tasks of dask's. What one has to say goes to the run as events on a topic of its own, an
ordered stream, as plain data. A share is measured as a local run is, in a results folder of the
worker's, the spool: a worker that is started anew on this machine sends what one that was killed
had finished.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from distributed import get_worker

from harness.cluster import guard, spool
from harness.cluster.shares import Share
from harness.engine import provenance, setup, variants
from harness.engine.campaign import Campaign
from harness.engine.events import Event, EventLog
from harness.engine.plan import Plan
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from measure.record import Record
from studies import records as stored

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
    """Measure a share as a local run does, with the images that there are."""
    machine = await asyncio.to_thread(setup.machine, share.plan, builds=False)
    await Campaign(share.plan, machine, results, events, kept=kept).run(*share.split())


class _Voice:
    """What a worker says to a run about a task, in order."""

    def __init__(self, serial: str) -> None:
        self._say = functools.partial(get_worker().log_event, f"{guard.TOPIC}{serial}")

    def __call__(self, kind: str, **content: Any) -> None:
        self._say({"kind": kind, **content})

    def event(self, event: Event) -> None:
        """What happened; of a record the run makes an event of its own."""
        if event["event"] not in ("repetition-recorded", "repetition-flagged"):
            self("event", event=dict(event))

    def finding(self, results: ResultsFolder, entry: Record) -> None:
        """A finished repetition with all that belongs to it, as JSON and bytes by file name."""
        captures, files = (
            {path.name: path.read_bytes() for path in sorted((folder / entry.name).glob("*"))}
            for folder in (results.captures, results.files))
        reports = results.reports / f"{entry.name}.jsonl"
        said = reports.read_bytes() if reports.exists() else b""
        size = len(said) + sum(map(len, (*captures.values(), *files.values())))
        if size > guard.MESSAGE_BYTES - _ENVELOPE_BYTES:
            raise UserError(f"{entry.name}: {size} bytes, more than a worker may send; measure it "
                            "with '--captures none', or without --cluster", status=1)
        self("finding", record=(results.records / f"{entry.name}.json").read_text(), reports=said,
             captures=captures, files=files)


def identity(plan: Plan) -> dict[str, Any]:
    """What this machine measures a plan with, as `received.WorkerIdentity` has it."""
    images = variants.keys(plan)
    known = {"code": provenance.code_digest(plan.study.id), "images": images}
    if not variants.suffice(plan, images):
        return known | {"processors": 1, "description": "{}"}
    machine = setup.machine(plan, builds=False)
    return known | {"processors": len(machine.processors),
                    "description": json.dumps(provenance.describe(plan, machine))}


def identify(run: str, serial: str, plan: Plan) -> None:
    """Say what this worker measures with, and which steps of this run it has finished before."""
    finished = tuple(sorted({name for _, name in spool.left(run)}))
    _Voice(serial)("identity", **identity(plan), finished=finished)


async def measure(run: str, serial: str, share: Share, measurer: Measurer = campaign) -> None:
    """Measure a share and say all that comes of it, the last how it ended.

    A share whose run gave it up, or is gone, ends: dask tells by the state of its task.
    """
    worker = get_worker()
    say = _Voice(serial)
    spool.forget(run, worker.id)  # its run has had all of the last one, or would not ask again
    task = asyncio.create_task(_measured(run, share, measurer, say))
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
            state = worker.state.tasks.get(f"{measure.__name__}-{serial}")
            if state is None or state.state != "executing":
                break
    finally:  # dask cancels this when the worker closes
        task.cancel()  # once: a second time would break the leaving
        await asyncio.wait({task})
        say("end", broken="stopped" if task.cancelled() else _why(task.exception()),
            logs=_logs(spool.place(run, worker.id)))
        if task.cancelled():
            spool.forget(run, worker.id)


def _why(error: BaseException | None) -> str:
    if error is None:
        return ""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _logs(folder: Path) -> dict[str, bytes]:
    """The newest logs of a results folder, as much of them as is sent, by path below logs/."""
    logs = ResultsFolder(folder).logs
    left = LOG_BYTES
    sent: dict[str, bytes] = {}
    paths = (path for path in logs.rglob("*") if path.is_file())
    for path in sorted(paths, key=lambda path: -path.stat().st_mtime):
        sent[path.relative_to(logs).as_posix()] = data = path.read_bytes()[-left:] if left else b""
        left -= len(data)
    return sent


async def _measured(run: str, share: Share, measurer: Measurer, say: _Voice) -> None:
    """Measure a share, but for what a worker that was killed had finished of it: that is sent."""
    for folder, name in spool.left(run):
        if name in share.steps and share.awaits(
                entry := stored.read(folder.records / f"{name}.json")):
            say.finding(folder, entry)
            share.strike(entry)
    with spool.opened(run, get_worker().id, share.captures) as results:
        await measurer(share, results, EventLog(results.path, say.event),
                       functools.partial(say.finding, results))
