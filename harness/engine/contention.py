"""Measure how long a guest waited for its processor, and whether that limited a stage.

Linux counts for every process how long it ran, and how long it was ready to run and waited
(/proc/PID/schedstat, in ns). A guest is several processes: its kernel, and one for each of its
programs. One of them at a time is ready to run. While that one waits, everything in the guest
waits, including the timers of the medium. The counters of a program are lost when it ends. Linux
adds its running time to its parent's counters, but not its waiting time.
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

from guest.processes import PROC, ended_cpu_s, list_programs, used_cpu_s
from harness.engine.testbed import Heard
from studies.study import USED_FILE, Stage

_EVERY_S = 0.05
#: The first _ALL_FIRST samples read every program, later ones only every _ALL_EVERYth sample.
_ALL_FIRST, _ALL_EVERY = 40, 5
FLAG = "processor"


@dataclass
class Waits:
    """Samples of the seconds that a guest's processes had run and waited.

    `pid` is the guest's kernel; programs are its children. All of them are read during the first
    two seconds, while the guest joins the network. Later samples read those that ran lately, and
    all of them every quarter of a second, because many only sleep.
    """

    pid: int
    at: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    #: Running time of ended programs that no sample had read, so that their waiting time is
    #: unknown.
    unseen: list[float] = field(default_factory=list)
    # Offset from the monotonic clock to the wall clock of a repetition's stamps. It is fixed here,
    # so that later changes of the wall clock have no effect.
    _clock_s: float = field(default_factory=lambda: time.time() - time.monotonic())
    #: Counters of each process when last read; the sum for ended programs; programs that ran
    #: lately.
    _seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    _gone: tuple[int, int] = (0, 0)
    _active: set[int] = field(default_factory=set)

    def take_sample(self) -> None:
        """Take one sample. A guest that is gone gives no sample."""
        kernel = _read_schedstat(self.pid)
        if kernel is None:
            return
        if len(self.at) < _ALL_FIRST or len(self.at) % _ALL_EVERY == 0:
            there = list_programs(self.pid)
            self._read_programs(there)
            for pid in self._seen.keys() - {self.pid, *there}:
                self._retire_program(pid)
        else:
            self._read_programs(self._active)
        self._seen[self.pid] = kernel
        ran, waited = (sum(values) / 1e9 for values in zip(
            self._gone, *self._seen.values(), strict=True))
        # The parent's counter has a resolution of 10 ms, and may lag behind.
        unseen = max(0.0, *self.unseen[-1:], ended_cpu_s(self.pid) - self._gone[0] / 1e9)
        self.at.append(self._clock_s + time.monotonic())
        self.ran.append(ran + unseen)
        self.waited.append(waited)
        self.unseen.append(unseen)

    def _read_programs(self, programs: Iterable[int]) -> None:
        """Read the counters of these programs, and retire those that have ended."""
        for pid in tuple(programs):
            now = _read_schedstat(pid)
            if now is None:
                self._retire_program(pid)
            elif now == self._seen.get(pid):
                self._active.discard(pid)
            else:
                self._seen[pid] = now
                self._active.add(pid)

    def _retire_program(self, pid: int) -> None:
        """Add the last counters of an ended program to the sum.

        Its process id may be used again.
        """
        before = self._seen.pop(pid, (0, 0))
        self._gone = self._gone[0] + before[0], self._gone[1] + before[1]
        self._active.discard(pid)

    async def sample_until_cancelled(self) -> None:
        """Take samples until cancelled, and one more at the end."""
        try:
            while True:
                self.take_sample()
                await asyncio.sleep(_EVERY_S)
        finally:
            self.take_sample()

    def run_and_wait_shares(self, begin: float, end: float) -> tuple[float, float]:
        """Return the shares of an interval that the guest ran and that it waited.

        A kernel that has woken a program and is not asleep yet waits together with that program.
        Both shares may then add up to more than 1, so the waiting share is limited to the time not
        run. Both are 0 if there are no samples.

        Args:
            begin: Start of the interval, in seconds of the wall clock.
            end: End of the interval.
        """
        first, last, lasted = self._samples_around(begin, end)
        if lasted <= 0:
            return 0.0, 0.0
        ran = (self.ran[last] - self.ran[first]) / lasted
        waited = (self.waited[last] - self.waited[first]) / lasted
        return ran, min(waited, max(0.0, 1 - ran))

    def unseen_share(self, begin: float, end: float) -> float:
        """Return the running share of programs that started and ended between two samples."""
        first, last, lasted = self._samples_around(begin, end)
        return max(0.0, self.unseen[last] - self.unseen[first]) / lasted if lasted > 0 else 0.0

    def _samples_around(self, begin: float, end: float) -> tuple[int, int, float]:
        """Return the samples around an interval, and the seconds between them.

        Without samples the time between them is 0.
        """
        first = max(0, bisect.bisect_right(self.at, begin) - 1)
        last = min(len(self.at) - 1, bisect.bisect_left(self.at, end))
        return first, last, self.at[last] - self.at[first] if last > first else 0.0


def _read_schedstat(pid: int) -> tuple[int, int] | None:
    """Return the nanoseconds that a process has run and has waited to run.

    The result is None if the process is gone.
    """
    try:
        ran, waited = (PROC / f"{pid}/schedstat").read_bytes().split()[:2]
        return int(ran), int(waited)
    except (OSError, ValueError):
        return None


class Used:
    """CPU time of a guest since the object's creation, its kernel and programs together."""

    def __init__(self, pid: int) -> None:
        self._pid, self._begun_s = pid, used_cpu_s(pid)
        self._by: dict[str, float] = {}

    @property
    def by_now_s(self) -> float:
        """Return the CPU seconds used since this object was created."""
        return used_cpu_s(self._pid) - self._begun_s

    def make_listener(self, heard: Heard) -> Heard:
        """Return a listener that passes on reports, and notes the CPU seconds used at each."""
        def hear(report: Mapping[str, Any]) -> None:
            self._by[str(report["name"])] = self.by_now_s
            heard(report)
        return hear

    def write_file(self, out: Path) -> None:
        """Write the CPU seconds at each report to the repetition's folder, for the study's judge.

        The folder is created, because a failed repetition may have left none.
        """
        out.mkdir(parents=True, exist_ok=True)
        (out / USED_FILE).write_text(json.dumps(self._by))


def judge_contention(waits: Waits, raw: Mapping[str, Any],
                     stages: Sequence[Stage]) -> dict[str, Any]:
    """Return a record's data about the processor, for the stages in a repetition's stamps.

    `ran_share`, `unseen_share` and `NAME_wait_share` are shares of the time. `limits` lists the
    stages whose waiting share exceeds their limit. `severity` is the largest share as a multiple of
    its limit. A stage that took place several times, in parts of the repetition, counts with the
    occurrence that waited most.
    """
    shares: dict[str, Any] = {}
    begun, ended = start_of(raw), raw["stamps"].get("end")
    if begun is not None and ended is not None:
        shares["ran_share"] = round(waits.run_and_wait_shares(begun, ended)[0], 4)
        shares["unseen_share"] = round(waits.unseen_share(begun, ended), 4)
    passed, severity = [], 0.0
    for stage in stages:
        if windows := windows_of(stage, raw):
            share = max(waits.run_and_wait_shares(*window)[1] for window in windows)
            shares[f"{stage.name}_wait_share"] = round(share, 4)
            severity = max(severity, share / stage.limit)
            if share > stage.limit:
                passed.append(stage.name)
    return {**shares, "limits": passed, "severity": round(severity, 3)}


def is_due_again(environment: Mapping[str, Any]) -> bool:
    """Return whether a repetition has to be measured once more, exclusively.

    That is the case if it is flagged and was not measured exclusively. QOP_FLAGGED=keep disables
    the second measurement.
    """
    return (bool(environment.get("flags")) and not environment.get("alone")
            and os.environ.get("QOP_FLAGGED") != "keep")


def start_of(raw: Mapping[str, Any]) -> float | None:
    """Return the start of a repetition or of its first part.

    The result is None if there is no such stamp.
    """
    return next((stamps["start"] for stamps in _stamps_of_parts(raw) if "start" in stamps), None)


def windows_of(stage: Stage, raw: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return begin and end of a stage in each part of the repetition.

    Parts without stamps of the stage are left out. The repetition's own stamps come last.
    """
    ends = [(first_stamp(stage.begins, stamps), first_stamp(stage.ends, stamps)) for stamps
            in _stamps_of_parts(raw)]
    return [(begin, end) for begin, end in ends if begin is not None and end is not None]


def _stamps_of_parts(raw: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """Return the stamps of a repetition's parts in order, then its own."""
    return [part["stamps"] for part in (*raw.get("parts", {}).values(), raw)]


def first_stamp(names: Sequence[str], stamps: Mapping[str, float]) -> float | None:
    """Return the first stamp that exists among some names.

    The result is None if there is none.
    """
    return next((stamps[name] for name in names if name in stamps), None)
