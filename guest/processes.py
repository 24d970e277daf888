"""Find the processes of a guest in /proc, with their CPU time and memory, and pin them to a CPU.

A guest is a User-Mode Linux machine. It is a group of ordinary processes of the host: its kernel,
and one for each program. Most functions take the id of the kernel's process or of the group, such
as `read_used_cpu_s`. Runs use them to move guests between processors, and to measure the CPU time
and memory of each guest.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PROC = Path("/proc")
#: Shell program that starts a command only if the parent still exists: the parent may have ended
#: before `setpriv` requested its death signal.
_STILL_THERE = '[ "$PPID" = "$0" ] && exec "$@"'
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def build_tied_command(signal_name: str) -> list[str]:
    """Return a command prefix that makes a program get a signal when the calling thread ends.

    `signal_name` is the signal's name without SIG. The command does not start if the caller has
    already ended.
    """
    return ["setpriv", "--pdeathsig", signal_name, "sh", "-c", _STILL_THERE, str(os.getpid())]


def list_members(group: int) -> list[int]:
    """Return the ids of all processes in a process group, except zombies."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                # The process name is in brackets and may contain blanks and brackets; fields count
                # after it.
                state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(pgrp) == group and state not in "ZX":
                    found.append(int(entry.name))
    return found


def move_to_processor(group: int, processor: int) -> None:
    """Move every thread of a process group to one processor.

    Threads and processes that they start later run there as well.
    """
    has_moved = True
    while has_moved:  # threads may be started before their parent has moved
        has_moved = False
        for pid in list_members(group):
            with contextlib.suppress(OSError):
                for task in (PROC / str(pid) / "task").iterdir():
                    with contextlib.suppress(OSError):
                        if os.sched_getaffinity(int(task.name)) != {processor}:
                            os.sched_setaffinity(int(task.name), {processor})
                            has_moved = True


def read_used_cpu_s(leader: int) -> float:
    """Return the CPU seconds used by a guest's kernel and by its present and past programs.

    Programs of the guest are children of its kernel, the process that leads its group.
    """
    total_s = 0.0
    for pid in (leader, *list_programs(leader)):
        with contextlib.suppress(OSError, IndexError):
            words = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            # Fields 11 to 14 are user and system time of the process and of its ended children. For
            # the leader all four count.
            total_s += sum(map(int, words[11:15 if pid == leader else 13])) * _TICK_S
    return total_s


def read_ended_cpu_s(leader: int) -> float:
    """Return the CPU seconds of a guest's programs that have ended.

    The result is 0 if the guest is gone.
    """
    with contextlib.suppress(OSError, IndexError):
        words = (PROC / str(leader) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, words[13:15])) * _TICK_S
    return 0.0


def list_programs(kernel: int) -> list[int]:
    """Return the process ids of a guest's programs, given its kernel's process id.

    The list is empty if the kernel has ended.
    """
    try:
        children = (PROC / f"{kernel}/task/{kernel}/children").read_bytes()
    except OSError:
        return []
    return list(map(int, children.split()))


def read_group_memory(group: int) -> int:
    """Return how many bytes of memory a process group uses.

    The sum is each process's private memory, and each shared memory file once. A guest's memory is
    a deleted file that several of its processes map; all of its blocks count, mapped or not.
    """
    private = 0
    files: dict[tuple[int, int], int] = {}
    for pid in list_members(group):
        with contextlib.suppress(OSError):
            private += read_private_memory(pid)
            for link in (PROC / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link).endswith(" (deleted)"):
                        info = link.stat()
                        files[info.st_dev, info.st_ino] = info.st_blocks * 512
    return private + sum(files.values())


def read_private_memory(pid: int) -> int:
    """Return how many bytes of private memory a process uses.

    Raises:
        OSError: The process has ended.
    """
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
