"""Contention: how long a machine waited for its processor, and whether that limited a stage.

Linux counts for every process how long it was ready to run and did not get to (/proc/PID/schedstat:
time on the processor and time waiting for it, in ns). A guest is several: its kernel, and a process
for each of its programs. One of them at a time is ready to run; while it waits, so does everything
in the guest, the timers of its air too. What a program had run and waited is gone with it: of one
that nobody looked at in between, Linux tells its parent how long it ran, and nobody how it waited.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest.processes import PROC, ended_s, processor_s, programs
from harness.engine.testbed import Heard
from studies.study import USED_FILE, Stage

_EVERY_S = 0.05
#: So many samples look at every program, and then one in so many.
_ALL_FIRST, _ALL_EVERY = 40, 5
FLAG = "processor"


@dataclass
class Waits:
    """Samples of a machine: when, and the seconds that its processes had run and waited by then.

    `pid` is its kernel; programs are its children. All of them are read while it gets on the
    network; then those that have run lately, and all every quarter of a second, as many only sleep.
    """

    pid: int
    at: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    #: What programs that have ended had run, of which nobody knows how they waited.
    unseen: list[float] = field(default_factory=list)
    # Wall clock, as the stamps of a repetition are, but one that nobody sets while we look.
    _clock_s: float = field(default_factory=lambda: time.time() - time.monotonic())
    #: What each process had run and waited when last read; what those had that are gone; who ran.
    _seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    _gone: tuple[int, int] = (0, 0)
    _active: set[int] = field(default_factory=set)

    def sample(self) -> None:
        """Look once; a machine that is gone leaves no sample."""
        kernel = _schedstat(self.pid)
        if kernel is None:
            return
        if len(self.at) < _ALL_FIRST or len(self.at) % _ALL_EVERY == 0:
            there = programs(self.pid)
            self._look_at(there)
            for pid in self._seen.keys() - {self.pid, *there}:
                self._retire(pid)
        else:
            self._look_at(self._active)
        self._seen[self.pid] = kernel
        ran, waited = (sum(values) / 1e9 for values in zip(
            self._gone, *self._seen.values(), strict=True))
        # Their parent counts in hundredths of a second, and so may be behind.
        unseen = max(0.0, *self.unseen[-1:], ended_s(self.pid) - self._gone[0] / 1e9)
        self.at.append(self._clock_s + time.monotonic())
        self.ran.append(ran + unseen)
        self.waited.append(waited)
        self.unseen.append(unseen)

    def _look_at(self, programs: Iterable[int]) -> None:
        """Read these programs; one that has ended keeps what it had."""
        for pid in tuple(programs):
            now = _schedstat(pid)
            if now is None:
                self._retire(pid)
            elif now == self._seen.get(pid):
                self._active.discard(pid)
            else:
                self._seen[pid] = now
                self._active.add(pid)

    def _retire(self, pid: int) -> None:
        """Keep what a program had that has ended: another one may get its number."""
        before = self._seen.pop(pid, (0, 0))
        self._gone = self._gone[0] + before[0], self._gone[1] + before[1]
        self._active.discard(pid)

    async def watch(self) -> None:
        """Sample until cancelled, and once more then."""
        try:
            while True:
                self.sample()
                await asyncio.sleep(_EVERY_S)
        finally:
            self.sample()

    def shares(self, begin: float, end: float) -> tuple[float, float]:
        """Shares of the time from `begin` to `end` that it ran and that it waited; 0 if unknown.

        A kernel that has woken a program and not gone to sleep yet waits beside it, so that both
        together may come to more than the time there is: what did not run waited, then.
        """
        first, last, lasted = self._between(begin, end)
        if lasted <= 0:
            return 0.0, 0.0
        ran = (self.ran[last] - self.ran[first]) / lasted
        waited = (self.waited[last] - self.waited[first]) / lasted
        return ran, min(waited, max(0.0, 1 - ran))

    def unseen_share(self, begin: float, end: float) -> float:
        """The share of this time that programs ran which came and went between two looks."""
        first, last, lasted = self._between(begin, end)
        return max(0.0, self.unseen[last] - self.unseen[first]) / lasted if lasted > 0 else 0.0

    def _between(self, begin: float, end: float) -> tuple[int, int, float]:
        """The samples around a time, and how long they are apart; not at all without any."""
        first = max(0, bisect.bisect_right(self.at, begin) - 1)
        last = min(len(self.at) - 1, bisect.bisect_left(self.at, end))
        return first, last, self.at[last] - self.at[first] if last > first else 0.0


def _schedstat(pid: int) -> tuple[int, int] | None:
    """Nanoseconds that a process has run and waited to run; None if it is gone."""
    try:
        ran, waited = (PROC / f"{pid}/schedstat").read_bytes().split()[:2]
        return int(ran), int(waited)
    except (OSError, ValueError):
        return None


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

    `ran_share`, `unseen_share` and `NAME_wait_share` are shares of the time; `limits` are the
    stages whose share passed theirs, `severity` the largest share as a multiple of its limit. A
    stage that took place several times, in parts of the repetition, counts with the time that
    waited most.
    """
    shares: dict[str, Any] = {}
    begun, ended = began(raw), raw["stamps"].get("end")
    if begun is not None and ended is not None:
        shares["ran_share"] = round(waits.shares(begun, ended)[0], 4)
        shares["unseen_share"] = round(waits.unseen_share(begun, ended), 4)
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
