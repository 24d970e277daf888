"""Keep the processors of real-time guests from idling, with a lowest-priority busy loop.

An idle processor sleeps, or is returned to the hypervisor. A program that wakes up on that
processor waits and finds cold caches. A guest in real time waits for half of its time, so its
measured times would be wake-up times. Therefore a program of the lowest priority runs on each
processor. It uses only idle time and gives way at once.

Linux shares a processor among sessions before it considers priorities (autogroups), and a guest is
a session of its own. With a busy loop of the lowest priority in another session, one in ten
wake-ups was 3.8 ms late. It was 0.1 ms late when that session had the lowest priority, too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from guest.processes import tied_command

#: Busy loop that fits into the first-level cache and makes no system calls.
_PROGRAM = "while :; do :; done"
#: Nice value of a session, number of attempts and seconds between them. The kernel limits
#: unprivileged writes to ten a second for all sessions together, so retry.
_NICEST, _TRIES, _BETWEEN_S = "19", 5, 0.12


@contextlib.contextmanager
def keep_awake(processors: Sequence[int]) -> Iterator[list[int]]:
    """Keep these processors busy with programs that give way to all others.

    The programs end with this context, or with the calling thread. The context yields their process
    ids.
    """
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_busy_loop(processor)).pid for processor in processors]


@contextlib.contextmanager
def _busy_loop(processor: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*tied_command("KILL"), "sh", "-c", _PROGRAM],
                               start_new_session=True,
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
    """Give the lowest priority to the session of a process, where autogroups are enabled."""
    file = Path(f"/proc/{pid}/autogroup")
    for _ in range(_TRIES):
        try:
            file.write_text(_NICEST)
        except BlockingIOError:
            time.sleep(_BETWEEN_S)
        except OSError:
            return  # this kernel has no autogroups
        else:
            return
