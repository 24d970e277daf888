"""The one error a policy file can cause: one line with file, line, what is wrong, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from pydantic_core import PydanticCustomError

_NUMBER = re.compile(r"\d+")
_SHOWN = 40  # characters of a user's value repeated in a message; more would bury the advice


class PolicyError(ValueError):
    """A policy that cannot be used; ``str()`` is ``FILE:LINE: what is wrong; what to do``."""

    def __init__(self, file: str, line: int, what: str, advice: str, more: int = 0) -> None:
        # All arguments go to the base class, so that the error survives pickling between processes.
        super().__init__(file, line, what, advice, more)
        self.file, self.line, self.what, self.advice, self.more = file, line, what, advice, more

    def __str__(self) -> str:
        rest = f" (and {self.more} more)" if self.more else ""
        return one_line(f"{self.file}:{self.line}: {self.what}; {self.advice}{rest}")


def fault(what: str, advice: str, *at: tuple[str, ...]) -> PydanticCustomError:
    """An error for pydantic to collect.

    ``at`` names, relative to the model that raises it, the keys which can be blamed, best first;
    none means the model or field itself.
    """
    return PydanticCustomError(
        "policy", "{what}; {advice}", {"what": what, "advice": advice, "at": at}
    )


def show(value: object) -> str:
    """A user's value as it may stand in a one-line message: short, quoted, control-free."""
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "...")
    if value is None:
        return "empty (null)"
    if isinstance(value, dict):
        return "a block of keys"
    if isinstance(value, list):
        return "a list"
    return str(value)


def suggest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` was probably meant to be, whatever its case."""
    by_folded = {name.casefold(): name for name in known}
    for folded, name in by_folded.items():
        if sorted(folded) == sorted(word.casefold()):  # letters swapped: CMCP is CCMP, not GCMP
            return name
    # Longer input cannot be a misspelling, and difflib's cost grows with it.
    near = difflib.get_close_matches(word.casefold()[:64], by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near and _is_misspelt(word, near[0], by_folded) else None


def _is_misspelt(word: str, near: str, known: Iterable[str]) -> bool:
    """Return whether a word may be a misspelling: another number is a wish, and no mistake.

    A suggestion in place of rsa-3072 or ecp521 would be something weaker.
    """
    numbers = _NUMBER.findall(word)
    if numbers == _NUMBER.findall(near):
        return True
    alike = [name for name in known if _NUMBER.sub("", name) == _NUMBER.sub("", near)]
    return not numbers and len(alike) == 1


def advise(word: str, known: Iterable[str]) -> str:
    """What to write instead of ``word``: the nearest known word, and all of them."""
    names = list(known)
    near = suggest(word, names)
    listed = ", ".join(names)
    return f"did you mean {near!r}? (known: {listed})" if near else f"write one of: {listed}"


def one_line(text: str) -> str:
    """``text`` with everything unprintable (line breaks, lone surrogates) replaced by ``?``."""
    return "".join(char if char.isprintable() else "?" for char in text)
