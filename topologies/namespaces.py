"""Enter a node's network namespace for a moment, so that sockets made meanwhile belong to it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000


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


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
