"""The error type whose text is shown to the user on one line."""

from __future__ import annotations


class UserError(Exception):
    """An error that the user can correct. The text gives problem, place and remedy.

    `status` is the command's exit status: 2 for bad input, 1 for a failure while running.
    """

    def __init__(self, text: str, status: int = 2) -> None:
        # Imported here because the build of a box runs --version with this package only.
        from measure.document import to_printable_lines

        super().__init__(to_printable_lines(text))
        self.status = status
