"""Errors that are shown to the user on one line, such as a full disk.

The commands print a `UserError` without a traceback. `report_disk_errors` converts the errors of a
full disk, an exceeded quota or a limit on file sizes. `select_error` returns the most useful error
of a group.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """An error that the user can correct.

    The text of the error names the place, the problem and the remedy. `status` is the command's
    exit status: 2 for bad input, 1 for a failure while running.
    """

    def __init__(self, text: str, status: int = 2) -> None:
        # Imported here because the build of a box runs --version with this package only.
        from measure.records.document import to_printable_lines

        super().__init__(to_printable_lines(text))
        self.status = status


# --- Errors about disk space, as one line for the user ---

#: Error numbers of a full disk, an exceeded quota and a limit on file sizes.
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_disk_full(error: Exception) -> bool:
    """Return whether an error means that disk space is exhausted.

    An exceeded quota and a limit on file sizes count as well.
    """
    return isinstance(error, OSError) and bool(_disk_full_text(error))


@contextmanager
def report_disk_errors(folder: Path, what: str = "cannot be written") -> Iterator[None]:
    """Convert an OSError in this context to a UserError about the results folder."""
    try:
        yield
    except OSError as error:
        raise to_disk_error(folder, what, error) from None


def to_disk_error(folder: Path, what: str, error: OSError) -> UserError:
    """Return the user error for a results folder that cannot be written."""
    return UserError(
        f"{folder}: {what} ({_disk_full_text(error) or error.strerror or error}); make room and "
        "give the same command again, which goes on from here", status=1)


def select_error(folder: Path, group: ExceptionGroup[Exception]) -> Exception:
    """Return the error of an exception group that helps the user most.

    A UserError comes first, then a disk-full error, then the first error of the group.
    """
    errors = list(_flatten_errors(group))
    for error in errors:
        if isinstance(error, UserError):
            return error
    for error in errors:
        if isinstance(error, OSError) and is_disk_full(error):
            return to_disk_error(folder, "cannot be written", error)
    return errors[0]


def _flatten_errors(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _flatten_errors(error)
        else:
            yield error


def _disk_full_text(error: OSError) -> str:
    """Return the system's message of a disk-space error, or "" for any other error.

    An error about several files (shutil.Error) has no error number, only the messages.
    """
    texts = {number: os.strerror(number) for number in _DISK_FULL_ERRNOS}
    return texts.get(error.errno or 0, "") or next(
        (text for text in texts.values() if text in str(error)), "")
