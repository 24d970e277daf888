"""The one error of this package: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class QueueingError(ValueError):
    """A network, file or question that cannot be used: ``where: what; what to do``, one line."""

    def __init__(self, where: str, what: str, advice: str) -> None:
        # All arguments go to the base class, so that the error survives pickling.
        super().__init__(where, what, advice)
        self.where, self.what, self.advice = where, what, advice

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}; {self.advice}"
        return "".join(char if char.isprintable() else "?" for char in text)


def choose_from(word: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown word: the nearest known one, and all of them."""
    names = list(known)
    near = difflib.get_close_matches(word[:64], names, n=1)
    listed = ", ".join(names) or "none"
    return f"did you mean {near[0]}? (known: {listed})" if near else f"known: {listed}"
