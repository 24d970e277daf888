"""The error of this package.

Its single line says what is wrong, where, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class QueueingError(ValueError):
    """A network, file or question that cannot be used.

    The message is one line: ``where: what; what to do``.
    """

    def __init__(self, where: str, what: str, advice: str) -> None:
        # Pass all arguments to the base class, so that the error can be pickled.
        super().__init__(where, what, advice)
        self.where, self.what, self.advice = where, what, advice

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}; {self.advice}"
        return "".join(char if char.isprintable() else "?" for char in text)


def choose_from(word: str, known: Iterable[str]) -> str:
    """Return advice for an unknown word: the nearest known word and a list of all."""
    names = list(known)
    near = difflib.get_close_matches(word[:64], names, n=1)
    listed = ", ".join(names) or "none"
    return f"did you mean {near[0]}? (known: {listed})" if near else f"known: {listed}"
