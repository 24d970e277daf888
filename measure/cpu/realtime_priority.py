"""Give measured processes real-time priority over observers such as tcpdump.

`real_time_priority` takes a process ID. Inside its context, the process and its descendants run
with SCHED_FIFO, and afterwards normally again. Studies use it in guests whose clock skips waiting
(virtual and processor clock). There, a process that reads the clock delays those that wait for the
processor, and ordinary timers have a slack of 50 us. Real-time processes run in the order in which
they wake up, and their timers have no slack. `kernel_workers` and `list_threads` find the threads
to change. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: Command prefix that starts an observer at ordinary priority from a real-time process.
OBSERVER_COMMAND = ("chrt", "--other", "0")
#: PID of kthreadd, the parent of all kernel threads.
_KERNEL = 2
#: Share of each second that real-time processes may use, in us; -1: all of it.
_SHARE = Path("/proc/sys/kernel/sched_rt_runtime_us")


@contextmanager
def real_time_priority(root: int, but: Sequence[str] = ()) -> Iterator[None]:
    """Give a process and its descendants real-time priority inside the context.

    The kernel's own workers get the highest priority: a station must process its association while
    its access point is busy.

    Args:
        root: PID of the process.
        but: Command names of processes that keep their priority.
    """
    before = _SHARE.read_text()
    # Computing takes no virtual time, but polls count as runtime. With a limit, the kernel would
    # suspend processes after many polls.
    _SHARE.write_text("-1")
    _set_scheduler(kernel_workers(), os.SCHED_FIFO, 2)
    _set_scheduler(list_threads(root, but), os.SCHED_FIFO, 1)
    try:
        yield
    finally:
        _set_scheduler([*list_threads(root), *kernel_workers()], os.SCHED_OTHER, 0)
        _SHARE.write_text(before)


def kernel_workers(proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of the kernel threads that process deferred packets and timers."""
    return [each for each in list_threads(_KERNEL, proc=proc)
            if (proc / str(each) / "comm").read_text().startswith(("kworker/", "ksoftirqd/"))]


def list_threads(root: int, but: Sequence[str] = (), proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of all threads of a process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for entry in proc.glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended meanwhile
            begin, _, end = entry.read_text().rpartition(")")
            number = int(entry.parent.name)
            commands[number] = begin.partition("(")[2]
            children.setdefault(int(end.split()[1]), []).append(number)
    return list(_walk_threads(root, children, commands, but, proc))


def _walk_threads(number: int, children: Mapping[int, Sequence[int]], commands: Mapping[int, str],
                  but: Sequence[str], proc: Path) -> Iterator[int]:
    if commands.get(number) not in but:
        yield from sorted(int(thread.name) for thread in (proc / str(number) / "task").glob("*"))
    for child in sorted(children.get(number, ())):
        yield from _walk_threads(child, children, commands, but, proc)


def _set_scheduler(threads: Sequence[int], policy: int, priority: int) -> None:
    for thread in threads:
        with suppress(ProcessLookupError):
            os.sched_setscheduler(thread, policy, os.sched_param(priority))
