"""Report a mistake in a policy file as one line of text.

`PolicyError` is the exception, with the text FILE:LINE: what is wrong; what to do. `make_fault`
makes an error for pydantic's validators, from a text and advice. `suggest_word` returns the known
word that a user probably meant, and `advise_choice` a text with it and all other words.
`show_value` and `one_line` make a user's value safe to print.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from pydantic_core import PydanticCustomError

_NUMBER = re.compile(r"\d+")
_SHOWN = 40  # characters of a user's value in a message; more would hide the advice


class PolicyError(ValueError):
    """An error in a policy file. Its text is ``FILE:LINE: what is wrong; what to do``."""

    def __init__(self, file: str, line: int, what: str, advice: str, more: int = 0) -> None:
        # All arguments go to the base class, so that the error survives pickling between
        # processes.
        super().__init__(file, line, what, advice, more)
        self.file, self.line, self.what, self.advice, self.more = file, line, what, advice, more

    def __str__(self) -> str:
        rest = f" (and {self.more} more)" if self.more else ""
        return one_line(f"{self.file}:{self.line}: {self.what}; {self.advice}{rest}")


def make_fault(what: str, advice: str, *at: tuple[str, ...]) -> PydanticCustomError:
    """Return an error about a policy's settings, which pydantic collects.

    ``at`` are the keys that may be the cause, best first, relative to the model that raises it.
    None means the model or field itself.
    """
    return PydanticCustomError(
        "policy", "{what}; {advice}", {"what": what, "advice": advice, "at": at}
    )


def show_value(value: object) -> str:
    """Return a user's value for an error message: short, quoted, without control characters."""
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
    """Return the known word that a user probably meant, regardless of case, or None."""
    by_folded = {name.casefold(): name for name in known}
    for folded, name in by_folded.items():
        if sorted(folded) == sorted(word.casefold()):  # letters swapped: CMCP is CCMP, not GCMP
            return name
    # Longer input cannot be a misspelling, and difflib's cost grows with its length.
    near = difflib.get_close_matches(word.casefold()[:64], by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near and _is_misspelt(word, near[0], by_folded) else None


def _is_misspelt(word: str, near: str, known: Iterable[str]) -> bool:
    """Return whether a word may be a misspelling of a known word.

    Another number is intended, not a mistake: a suggestion in place of rsa-3072 or ecp521 would be
    a weaker algorithm.
    """
    numbers = _NUMBER.findall(word)
    if numbers == _NUMBER.findall(near):
        return True
    alike = [name for name in known if _NUMBER.sub("", name) == _NUMBER.sub("", near)]
    return not numbers and len(alike) == 1


def advise_choice(word: str, known: Iterable[str]) -> str:
    """Return what to write instead of a wrong word: the most similar known word, and all others.

    If no words are known, the word is to be left out.
    """
    names = list(known)
    if not names:
        return "leave it out"
    near = suggest_word(word, names)
    listed = ", ".join(names)
    return f"did you mean {near!r}? (known: {listed})" if near else f"write one of: {listed}"


def one_line(text: str) -> str:
    """Return ``text`` as one line: unprintable characters are replaced by ``?``."""
    return "".join(char if char.isprintable() else "?" for char in text)
