"""Which processes belong to a guest, and how much memory they use together (from /proc)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PROC = Path("/proc")


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
