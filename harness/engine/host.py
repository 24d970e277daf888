"""Read how much memory qop may use on this host, and keep processors from idling.

A run starts as many virtual machines as fit into the memory that `read_available_mb` returns.
Control groups may limit the memory below the host's, as in a container. Guests with the real clock
are delayed if their processor goes to sleep; `keep_processors_awake` prevents that.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from guest.processes import build_tied_command

# --- Memory, with the limits of control groups ---

PROC_FOLDER = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
#: Files of a memory control group: the limit, the use, and an entry of memory.stat. The entry is
#: the part of the use that can be reclaimed at once. For control groups version 2, then version 1.
_CGROUP_V2 = ("memory.max", "memory.current", "inactive_file")
_CGROUP_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@dataclass(frozen=True)
class MemoryLimit:
    """A memory limit of a control group, and how much memory it leaves available, in bytes."""

    most_bytes: int
    available_bytes: int


def read_total_mb(proc: Path = PROC_FOLDER, cgroups: Path = CGROUPS) -> int:
    """Return the total memory that this process may use, in MB."""
    least = [_meminfo_mb("MemTotal:", proc)]
    return min(least + [limit.most_bytes >> 20 for limit in cgroup_limits(proc, cgroups)])


def read_available_mb(proc: Path = PROC_FOLDER, cgroups: Path = CGROUPS) -> int:
    """Return the memory that is available without swapping, in MB.

    It is the smallest of Linux' own estimate and what all control groups leave.
    """
    least = [_meminfo_mb("MemAvailable:", proc)]
    return min(least + [limit.available_bytes >> 20 for limit in cgroup_limits(proc, cgroups)])


def cgroup_limits(proc: Path = PROC_FOLDER, cgroups: Path = CGROUPS) -> Iterator[MemoryLimit]:
    """Yield the memory limits of this process's control groups and of their parents.

    In a container, the path of the group may be that of the host, which is not visible there. The
    root of the mount is then the container's own group.
    """
    for line in _read_lines(proc / "self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_along(cgroups, path, _CGROUP_V2)
        elif "memory" in controllers.split(","):
            yield from _limits_along(cgroups / "memory", path, _CGROUP_V1)


def _limits_along(root: Path, path: str, names: tuple[str, str, str]) -> Iterator[MemoryLimit]:
    inner = PurePosixPath(path.lstrip("/"))
    for below in (inner, *inner.parents):
        with contextlib.suppress(OSError, ValueError, KeyError):
            yield _read_limit(root / below, *names)


def _read_limit(group: Path, most: str, used: str, spare: str) -> MemoryLimit:
    """Return the memory limit of one control group.

    Raises ValueError if there is no limit ("max"), and OSError if there is no such group.
    """
    limit_bytes = int((group / most).read_text())
    used_bytes = int((group / used).read_text())
    stat = dict(line.split() for line in _read_lines(group / "memory.stat"))
    return MemoryLimit(limit_bytes, limit_bytes - used_bytes + int(stat[spare]))


def _meminfo_mb(name: str, proc: Path) -> int:
    for line in _read_lines(proc / "meminfo"):
        if line.startswith(name):
            return int(line.split()[1]) // 1024
    return 0


def _read_lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text().splitlines()
    return []


# --- Processors that do not idle: a busy loop of the lowest priority on each ---
# An idle processor sleeps, or is returned to the hypervisor. A program that wakes up on that
# processor waits and finds cold caches. A guest in real time waits for half of its time, so its
# measured times would be wake-up times. Therefore a program of the lowest priority runs on each
# processor. It uses only idle time and gives way at once.
#
# Linux shares a processor among sessions before it considers priorities (autogroups), and a guest
# is a session of its own. With a busy loop of the lowest priority in another session, one in ten
# wake-ups was 3.8 ms late. It was 0.1 ms late when that session had the lowest priority, too.

#: Busy loop that fits into the first-level cache and makes no system calls.
_BUSY_LOOP_PROGRAM = "while :; do :; done"
#: Nice value of a session, number of attempts and seconds between them. The kernel limits
#: unprivileged writes to ten a second for all sessions together, so retry.
_LOWEST_PRIORITY, _TRIES, _BETWEEN_S = "19", 5, 0.12


@contextlib.contextmanager
def keep_processors_awake(processors: Sequence[int]) -> Iterator[list[int]]:
    """Keep processors from idling, with a busy loop of the lowest priority on each.

    The loops end with this context, or with the calling thread. The context yields their process
    ids.
    """
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_busy_loop(processor)).pid for processor in processors]


@contextlib.contextmanager
def _busy_loop(processor: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*build_tied_command("KILL"), "sh", "-c", _BUSY_LOOP_PROGRAM],
                               start_new_session=True,
                               stdin=subprocess.DEVNULL)
    try:
        _lower_session_priority(process.pid)
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(process.pid, {processor})
        yield process
    finally:
        process.kill()
        process.wait()


def _lower_session_priority(pid: int) -> None:
    """Give the lowest priority to the session of a process (Linux autogroup), where supported."""
    file = Path(f"/proc/{pid}/autogroup")
    for _ in range(_TRIES):
        try:
            file.write_text(_LOWEST_PRIORITY)
        except BlockingIOError:
            time.sleep(_BETWEEN_S)
        except OSError:
            return  # this kernel has no autogroups
        else:
            return
