"""Determine the memory that this process may use, with the limits of control groups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
#: Files of a memory control group: the limit, the use, and an entry of memory.stat. The entry is
#: the part of the use that can be reclaimed at once. For control groups version 2, then version 1.
_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@dataclass(frozen=True)
class Limit:
    """A memory limit of a control group and what it leaves, in bytes."""

    most_bytes: int
    available_bytes: int


def total_mb(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Return the total memory that this process may use, in MB."""
    least = [_meminfo_mb("MemTotal:", proc)]
    return min(least + [limit.most_bytes >> 20 for limit in cgroup_limits(proc, cgroups)])


def available_mb(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Return the memory that is available without swapping, in MB.

    It is the smallest of Linux' own estimate and what all control groups leave.
    """
    least = [_meminfo_mb("MemAvailable:", proc)]
    return min(least + [limit.available_bytes >> 20 for limit in cgroup_limits(proc, cgroups)])


def cgroup_limits(proc: Path = PROC, cgroups: Path = CGROUPS) -> Iterator[Limit]:
    """Yield the limits of this process's control groups and of their parents.

    In a container, the path may be that of the host, which is not visible there. The root of the
    mount is then the container's own group.
    """
    for line in _read_lines(proc / "self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_along(cgroups, path, _V2)
        elif "memory" in controllers.split(","):
            yield from _limits_along(cgroups / "memory", path, _V1)


def _limits_along(root: Path, path: str, names: tuple[str, str, str]) -> Iterator[Limit]:
    inner = PurePosixPath(path.lstrip("/"))
    for below in (inner, *inner.parents):
        with contextlib.suppress(OSError, ValueError, KeyError):
            yield _read_limit(root / below, *names)


def _read_limit(group: Path, most: str, used: str, spare: str) -> Limit:
    """Return the limit of one control group.

    Raises ValueError if there is no limit ("max"), and OSError if there is no such group.
    """
    limit_bytes = int((group / most).read_text())
    used_bytes = int((group / used).read_text())
    stat = dict(line.split() for line in _read_lines(group / "memory.stat"))
    return Limit(limit_bytes, limit_bytes - used_bytes + int(stat[spare]))


def _meminfo_mb(name: str, proc: Path) -> int:
    for line in _read_lines(proc / "meminfo"):
        if line.startswith(name):
            return int(line.split()[1]) // 1024
    return 0


def _read_lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text().splitlines()
    return []
