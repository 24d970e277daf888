"""Run a fixed calibration workload every 40 ms and log how long it takes.

`python3 -m measure.load.yardstick`: a line on standard input names the file for the samples so far,
[[wall-clock time, seconds], ...]. Inside the machine: standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import sys
import time
from pathlib import Path

#: Interval between two runs, in s; a run takes some hundredths of it.
BEAT_S = 0.04
_DATA, _CALLS = bytes(1 << 17), 40
#: Real-time priority: above the load generator, which is above everything that is measured.
_FIRST = 3


def run_workload() -> None:
    """Run the calibration workload: hashing and system calls, as in servers."""
    hashlib.sha256(_DATA).digest()
    for _ in range(_CALLS):
        os.getppid()


def time_workload() -> tuple[float, float]:
    """Return the wall-clock time and the duration of one run, in s.

    A first run warms the caches and the processor.
    """
    run_workload()
    begun_s = time.perf_counter()
    run_workload()
    return time.time(), time.perf_counter() - begun_s


def main() -> None:
    """Run the workload at each interval until the input ends."""
    with contextlib.suppress(PermissionError):  # in some containers; other processes then delay it
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_FIRST))
    print("ready", flush=True)
    seen: list[tuple[float, float]] = []
    while True:
        if not select.select([sys.stdin], (), (), BEAT_S)[0]:
            seen.append(time_workload())
            continue
        if not (line := sys.stdin.readline()):
            return
        Path(line.strip()).write_text(json.dumps(seen))
        print("done", flush=True)


if __name__ == "__main__":
    main()
