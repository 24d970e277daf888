"""A keeper keeps the processors awake that guests have in real time.

A processor with nothing to do sleeps, or is handed back to the hypervisor: whoever wakes up on it
then waits, and finds its caches cold. A guest in real time waits for half of its time, so that its
times were those of waking up. So a program of the lowest priority runs on each processor, which
only has what nobody else wants and gives way at once.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

from guest.processes import tied

#: It stays in its first cache, and calls no kernel.
_PROGRAM = "while :; do :; done"


@contextlib.contextmanager
def kept_awake(processors: Sequence[int]) -> Iterator[list[int]]:
    """Keep these processors busy with what gives way to everything else; yields the programs' pids.

    They end with this, or with the calling thread, whatever ends it.
    """
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_keeper(processor)).pid for processor in processors]


@contextlib.contextmanager
def _keeper(processor: int) -> Iterator[subprocess.Popen[bytes]]:
    # A group of its own: Ctrl-C is for the run, which ends it.
    process = subprocess.Popen([*tied("KILL"), "sh", "-c", _PROGRAM], process_group=0,
                               stdin=subprocess.DEVNULL)
    try:
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(process.pid, {processor})
        yield process
    finally:
        process.kill()
        process.wait()
