"""Who is measured goes before who looks on, where time is not real.

There, whoever looks at the clock delays those that wait for the processor, and the fair scheduler
lets now one and now another go first. What has precedence is served in the order in which it
wakes up, and wakes up when it is due (an ordinary program's timers have 50 us of slack, and go off
with whatever else is due). Runs inside a machine: standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: How a program that looks on is started by one that has precedence.
LOOKING_ON = ("chrt", "--other", "0")
#: The process that all of the kernel's threads are below.
_KERNEL = 2
#: Of each second, the part that programs with precedence may have; -1: all.
_SHARE = Path("/proc/sys/kernel/sched_rt_runtime_us")


@contextmanager
def given(root: int, but: Sequence[str] = ()) -> Iterator[None]:
    """Precedence for a process and all below it, and what they start, while this lasts.

    Processes whose command is one of `but` are left as they are. The kernel's own work goes before
    all: a station takes in that it is associated while its access point is busy.
    """
    before = _SHARE.read_text()
    # They compute in no time; the kernel would have them wait for the polls that they have made.
    _SHARE.write_text("-1")
    _schedule(kernel_workers(), os.SCHED_FIFO, 2)
    _schedule(family(root, but), os.SCHED_FIFO, 1)
    try:
        yield
    finally:
        _schedule([*family(root), *kernel_workers()], os.SCHED_OTHER, 0)
        _SHARE.write_text(before)


def kernel_workers(proc: Path = Path("/proc")) -> list[int]:
    """The kernel's threads that do what packets and timers have left to be done."""
    return [each for each in family(_KERNEL, proc=proc)
            if (proc / str(each) / "comm").read_text().startswith(("kworker/", "ksoftirqd/"))]


def family(root: int, but: Sequence[str] = (), proc: Path = Path("/proc")) -> list[int]:
    """All threads of a process and of those below it, each before those that it has started."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for entry in proc.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            begin, _, end = entry.read_text().rpartition(")")
            number = int(entry.parent.name)
            commands[number] = begin.partition("(")[2]
            children.setdefault(int(end.split()[1]), []).append(number)
    return list(_threads(root, children, commands, but, proc))


def _threads(number: int, children: Mapping[int, Sequence[int]], commands: Mapping[int, str],
             but: Sequence[str], proc: Path) -> Iterator[int]:
    if commands.get(number) not in but:
        yield from sorted(int(thread.name) for thread in (proc / str(number) / "task").glob("*"))
    for child in sorted(children.get(number, ())):
        yield from _threads(child, children, commands, but, proc)


def _schedule(threads: Sequence[int], policy: int, priority: int) -> None:
    for thread in threads:
        with suppress(ProcessLookupError):
            os.sched_setscheduler(thread, policy, os.sched_param(priority))
