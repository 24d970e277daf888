"""Run a command with another root file system, as on a machine that has it: ROOT COMMAND...

Not chroot: the kernel refuses user namespaces to a process that was put there by it. The root may
have no program of its own that mounts.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_BIND_ALL, _DETACH, _PIVOT_ROOT = 0x1000 | 0x4000, 2, 155  # MS_BIND|MS_REC, MNT_DETACH, x86_64's
_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def enter_root(root: Path) -> None:
    """Make a folder the root of this process's mount namespace, with this machine's devices."""
    for source, target in ((root, root), ("/dev", root / "dev"), ("/sys", root / "sys")):
        _check(_LIBC.mount(os.fsencode(source), os.fsencode(target), None, _BIND_ALL, None),
               str(target))
    _check(_LIBC.mount(b"proc", os.fsencode(root / "proc"), b"proc", 0, None), "proc")
    os.chdir(root)
    _check(_LIBC.syscall(_PIVOT_ROOT, b".", b"."), "pivot_root")
    _check(_LIBC.umount2(b".", _DETACH), "the former root")
    os.chdir("/")


if __name__ == "__main__":
    enter_root(Path(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
