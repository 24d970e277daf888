"""A fixed piece of work at a beat, each timed: how quick the machine is, whatever else it does.

`python3 -m measure.load.yardstick`: a line on standard input names the file that takes what was
seen so far, [[when, seconds], ...]. Inside the machine: standard library only.
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

#: From one to the next; it takes some hundredths of that.
BEAT_S = 0.04
_DATA, _CALLS = bytes(1 << 17), 40
#: Before the load generator, which goes before all that is measured.
_FIRST = 3


def work() -> None:
    """Some computing and some calls of the kernel, as servers do."""
    hashlib.sha256(_DATA).digest()
    for _ in range(_CALLS):
        os.getppid()


def timed() -> tuple[float, float]:
    """When it was done, and for how long, once caches and processor are warm."""
    work()
    begun_s = time.perf_counter()
    work()
    return time.time(), time.perf_counter() - begun_s


def main() -> None:
    """Do it at each beat until nobody listens any more."""
    with contextlib.suppress(PermissionError):  # in some containers: then others delay it
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_FIRST))
    print("ready", flush=True)
    seen: list[tuple[float, float]] = []
    while True:
        if not select.select([sys.stdin], (), (), BEAT_S)[0]:
            seen.append(timed())
            continue
        if not (line := sys.stdin.readline()):
            return
        Path(line.strip()).write_text(json.dumps(seen))
        print("done", flush=True)


if __name__ == "__main__":
    main()
