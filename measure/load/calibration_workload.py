"""Time a fixed workload every 40 ms, to log a machine's speed during a load test.

In real time, other work on a machine changes its speed, and thus every measured time. A study runs
this program during its load test. A check then compares the machine's speed before, during and
after the load, and fails if it has changed.

The command is `python3 -m measure.load.calibration_workload`. Each line on standard input names a
file, to which the program writes its samples so far: [[wall-clock time, seconds], ...]. The program
runs inside the guest, so it uses the standard library only.
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
INTERVAL_S = 0.04
_DATA, _CALLS = bytes(1 << 17), 40
#: Real-time priority: above the load generator, which is above everything that is measured.
_FIRST = 3


def run_workload() -> None:
    """Run the fixed workload once: hashing and system calls, as servers do."""
    hashlib.sha256(_DATA).digest()
    for _ in range(_CALLS):
        os.getppid()


def time_workload() -> tuple[float, float]:
    """Return when the fixed workload ran (wall clock), and how long it took, both in s.

    A first run warms the caches and the processor.
    """
    run_workload()
    begun_s = time.perf_counter()
    run_workload()
    return time.time(), time.perf_counter() - begun_s


def main() -> None:
    """Time the fixed workload at each interval until the input ends."""
    with contextlib.suppress(PermissionError):  # in some containers; other processes then delay it
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_FIRST))
    print("ready", flush=True)
    samples: list[tuple[float, float]] = []
    while True:
        if not select.select([sys.stdin], (), (), INTERVAL_S)[0]:
            samples.append(time_workload())
            continue
        if not (line := sys.stdin.readline()):
            return
        Path(line.strip()).write_text(json.dumps(samples))
        print("done", flush=True)


if __name__ == "__main__":
    main()
