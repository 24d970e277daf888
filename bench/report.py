"""`qop bench report`: measure time and memory for the report of a large study.

The default study makes synthetic records, which have the form and size of measured ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

import studies
from guest.processes import read_group_memory
from harness.engine import request
from harness.engine.machine import ROOT
from harness.engine.plan import Plan
from harness.errors import UserError
from measure.records import record
from measure.records.record import Record, StudyRecord
from studies.study import Judgement

MAX_S, MAX_BYTES, PROCESSORS = 60.0, 2_000_000_000, 2
#: Limits of processor time. The first is the share of a whole report that a report of 1/20 of the
#: records may take. A part of a report does not grow with the records. The second is a multiple of
#: the time to parse the records' JSON.
TWENTIETH_SHARE, PARSING_FACTOR = 1 / 8, 10.0
#: Number of records below which the constant part of a report dominates.
_ENOUGH_RECORDS = 50_000
_POLL_S = 0.05


@dataclass(frozen=True)
class _ReportCost:
    """The cost of a report: elapsed and processor seconds, and peak memory in bytes."""

    elapsed_s: float
    processor_s: float
    memory_bytes: int


def run_bench(records: int) -> None:
    """Measure and print the cost of a report on synthetic records.

    Raises:
        UserError: A limit is exceeded.
    """
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as place:
        begun = time.monotonic()
        whole, part = Path(place) / "whole", Path(place) / "twentieth"
        count = make_records(whole, records, np.random.default_rng(1))
        make_records(part, -(-records // 20), np.random.default_rng(2))
        click.echo(f"{count} records made in {time.monotonic() - begun:.0f} s", err=True)
        parsing_s = _parsing_s(whole)
        cost, less = _measure_report(whole), _measure_report(part)
    within = [
        _print_result(f"report of {count} records on {PROCESSORS} processors", cost.elapsed_s,
                      MAX_S, "s"),
        _print_result("its memory", cost.memory_bytes / 1e6, MAX_BYTES / 1e6, "MB"),
        _print_result("its processor time by that of parsing JSON", cost.processor_s / parsing_s,
                      PARSING_FACTOR, "times", counts=count >= _ENOUGH_RECORDS),
        _print_result("share of it for a twentieth", less.processor_s / cost.processor_s * 100,
                      TWENTIETH_SHARE * 100, "%", counts=count >= _ENOUGH_RECORDS)]
    if not all(within):
        raise UserError("bench report: a bound is missed; a busy machine can be the reason, so try "
                        "again", status=1)


def _print_result(what: str, value: float, limit: float, unit: str, *, counts: bool = True) -> bool:
    """Print one result with its limit, and return whether it is within the limit.

    A value that does not count is always within its limit.
    """
    within = value <= limit
    verdict = ("kept" if within else "MISSED") if counts else "too few records to tell"
    click.echo(f"{what:48} {value:8.1f} {unit:5} (<= {limit:.0f} {unit})  {verdict}")
    return within or not counts


def make_records(folder: Path, count: int, generator: np.random.Generator) -> int:
    """Write a results folder with at least `count` synthetic records of all combinations.

    Args:
        folder: The folder to create.
        count: Smallest number of records.
        generator: Source of random numbers.

    Returns:
        The number of records.

    Raises:
        UserError: The default study cannot make synthetic records.
    """
    study = studies.load_study(studies.DEFAULT)
    cells = request.build_plan(request.RunRequest(study), {}).cells
    repetitions = -(-count // len(cells))
    plan = request.build_plan(request.RunRequest(study, repetitions=repetitions), {})
    (folder / "records").mkdir(parents=True)
    for cell in plan.cells:
        for repetition in range(1, repetitions + 1):
            judged = study.make_synthetic_outcome(cell, generator)
            if judged is None or judged.measured is None:
                raise UserError(f"bench report: the study {study.id} makes no records up")
            made = Record(
                schema=record.SCHEMA, study=StudyRecord(id=study.id, version=study.version),
                cell=cell.ids, repetition=repetition, status="ok", reason="",
                digests={name: level.digest for name, level in cell.levels.items()
                         if level.digest}, asked=plan.asked.to_stored_settings(),
                measured=judged.measured.model_dump(mode="json", by_alias=True),
                evidence=list(judged.evidence), environment=_record_environment(plan, judged),
                captures=[],
                elapsed_s=judged.elapsed_s, raw=dict(judged.raw))
            path = folder / "records" / f"{made.name}.json"
            path.write_text(made.model_dump_json(by_alias=True))
    (folder / "plan.json").write_text(plan.manifest.to_text())
    return repetitions * len(plan.cells)


def _record_environment(plan: Plan, judged: Judgement) -> dict[str, object]:
    return {"medium": next(iter(plan.manifest.media), None), "clock": plan.settings.clock,
            "measured_at_s": judged.raw.get("stamps", {}).get("start"),
            "machine": plan.settings.on, "fault": None, "made_up": True}


def _parsing_s(folder: Path) -> float:
    """Return the CPU seconds to read all records and parse their JSON."""
    begun = time.process_time()
    for path in (folder / "records").iterdir():
        json.loads(path.read_bytes())
    return time.process_time() - begun


def _measure_report(folder: Path) -> _ReportCost:
    """Return the time and memory of a report, over all of its processes."""
    chosen = sorted(os.sched_getaffinity(0))[:PROCESSORS]
    before, begun = os.times(), time.monotonic()
    with (folder / "said").open("w") as output:
        child = subprocess.Popen(["taskset", "--cpu-list", ",".join(map(str, chosen)),
                                  sys.executable, "-P", "-m", "harness", "report", str(folder)],
                                 stdout=output, stderr=subprocess.STDOUT, process_group=0,
                                 env={**os.environ, "PYTHONPATH": str(ROOT)})
        peaks: list[int] = [0]
        ended = threading.Event()
        watcher = threading.Thread(target=_watch_memory, args=(child.pid, ended, peaks))
        watcher.start()
        status = child.wait()
        elapsed_s, after = time.monotonic() - begun, os.times()
        ended.set()
        watcher.join()
    if status:
        said_last = (folder / "said").read_text()[-300:]
        raise UserError(f"bench report: the report failed: {said_last}", status=1)
    used = sum(after[2:4]) - sum(before[2:4])
    return _ReportCost(elapsed_s, used, max(peaks))


def _watch_memory(group: int, ended: threading.Event, peaks: list[int]) -> None:
    while not ended.wait(_POLL_S):
        peaks.append(read_group_memory(group))
