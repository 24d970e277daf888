"""Was the air the limit, or the processor? How long a machine waited for its turn to run.

Linux counts for every process how long it was ready to run and did not get to (/proc/PID/schedstat:
time on the processor and time waiting for it, in ns). A guest's kernel is one such process: while
it waits, so does everything in it, the timers of its air too.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EVERY_S = 0.05
#: From these shares of its time on, waiting was the limit. As seen in 600 repetitions on 2 cores:
#: below, goodput does not depend on it (medians within 0.5 %), while a negotiation, being work for
#: the processor, takes half as long again already at its limit.
LIMITS = {"authentication": 0.25, "tcp": 0.2, "udp": 0.3}
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


def judge(waits: Waits, stamps: Mapping[str, float]) -> dict[str, Any]:
    """What a record keeps of a repetition's processor; `stamps` are those of its raw values.

    `ran_share` and `NAME_wait_share` are shares of the time; `limits` are the parts whose share
    passed theirs, `severity` the largest share as a multiple of its limit.
    """
    parts = {"authentication": ("start", "foreign_first_packet" if "handoff" in stamps
                                else "first_packet"),
             "tcp": ("tcp_start", "tcp_end"), "udp": ("udp_start", "udp_end")}
    found: dict[str, Any] = {}
    if "start" in stamps and "end" in stamps:
        found["ran_share"] = round(waits.shares(stamps["start"], stamps["end"])[0], 4)
    passed, severity = [], 0.0
    for name, (begin, end) in parts.items():
        if begin in stamps and end in stamps:
            share = waits.shares(stamps[begin], stamps[end])[1]
            found[f"{name}_wait_share"] = round(share, 4)
            severity = max(severity, share / LIMITS[name])
            if share > LIMITS[name]:
                passed.append(name)
    return {**found, "limits": passed, "severity": round(severity, 3)}
