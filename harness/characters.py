"""Replace characters that an output encoding lacks by ASCII, instead of failing."""

from __future__ import annotations

import codecs
import io
import sys

#: Name of the replacement in Python's codec registry.
_ERRORS = "qop-ascii"
#: ASCII replacements of the characters in tables and sentences.
_ASCII = {
    "\N{GREEK SMALL LETTER SIGMA}": "sigma", "\N{MICRO SIGN}": "u", "\N{DEGREE SIGN}": "o",
    "\N{PLUS-MINUS SIGN}": "+-", "\N{NO-BREAK SPACE}": " ", "\N{BLACK CIRCLE}": "*",
    "\N{BLACK STAR}": "#", "\N{NOT EQUAL TO}": "!=", "\N{EN DASH}": "-", "\N{MINUS SIGN}": "-",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-", "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}": "<",
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}": ">"}


def accept_any() -> None:
    """Let standard output and standard error replace characters that their encoding lacks."""
    codecs.register_error(_ERRORS, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return the ASCII replacement of characters that cannot be encoded.

    This is a codec error handler: the second value is the position to continue at.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start:error.end]
    return "".join(_ASCII.get(character, "?") for character in lacking), error.end
