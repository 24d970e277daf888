"""A keeper keeps the processors awake that guests have in real time.

A processor with nothing to do sleeps, or is handed back to the hypervisor: whoever wakes up on it
then waits, and finds its caches cold. A guest in real time waits for half of its time, so that its
times were those of waking up. So a program of the lowest priority runs on each processor, which
only has what nobody else wants and gives way at once.

Linux shares a processor among sessions before it looks at priorities (autogroups), and a guest is
a session of its own: beside a keeper of the lowest priority in another one a program woke up 3.8 ms
late one time in ten, and 0.1 ms where that session, too, is of the lowest.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from guest.processes import tied

#: It stays in its first cache, and calls no kernel.
_PROGRAM = "while :; do :; done"
#: Of a session; who is not root may set one ten times a second, whichever it is.
_NICEST, _TRIES, _BETWEEN_S = "19", 5, 0.12


@contextlib.contextmanager
def kept_awake(processors: Sequence[int]) -> Iterator[list[int]]:
    """Keep these processors busy with what gives way to everything else; yields the programs' pids.

    They end with this, or with the calling thread, whatever ends it.
    """
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_keeper(processor)).pid for processor in processors]


@contextlib.contextmanager
def _keeper(processor: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*tied("KILL"), "sh", "-c", _PROGRAM], start_new_session=True,
                               stdin=subprocess.DEVNULL)
    try:
        _give_way_as_session(process.pid)
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(process.pid, {processor})
        yield process
    finally:
        process.kill()
        process.wait()


def _give_way_as_session(pid: int) -> None:
    """Have a session leader's session give way to others, where sessions share a processor."""
    file = Path(f"/proc/{pid}/autogroup")
    for _ in range(_TRIES):
        try:
            file.write_text(_NICEST)
        except BlockingIOError:
            time.sleep(_BETWEEN_S)
        except OSError:
            return  # this kernel has none
        else:
            return
