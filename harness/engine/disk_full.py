"""Convert disk-full errors to one line for the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError

#: Error numbers of a full disk, an exceeded quota and a limit on file sizes.
_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: Exception) -> bool:
    """Return whether an error says that disk space is exhausted.

    An exceeded quota and a limit on file sizes count, too.
    """
    return isinstance(error, OSError) and bool(_disk_full_text(error))


@contextmanager
def report_errors(folder: Path, what: str = "cannot be written") -> Iterator[None]:
    """Convert an OSError in this context to a UserError about the results folder."""
    try:
        yield
    except OSError as error:
        raise to_user_error(folder, what, error) from None


def to_user_error(folder: Path, what: str, error: OSError) -> UserError:
    """Return the user error for a results folder that cannot be written."""
    return UserError(
        f"{folder}: {what} ({_disk_full_text(error) or error.strerror or error}); make room and "
                     "give the same command again, which goes on from here", status=1)


def error_of_group(folder: Path, group: ExceptionGroup[Exception]) -> Exception:
    """Return the error of a group that is most useful to the user.

    A UserError comes first, then a disk-full error, then the first error.
    """
    errors = list(_flatten_errors(group))
    for error in errors:
        if isinstance(error, UserError):
            return error
    for error in errors:
        if isinstance(error, OSError) and is_full(error):
            return to_user_error(folder, "cannot be written", error)
    return errors[0]


def _flatten_errors(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _flatten_errors(error)
        else:
            yield error


def _disk_full_text(error: OSError) -> str:
    """Return the system's message if an error is about disk space.

    The result is "" for another error. An error about several files (shutil.Error) has no error
    number, only the messages.
    """
    texts = {number: os.strerror(number) for number in _NUMBERS}
    return texts.get(error.errno or 0, "") or next(
        (text for text in texts.values() if text in str(error)), "")
