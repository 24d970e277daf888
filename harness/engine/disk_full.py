"""Disk-full errors, as one line for the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError

#: A full disk, one's own share of it, or a limit on files.
_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: Exception) -> bool:
    """Whether the disk, or one's share of it, was full."""
    return isinstance(error, OSError) and bool(_said(error))


@contextmanager
def reported(folder: Path, what: str = "cannot be written") -> Iterator[None]:
    """Report what cannot be written into a results folder in one line."""
    try:
        yield
    except OSError as error:
        raise to_user(folder, what, error) from None


def to_user(folder: Path, what: str, error: OSError) -> UserError:
    """What to tell the user whose results folder could not be written to."""
    return UserError(f"{folder}: {what} ({_said(error) or error.strerror or error}); make room and "
                     "give the same command again, which goes on from here", status=1)


def of_group(folder: Path, group: ExceptionGroup[Exception]) -> Exception:
    """Of errors that came together, the one that tells the user most."""
    errors = list(_each(group))
    for error in errors:
        if isinstance(error, UserError):
            return error
    for error in errors:
        if isinstance(error, OSError) and is_full(error):
            return to_user(folder, "cannot be written", error)
    return errors[0]


def _each(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _each(error)
        else:
            yield error


def _said(error: OSError) -> str:
    """What the kernel said, if that was about room; "" for another error.

    One that tells of several files (shutil.Error) has no number, only their texts.
    """
    texts = {number: os.strerror(number) for number in _NUMBERS}
    return texts.get(error.errno or 0, "") or next(
        (text for text in texts.values() if text in str(error)), "")
