"""Which processes belong to a guest, where they run, and what they use (from /proc)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PROC = Path("/proc")
#: Whoever was to be heard of may have ended before `setpriv` asked to hear of it.
_STILL_THERE = '[ "$PPID" = "$0" ] && exec "$@"'
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def tied(how: str) -> list[str]:
    """What goes before a command that must not outlive the calling thread: a signal's name ends it.

    It does not begin where the caller has already ended.
    """
    return ["setpriv", "--pdeathsig", how, "sh", "-c", _STILL_THERE, str(os.getpid())]


def members(group: int) -> list[int]:
    """Processes of a process group that are more than zombies."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                # The name, in brackets, may hold blanks and brackets; fields count after it.
                state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(pgrp) == group and state not in "ZX":
                    found.append(int(entry.name))
    return found


def keep_on(group: int, processor: int) -> None:
    """Have every thread of a process group, and what they start from now on, use one processor."""
    has_moved = True
    while has_moved:  # until there are none that were started before their parent had moved
        has_moved = False
        for pid in members(group):
            with contextlib.suppress(OSError):
                for task in (PROC / str(pid) / "task").iterdir():
                    with contextlib.suppress(OSError):
                        if os.sched_getaffinity(int(task.name)) != {processor}:
                            os.sched_setaffinity(int(task.name), {processor})
                            has_moved = True


def processor_s(leader: int) -> float:
    """Processor time of a guest's kernel and of what runs on it, past and present, in seconds.

    Programs of the guest are children of its kernel, the process that leads its group.
    """
    total_s = 0.0
    for pid in (leader, *programs(leader)):
        with contextlib.suppress(OSError, IndexError):
            words = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            # Of the leader also those that have ended: 11 to 14 are user and system time, its
            # own and its children's.
            total_s += sum(map(int, words[11:15 if pid == leader else 13])) * _TICK_S
    return total_s


def ended_s(leader: int) -> float:
    """Processor time of the programs of a guest that have ended, in seconds; 0 if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        words = (PROC / str(leader) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, words[13:15])) * _TICK_S
    return 0.0


def programs(kernel: int) -> list[int]:
    """Processes of the programs on a guest, by its kernel's; none where that has ended."""
    try:
        children = (PROC / f"{kernel}/task/{kernel}/children").read_bytes()
    except OSError:
        return []
    return list(map(int, children.split()))


def memory_of_group(group: int) -> int:
    """Bytes used by a group: each process's private memory, and shared memory files once.

    A guest's memory is a deleted file that several of its processes map; its blocks count,
    mapped or not.
    """
    private = 0
    files: dict[tuple[int, int], int] = {}
    for pid in members(group):
        with contextlib.suppress(OSError):
            private += _private_bytes((PROC / str(pid) / "status").read_text())
            for link in (PROC / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link).endswith(" (deleted)"):
                        info = link.stat()
                        files[info.st_dev, info.st_ino] = info.st_blocks * 512
    return private + sum(files.values())


def _private_bytes(status: str) -> int:
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
