"""Enter a node's namespaces for a moment: what is made meanwhile belongs to them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_FS, _CLONE_NEWNS, _CLONE_NEWNET = 0x200, 0x20000, 0x40000000


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Be in the network namespace of a process for a moment; other threads stay where they are.

    Raises OSError.
    """
    here, there = (os.open(f"/proc/{place}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                   for place in ("thread-self", pid))
    try:
        _enter(there)
        try:
            yield
        finally:
            _enter(here)
    finally:
        os.close(here)
        os.close(there)


def mount_in_memory(pid: int, folder: str) -> None:
    """Mount an empty file system in memory on a folder, as a process sees it. Raises OSError.

    A thread does so, which ends there: to start `mnexec` and `mount` takes 10 ms in a guest.
    """
    failures: list[OSError] = []

    def mount() -> None:
        try:
            there = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            try:
                # Who has a root and a folder of its own may go where others have another root.
                _call("unshare", _CLONE_FS)
                _call("setns", there, _CLONE_NEWNS)
            finally:
                os.close(there)
            _call("mount", b"tmpfs", folder.encode(), b"tmpfs", 0, None)
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=mount)
    thread.start()
    thread.join()
    if failures:
        raise OSError(failures[0].errno, f"cannot mount {folder}: {failures[0].strerror}")


def _enter(namespace: int) -> None:
    _call("setns", namespace, _CLONE_NEWNET)


def _call(name: str, *arguments: object) -> None:
    """Have the C library call the kernel. Raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
