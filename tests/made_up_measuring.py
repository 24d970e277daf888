"""Shares of a cluster whose records are made up, for workers in the tests' own process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from distributed import get_worker

from fabricated import make
from guest import image
from harness.cluster import worker_tasks
from harness.cluster.shares import Share
from harness.engine import recording
from harness.engine.events import EventLog
from harness.engine.plan import Step
from harness.engine.results import ResultsFolder
from measure.records import record
from measure.records.record import Record

#: What guests would boot.
IMAGE = image.GuestImage(Path("linux"), Path("root"), seccomp=True, key="kernel-root", manifest={})
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
    #: The step after whose record the worker's process is killed.
    dies_before_sending: str = ""
    #: What it takes to end what was measured, as guests do.
    ending_s: float = 0.0
    #: Steps by the address of the worker that measured them, in order.
    measured: dict[str, list[str]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    #: How many shares were under way when each began, itself counted.
    side_by_side: list[int] = field(default_factory=list)


SCRIPT = Script()


async def measure(share: Share, results: ResultsFolder, events: EventLog,
                  kept: Callable[[Record], None]) -> None:
    """Make up one repetition after the other, as the script says."""
    at, count = get_worker().address, 0
    if at in SCRIPT.broken:
        raise OSError(BROKEN)
    SCRIPT.side_by_side.append(len(SCRIPT.side_by_side) - len(SCRIPT.closed) + 1)
    steps, again = share.split_steps()
    todo = [(step, False) for step in steps] + [(step, True) for step in again]
    try:
        for step, exclusive in todo:
            events.emit_event("repetition-started", name=step.name, testbed=share.plan.testbed_of(
                step.cell), attempt=1, exclusive=exclusive)
            if count >= SCRIPT.stalls_after and SCRIPT.stalled in {"", at}:
                SCRIPT.stalled = at
                await asyncio.Event().wait()
            if step.name in SCRIPT.poisonous:
                raise RuntimeError("its guest killed it")
            entry = made(share, step, exclusive=exclusive)
            put(results, entry)
            SCRIPT.measured.setdefault(at, []).append(step.name)
            if step.name == SCRIPT.dies_before_sending:
                os.kill(os.getpid(), signal.SIGKILL)
            kept(entry)
            if entry.environment["flags"]:
                todo.append((step, True))
            count += 1
            await asyncio.sleep(0.02)
        log = results.logs / "cells" / "P1-N2.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(LINE)
    finally:
        await asyncio.sleep(SCRIPT.ending_s)
        SCRIPT.closed.append(at)


async def measure_or_skip(share: Share, results: ResultsFolder, events: EventLog,
                          kept: Callable[[Record], None]) -> None:
    """As a worker does, where testbeds name packages; the rest is made up."""
    there = {key for key, testbed in share.plan.testbeds.items() if testbed.spec.packages}
    named, others = Share(share.plan), Share(share.plan)
    for step in share.steps.values():
        (named if share.plan.testbed_of(step.cell) in there else others).add_steps([step])
    if named.steps:
        await worker_tasks.run_campaign(named, results, events, kept)
    await measure(others, results, events, kept)


def made(share: Share, step: Step, *, exclusive: bool = False) -> Record:
    """The record of a step, as a plan wants it."""
    flagged = step.name in SCRIPT.flagged and not exclusive
    return make(step.cell.ids["policy"], step.repetition).model_copy(update={
        "digests": {name: level.digest for name, level in step.cell.levels.items()
                    if level.digest},
        "asked": share.plan.asked.to_stored_settings(), "captures": [{"file": "auth-mn.pcap"}],
        "files": ["trace.txt"],
        "environment": {**recording.describe_circumstances(share.plan, step), "alone": exclusive,
                        "pid": os.getpid(), "flags": ["processor"] if flagged else []}})


def put(results: ResultsFolder, entry: Record) -> None:
    """Put a repetition into a results folder."""
    record.write_record(entry, results.records)
    for path in (results.captures / entry.name / "auth-mn.pcap.gz",
                 results.files / entry.name / "trace.txt", results.reports / f"{entry.name}.jsonl"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LINE if path.suffix == ".jsonl" else entry.name.encode())
