"""Let output go to terminals and files of any encoding: what one lacks is written in ASCII."""

from __future__ import annotations

import codecs
import io
import sys

#: The name that Python's codecs know the replacement by.
_ERRORS = "qop-ascii"
#: Characters of tables and sentences, and how they are written without them.
_ASCII = {
    "\N{GREEK SMALL LETTER SIGMA}": "sigma", "\N{MICRO SIGN}": "u", "\N{DEGREE SIGN}": "o",
    "\N{PLUS-MINUS SIGN}": "+-", "\N{NO-BREAK SPACE}": " ", "\N{BLACK CIRCLE}": "*",
    "\N{BLACK STAR}": "#", "\N{NOT EQUAL TO}": "!=", "\N{EN DASH}": "-", "\N{MINUS SIGN}": "-",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-", "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}": "<",
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}": ">"}


def accept_any() -> None:
    """Have standard output and standard error never fail for want of a character."""
    codecs.register_error(_ERRORS, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of what cannot be encoded, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start:error.end]
    return "".join(_ASCII.get(character, "?") for character in lacking), error.end
