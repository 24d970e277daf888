"""The error type whose text is shown to the user as it is, on one line."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right; the text says what, where, and what to do.

    `status` is the command's exit status: 2 for bad input, 1 for what failed while running.
    """

    def __init__(self, text: str, status: int = 2) -> None:
        # Imported here: a box that is being made asks for the version, and has this package alone.
        from measure.document import printable_lines

        super().__init__(printable_lines(text))
        self.status = status
