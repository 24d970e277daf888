"""Tasks of a worker for a run: describe what it measures with, and measure shares.

These are dask tasks. Their messages go to the run as events on a topic of their own: an ordered
stream of plain data. A share is measured like a local run, in a results folder of the worker, the
spool. A worker that is restarted on this machine sends what a killed worker had finished.
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

#: Dask resource that a share takes; each worker has one.
RESOURCE = "machine"
#: Largest size in bytes of the logs of a share that are sent, the newest first.
LOG_BYTES = 8 << 20
_LOOK_S = 0.5
#: Size in bytes of a message without its contents.
_ENVELOPE_BYTES = 1 << 16
#: Measures a share in a results folder; gets the event log and a callback for each stored record.
Measurer = Callable[[Share, ResultsFolder, EventLog, Callable[[Record], None]], Awaitable[None]]


async def run_campaign(share: Share, results: ResultsFolder, events: EventLog,
                       on_record: Callable[[Record], None]) -> None:
    """Measure a share like a local run, with the existing guest images.

    Args:
        share: The steps to measure.
        results: The results folder, open for writing.
        events: Log for the events of the share.
        on_record: Called with each record once it is stored.
    """
    machine = await asyncio.to_thread(setup.machine_for_plan, share.plan, builds=False)
    await Campaign(share.plan, machine, results, events, kept=on_record).run(*share.split_steps())


class _Voice:
    """A sender of a worker's messages about one task, in order."""

    def __init__(self, serial: str) -> None:
        self._say = functools.partial(get_worker().log_event, f"{guard.TOPIC}{serial}")

    def __call__(self, kind: str, **content: Any) -> None:
        self._say({"kind": kind, **content})

    def send_event(self, event: Event) -> None:
        """Send an event. The run creates its own event for each record."""
        if event["event"] not in ("repetition-recorded", "repetition-flagged"):
            self("event", event=dict(event))

    def send_finding(self, results: ResultsFolder, entry: Record) -> None:
        """Send a finished repetition: its record as JSON, and its files as bytes by name."""
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


def describe_machine(plan: Plan) -> dict[str, Any]:
    """Return what this machine measures a plan with, as fields of `received.WorkerIdentity`."""
    images = variants.built_image_keys(plan)
    known = {"code": provenance.code_digest(plan.study.id), "images": images}
    if not variants.can_measure(plan, images):
        return known | {"processors": 1, "description": "{}"}
    machine = setup.machine_for_plan(plan, builds=False)
    return known | {"processors": len(machine.processors),
                    "description": json.dumps(provenance.describe_provenance(plan, machine))}


def send_identity(run: str, serial: str, plan: Plan) -> None:
    """Send what this worker measures with, and its machine's finished steps of this run."""
    finished = tuple(sorted({name for _, name in spool.find_leftovers(run)}))
    _Voice(serial)("identity", **describe_machine(plan), finished=finished)


async def measure_share(run: str, serial: str, share: Share,
                        measurer: Measurer = run_campaign) -> None:
    """Measure a share and send its messages. The last one says how it ended.

    The share ends when its run gave it up or is gone; dask shows that by the task's state.
    """
    worker = get_worker()
    say = _Voice(serial)
    spool.remove_spool(run,
                       worker.id)  # the run has all of the last share, or it would send no new one
    task = asyncio.create_task(_measure_remaining(run, share, measurer, say))
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
            state = worker.state.tasks.get(f"{measure_share.__name__}-{serial}")
            if state is None or state.state != "executing":
                break
    finally:  # dask cancels this when the worker closes
        task.cancel()  # only once: a second cancellation would interrupt the clean-up
        await asyncio.wait({task})
        say("end", broken="stopped" if task.cancelled() else _describe_failure(task.exception()),
            logs=_collect_logs(spool.spool_path(run, worker.id)))
        if task.cancelled():
            spool.remove_spool(run, worker.id)


def _describe_failure(error: BaseException | None) -> str:
    if error is None:
        return ""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _collect_logs(folder: Path) -> dict[str, bytes]:
    """Return the newest logs of a results folder up to LOG_BYTES, by path below logs/."""
    logs = ResultsFolder(folder).logs
    left = LOG_BYTES
    sent: dict[str, bytes] = {}
    paths = (path for path in logs.rglob("*") if path.is_file())
    for path in sorted(paths, key=lambda path: -path.stat().st_mtime):
        sent[path.relative_to(logs).as_posix()] = data = path.read_bytes()[-left:] if left else b""
        left -= len(data)
    return sent


async def _measure_remaining(run: str, share: Share, measurer: Measurer, say: _Voice) -> None:
    """Send the results that a killed worker left of a share, then measure the other steps."""
    for folder, name in spool.find_leftovers(run):
        if name in share.steps and share.is_expected(
                entry := stored.read_record(folder.records / f"{name}.json")):
            say.send_finding(folder, entry)
            share.mark_received(entry)
    with spool.open_spool(run, get_worker().id, share.captures) as results:
        await measurer(share, results, EventLog(results.path, say.send_event),
                       functools.partial(say.send_finding, results))
