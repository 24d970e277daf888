"""Lock a results folder against runs and other commands while files are read or changed."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError

_LOCK = ".lock"
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)


@contextmanager
def hold_lock(folder: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold the lock that a run takes: exclusive to change files, shared to read them.

    Raises:
        UserError: A run, or another command that changes files, holds the lock.
    """
    descriptor = _open_lock(folder, exclusive=exclusive)
    if descriptor is None:
        yield
        return
    try:
        _lock_file(descriptor, folder, exclusive=exclusive)
        yield
    finally:
        os.close(descriptor)


def is_taken(folder: Path) -> bool:
    """Return whether a run, or a command that changes files, holds the lock now."""
    try:
        with hold_lock(folder, exclusive=False):
            return False
    except UserError:
        return True


def _lock_file(descriptor: int, folder: Path, *, exclusive: bool) -> None:
    how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{folder}: a run is writing there, or another command is at work; "
                        "wait until it has ended ('./qop status' tells)") from None


def _open_lock(folder: Path, *, exclusive: bool) -> int | None:
    """Open the lock file and return its descriptor.

    Return None for a reader if there is no lock file, or if it must not be opened.
    """
    try:
        if exclusive:
            return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        return os.open(folder / _LOCK, os.O_RDONLY)
    except OSError as error:
        if not exclusive and error.errno in _READ_ONLY:
            return None
        raise UserError(f"{folder}: cannot be written ({error.strerror}); "
                        "make it writable, or copy it") from None
