"""Contention: how long a machine waited for its processor, and whether that limited a stage.

Linux counts for every process how long it was ready to run and did not get to (/proc/PID/schedstat:
time on the processor and time waiting for it, in ns). A guest's kernel is one such process: while
it waits, so does everything in it, the timers of its air too.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest.processes import processor_s
from harness.engine.testbed import Heard
from studies.study import USED_FILE, Stage

_EVERY_S = 0.05
FLAG = "processor"


@dataclass
class Waits:
    """Samples of one process: when, and the seconds it had run and waited by then."""

    pid: int
    at: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    # Wall clock, as the stamps of a repetition are, but one that nobody sets while we look.
    _clock_s: float = field(default_factory=lambda: time.time() - time.monotonic())

    def sample(self) -> None:
        """Look once; a process that is gone leaves no sample."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            ran, waited = Path(f"/proc/{self.pid}/schedstat").read_text().split()[:2]
            self.at.append(self._clock_s + time.monotonic())
            self.ran.append(int(ran) / 1e9)
            self.waited.append(int(waited) / 1e9)

    async def watch(self) -> None:
        """Sample until cancelled, and once more then."""
        try:
            while True:
                self.sample()
                await asyncio.sleep(_EVERY_S)
        finally:
            self.sample()

    def shares(self, begin: float, end: float) -> tuple[float, float]:
        """Shares of the time from `begin` to `end` that it ran and that it waited; 0 if unknown."""
        first = max(0, bisect.bisect_right(self.at, begin) - 1)
        last = min(len(self.at) - 1, bisect.bisect_left(self.at, end))
        lasted = self.at[last] - self.at[first] if last > first else 0.0
        if lasted <= 0:
            return 0.0, 0.0
        return ((self.ran[last] - self.ran[first]) / lasted,
                (self.waited[last] - self.waited[first]) / lasted)


class Used:
    """What a machine takes of the processor from now on, by its kernel's and programs' times."""

    def __init__(self, pid: int) -> None:
        self._pid, self._begun_s = pid, processor_s(pid)
        self._by: dict[str, float] = {}

    @property
    def by_now_s(self) -> float:
        """So much so far."""
        return processor_s(self._pid) - self._begun_s

    def hearing(self, heard: Heard) -> Heard:
        """Pass reports of a repetition on, and note what it has taken by then."""
        def hear(report: Mapping[str, Any]) -> None:
            self._by[str(report["name"])] = self.by_now_s
            heard(report)
        return hear

    def write(self, out: Path) -> None:
        """Leave it with the repetition, for its judge, which may have left nothing else."""
        out.mkdir(parents=True, exist_ok=True)
        (out / USED_FILE).write_text(json.dumps(self._by))


def judge(waits: Waits, raw: Mapping[str, Any], stages: Sequence[Stage]) -> dict[str, Any]:
    """What a record keeps of a repetition's processor, by the stamps among its raw values.

    `ran_share` and `NAME_wait_share` are shares of the time; `limits` are the stages whose share
    passed theirs, `severity` the largest share as a multiple of its limit. A stage that took place
    several times, in parts of the repetition, counts with the time that waited most.
    """
    shares: dict[str, Any] = {}
    begun, ended = began(raw), raw["stamps"].get("end")
    if begun is not None and ended is not None:
        shares["ran_share"] = round(waits.shares(begun, ended)[0], 4)
    passed, severity = [], 0.0
    for stage in stages:
        if windows := windows_of(stage, raw):
            share = max(waits.shares(*window)[1] for window in windows)
            shares[f"{stage.name}_wait_share"] = round(share, 4)
            severity = max(severity, share / stage.limit)
            if share > stage.limit:
                passed.append(stage.name)
    return {**shares, "limits": passed, "severity": round(severity, 3)}


def is_due_again(environment: Mapping[str, Any]) -> bool:
    """Whether a record's circumstances have it measured once more, exclusively.

    It is flagged, and had others beside it. QOP_FLAGGED=keep leaves it at the one measurement.
    """
    return (bool(environment.get("flags")) and not environment.get("alone")
            and os.environ.get("QOP_FLAGGED") != "keep")


def began(raw: Mapping[str, Any]) -> float | None:
    """When a repetition, or the first of its parts, started; None where none did."""
    return next((stamps["start"] for stamps in _stamps(raw) if "start" in stamps), None)


def windows_of(stage: Stage, raw: Mapping[str, Any]) -> list[tuple[float, float]]:
    """From when to when a stage took place: in each part that has stamps of it, and at last."""
    ends = [(first(stage.begins, stamps), first(stage.ends, stamps)) for stamps in _stamps(raw)]
    return [(begin, end) for begin, end in ends if begin is not None and end is not None]


def _stamps(raw: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """The stamps of a repetition's parts, in their order, and its own."""
    return [part["stamps"] for part in (*raw.get("parts", {}).values(), raw)]


def first(names: Sequence[str], stamps: Mapping[str, float]) -> float | None:
    """The stamp of the first of some names that there is one of."""
    return next((stamps[name] for name in names if name in stamps), None)
