"""Messages for values that pydantic refuses: what is wrong, and what to write."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the scripts in examples/ run without it
    from pydantic_core import ErrorDetails

#: Texts by pydantic's types of errors, as pydantic's own texts name Python classes.
_WORDS = {
    "extra_forbidden": "there is no such field", "unexpected_keyword_argument":
    "there is no such field", "missing": "is missing", "missing_argument": "is missing",
    "finite_number": "is not a finite number", "bool_parsing": "is neither true nor false",
    "too_short": "is empty", "too_long": "has too many entries", "string_too_short": "is empty",
    "string_too_long": "is too long", "string_pattern_mismatch": "is not written as it has to be",
    "int_parsing": "is not a whole number", "int_from_float": "is not a whole number",
    "int_parsing_size": "is too large", "float_parsing": "is not a number",
    "none_required": "has to be left out", "recursion_loop": "contains itself"}
#: Expected kinds of values, by the first word of pydantic's types of errors.
_KINDS = {
    "string": "text", "int": "a whole number", "float": "a number", "decimal": "a number",
    "bool": "true or false", "list": "a list", "tuple": "a list", "set": "a list",
    "frozen_set": "a list", "dict": "a mapping", "mapping": "a mapping", "model": "a mapping",
    "model_attributes": "a mapping", "dataclass": "a mapping", "json": "valid JSON",
    "date": "a date", "datetime": "a date and time", "time": "a time", "bytes": "text",
    "url": "an address", "uuid": "an identifier", "enum": "one of the known words"}
_BOUNDS = {"greater_than": ("above", "gt"), "greater_than_equal": ("{} or more", "ge"),
           "less_than": ("below", "lt"), "less_than_equal": ("{} or less", "le")}
_ADVICE = {
    "missing": "add it", "missing_argument": "add it", "string_type": "write it in quotes",
    "int_from_float": "write a whole number", "int_type": "write a whole number",
    "float_type": "write a number", "bool_type": "write true or false, without quotes",
    "bool_parsing": "write true or false, without quotes", "list_type": "write [A, B]"}
#: Bound above any figure of a file.
_LONGEST = 1e15
_SHOWN = 40  # characters of a value in a message


def describe_error(error: ErrorDetails) -> str:
    """Return what is wrong with a value, without its name."""
    kind, context = error["type"], error.get("ctx", {})
    if words := _WORDS.get(kind):
        return words
    if kind in ("value_error", "assertion_error"):
        return " ".join(str(context.get("error", error["msg"])).split())[:200]
    if kind in _BOUNDS:
        form, bound = _BOUNDS[kind]
        limit = context.get(bound)
        return f"is not {form.format(limit) if '{}' in form else f'{form} {limit}'}"
    if kind == "literal_error":
        return f"is none of {context.get('expected', '')}".replace("'", "")
    if "expected" in context and kind == "enum":
        return f"is none of {context['expected']}".replace("'", "")
    expected = next((_KINDS[name] for name in (kind.rsplit("_", count)[0] for count in range(4))
                     if name in _KINDS), None)
    return f"is not {expected}" if expected else "is not what belongs there"


def advise_fix(error: ErrorDetails, known: Iterable[str] = ()) -> str:
    """Return what to write instead, "" if unknown. `known` are the existing fields."""
    kind, value = error["type"], error.get("input")
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return did_you_mean(str(error["loc"][-1]), known)
    if kind == "string_type" and isinstance(value, list | dict):
        return "write one text"
    if kind.startswith(("int_", "float_")) and isinstance(value, str):
        return _as_number(value, is_whole=kind.startswith("int_"))
    return _ADVICE.get(kind, "")


def show_value(value: Any) -> str:
    """Return a short form of a value on one line for messages.

    The result is "" for blocks and lists.
    """
    if isinstance(value, dict | list) or value is None:
        return ""
    text = repr(value) if isinstance(value, str) else str(value).lower() \
        if isinstance(value, bool) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant, or all known words.

    The result is "" without any.
    """
    names = list(known)
    near = difflib.get_close_matches(word[:64], names, 1)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(names)}" \
        if names else ""


def _as_number(text: str, *, is_whole: bool) -> str:
    """Return how to write a number that YAML reads as text.

    Examples are 54M, 1e6, or a quoted number.
    """
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text.strip()[-1:], 1.0)
    try:
        value = float(text.strip().rstrip("kMG")) * scale
    except ValueError:
        value = float("nan")
    if not abs(value) < _LONGEST or (is_whole and value != int(value)):
        return "write a plain number"
    return f"write {value:.0f}" if value == int(value) else f"write {value!r}"
