"""Measure how long a guest machine waited for its processor, and whether that spoilt a result.

A guest is the User-Mode Linux machine of a test network, so other load on the host can delay its
timers. `CpuWaitSampler` reads the running and waiting time of the guest's processes at short
intervals, while a repetition is measured. `judge_contention` takes these samples, and returns the
fraction of time that each stage (such as the TCP stream) waited, and which stages waited too long.

Linux counts for every process how long it ran, and how long it was ready to run but had to wait
(/proc/PID/schedstat, in ns). A guest is several processes: its kernel, and one for each of its
programs. Only one of them is ready to run at a time. While that process waits, everything in the
guest waits. The counters of a program are lost when it ends. Linux adds its running time to its
parent's counters, but not its waiting time.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest.processes import PROC, list_programs, read_ended_cpu_s, read_used_cpu_s
from harness.engine.testbed import ReportListener
from studies.study import USED_FILE, Stage

_EVERY_S = 0.05
#: The first _ALL_FIRST samples read every program, later ones only every _ALL_EVERYth sample.
_ALL_FIRST, _ALL_EVERY = 40, 5
FLAG = "processor"


@dataclass
class CpuWaitSampler:
    """A sampler of the seconds that a guest's processes have run and have waited for a processor.

    `pid` is the guest's kernel, whose children are the guest's programs. During the first two
    seconds, while the guest joins the network, each sample reads all programs. Later samples read
    those that ran lately. All are read every quarter of a second, because many only sleep.
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
        """Read the running and waiting time of the guest's processes once.

        If the guest has ended, no sample is added.
        """
        kernel = _read_schedstat(self.pid)
        if kernel is None:
            return
        if len(self.at) < _ALL_FIRST or len(self.at) % _ALL_EVERY == 0:
            programs = list_programs(self.pid)
            self._read_programs(programs)
            for pid in self._seen.keys() - {self.pid, *programs}:
                self._retire_program(pid)
        else:
            self._read_programs(self._active)
        self._seen[self.pid] = kernel
        ran, waited = (sum(values) / 1e9 for values in zip(
            self._gone, *self._seen.values(), strict=True))
        # The parent's counter has a resolution of 10 ms, and may lag behind.
        unseen = max(0.0, *self.unseen[-1:], read_ended_cpu_s(self.pid) - self._gone[0] / 1e9)
        self.at.append(self._clock_s + time.monotonic())
        self.ran.append(ran + unseen)
        self.waited.append(waited)
        self.unseen.append(unseen)

    def _read_programs(self, programs: Iterable[int]) -> None:
        """Read the run and wait times of some programs of the guest.

        Handle those that have ended.
        """
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
        """Add the last known run and wait times of an ended program to the sum of ended programs.

        Linux may give its process id to a new program.
        """
        before = self._seen.pop(pid, (0, 0))
        self._gone = self._gone[0] + before[0], self._gone[1] + before[1]
        self._active.discard(pid)

    async def sample_until_cancelled(self) -> None:
        """Take samples at a fixed interval until cancelled, and one last sample then."""
        try:
            while True:
                self.take_sample()
                await asyncio.sleep(_EVERY_S)
        finally:
            self.take_sample()

    def run_and_wait_shares(self, begin: float, end: float) -> tuple[float, float]:
        """Return which fractions of an interval the guest ran, and waited for a processor.

        A kernel that has woken a program and is not asleep yet waits together with that program.
        Both fractions may then add up to more than 1. So the waiting fraction is limited to the
        time not run. Both are 0 if there are no samples.

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
        """Return the fraction of an interval used by programs too short-lived for any sample.

        Such a program started and ended between two samples, so its waiting time is unknown.
        """
        first, last, lasted = self._samples_around(begin, end)
        return max(0.0, self.unseen[last] - self.unseen[first]) / lasted if lasted > 0 else 0.0

    def _samples_around(self, begin: float, end: float) -> tuple[int, int, float]:
        """Return the indexes of the last sample before an interval and the first after it.

        The third value is the time between both samples in seconds, 0 if there are none.
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


class CpuTimeCounter:
    """A counter of the CPU time that a guest's kernel and programs used since its creation."""

    def __init__(self, pid: int) -> None:
        self._pid, self._begun_s = pid, read_used_cpu_s(pid)
        self._by: dict[str, float] = {}

    @property
    def elapsed_cpu_s(self) -> float:
        """Return the CPU seconds used since this object was created."""
        return read_used_cpu_s(self._pid) - self._begun_s

    def make_listener(self, listener: ReportListener) -> ReportListener:
        """Return a listener that notes the CPU time used so far at each message of the workload.

        It passes each message on to `listener`.
        """
        def hear(report: Mapping[str, Any]) -> None:
            self._by[str(report["name"])] = self.elapsed_cpu_s
            listener(report)
        return hear

    def write_file(self, out: Path) -> None:
        """Write the CPU time at each message of the workload to a file, for the study's judge.

        The folder is created if it is missing, because a failed repetition may have left none.
        """
        out.mkdir(parents=True, exist_ok=True)
        (out / USED_FILE).write_text(json.dumps(self._by))


def judge_contention(waits: CpuWaitSampler, raw: Mapping[str, Any],
                     stages: Sequence[Stage]) -> dict[str, Any]:
    """Return how much a repetition used the processor and waited for it, by stage.

    A stage is a part of the repetition with a limit for waiting, such as the TCP stream. Its begin
    and end are time stamps in the raw values. If a stage took place several times, only the time
    that waited most counts.

    Args:
        waits: Samples of the guest's running and waiting time.
        raw: Raw values of the repetition, with its time stamps.
        stages: Stages of the study.

    Returns:
        These values by name:

        - `ran_share`: fraction of the repetition's time in which the guest ran
        - `unseen_share`: fraction of the repetition's time used by programs that ran between two
          samples, and whose waiting time is therefore unknown
        - `NAME_wait_share`: fraction of a stage's time in which the guest waited for the processor
        - `limits`: the stages that waited longer than their limit
        - `severity`: the largest waiting fraction, as a multiple of its limit
    """
    shares: dict[str, Any] = {}
    begun, ended = find_repetition_start(raw), raw["stamps"].get("end")
    if begun is not None and ended is not None:
        shares["ran_share"] = round(waits.run_and_wait_shares(begun, ended)[0], 4)
        shares["unseen_share"] = round(waits.unseen_share(begun, ended), 4)
    passed, severity = [], 0.0
    for stage in stages:
        if windows := find_stage_windows(stage, raw):
            share = max(waits.run_and_wait_shares(*window)[1] for window in windows)
            shares[f"{stage.name}_wait_share"] = round(share, 4)
            severity = max(severity, share / stage.limit)
            if share > stage.limit:
                passed.append(stage.name)
    return {**shares, "limits": passed, "severity": round(severity, 3)}


def find_repetition_start(raw: Mapping[str, Any]) -> float | None:
    """Return the time stamp of the start of a repetition, or None if there is none."""
    return next((stamps["start"] for stamps in _stamps_of_parts(raw) if "start" in stamps), None)


def find_stage_windows(stage: Stage, raw: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return begin and end time of a stage, for each time that a repetition executed it.

    A repetition may have several parts, such as several authentications. Parts without the stage
    are left out. The time stamps of the repetition itself come last.
    """
    ends = [(find_first_stamp(stage.begins, stamps), find_first_stamp(stage.ends, stamps))
            for stamps
            in _stamps_of_parts(raw)]
    return [(begin, end) for begin, end in ends if begin is not None and end is not None]


def _stamps_of_parts(raw: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """Return the time stamps of each part of a repetition, and last the repetition's own."""
    return [part["stamps"] for part in (*raw.get("parts", {}).values(), raw)]


def find_first_stamp(names: Sequence[str], stamps: Mapping[str, float]) -> float | None:
    """Return the time stamp of the first of these names that has one, else None."""
    return next((stamps[name] for name in names if name in stamps), None)
