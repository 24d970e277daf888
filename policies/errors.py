"""The error of a policy file, as one line.

It has the file, the line, what is wrong and what to do.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from pydantic_core import PydanticCustomError

_NUMBER = re.compile(r"\d+")
_SHOWN = 40  # characters of a user's value in a message; more would hide the advice


class PolicyError(ValueError):
    """An error in a policy. ``str()`` is ``FILE:LINE: what is wrong; what to do``."""

    def __init__(self, file: str, line: int, what: str, advice: str, more: int = 0) -> None:
        # All arguments go to the base class, so that the error survives pickling between
        # processes.
        super().__init__(file, line, what, advice, more)
        self.file, self.line, self.what, self.advice, self.more = file, line, what, advice, more

    def __str__(self) -> str:
        rest = f" (and {self.more} more)" if self.more else ""
        return one_line(f"{self.file}:{self.line}: {self.what}; {self.advice}{rest}")


def make_fault(what: str, advice: str, *at: tuple[str, ...]) -> PydanticCustomError:
    """Return an error for pydantic to collect.

    ``at`` are the keys that may be the cause, best first, relative to the model that raises it.
    None means the model or field itself.
    """
    return PydanticCustomError(
        "policy", "{what}; {advice}", {"what": what, "advice": advice, "at": at}
    )


def show_value(value: object) -> str:
    """Return a user's value for a one-line message: short, quoted, without control characters."""
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "...")
    if value is None:
        return "empty (null)"
    if isinstance(value, dict):
        return "a block of keys"
    if isinstance(value, list):
        return "a list"
    return str(value)


def suggest_word(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` was probably meant to be, regardless of case."""
    by_folded = {name.casefold(): name for name in known}
    for folded, name in by_folded.items():
        if sorted(folded) == sorted(word.casefold()):  # letters swapped: CMCP is CCMP, not GCMP
            return name
    # Longer input cannot be a misspelling, and difflib's cost grows with its length.
    near = difflib.get_close_matches(word.casefold()[:64], by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near and _is_misspelt(word, near[0], by_folded) else None


def _is_misspelt(word: str, near: str, known: Iterable[str]) -> bool:
    """Return whether a word may be a misspelling. Another number is intended, not a mistake.

    A suggestion in place of rsa-3072 or ecp521 would be a weaker algorithm.
    """
    numbers = _NUMBER.findall(word)
    if numbers == _NUMBER.findall(near):
        return True
    alike = [name for name in known if _NUMBER.sub("", name) == _NUMBER.sub("", near)]
    return not numbers and len(alike) == 1


def advise_choice(word: str, known: Iterable[str]) -> str:
    """Return what to write instead of ``word``: the nearest known word, and all known words."""
    names = list(known)
    near = suggest_word(word, names)
    listed = ", ".join(names)
    return f"did you mean {near!r}? (known: {listed})" if near else f"write one of: {listed}"


def one_line(text: str) -> str:
    """Return ``text`` with unprintable characters (line breaks, surrogates) replaced by ``?``."""
    return "".join(char if char.isprintable() else "?" for char in text)
