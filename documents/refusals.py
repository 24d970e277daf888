"""Explain to users which value of their YAML file or setting is invalid, and what to write.

Readers of YAML files use this module, for example those of networks and of run profiles. The values
are validated by pydantic, whose own messages name Python classes. `explain_refusal` takes
pydantic's error and the file's values. It returns the line and name of the invalid value, what is
wrong with it, and what to write instead.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from documents.yaml_reader import KeyPath, SourceLines, YamlDocument

if TYPE_CHECKING:
    from pydantic import ValidationError
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
#: What to write in place of a number that YAML 1.1 misreads (`SourceLines.misreading`).
MISREADING_ADVICE = "write the decimal number"
#: Bound above any number in a file.
_LONGEST = 1e15
_SHOWN = 40  # characters of a value in a message


def describe_refused_value(error: ErrorDetails) -> str:
    """Return what is wrong with a value in a file, without the value's name."""
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
    """Return what to write instead of a wrong value, "" if unknown.

    `known` are the existing fields.
    """
    kind, value = error["type"], error.get("input")
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return did_you_mean(str(error["loc"][-1]), known)
    if kind == "string_type" and isinstance(value, list | dict):
        return "write one text"
    if kind.startswith(("int_", "float_")) and isinstance(value, str):
        return _as_number(value, is_whole=kind.startswith("int_"))
    return _ADVICE.get(kind, "")


def show_value(value: Any) -> str:
    """Return a short form of a value for a message, "" for blocks and lists."""
    if isinstance(value, dict | list) or value is None:
        return ""
    text = repr(value) if isinstance(value, str) else str(value).lower() \
        if isinstance(value, bool) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the known word that a user probably meant, or all known words.

    The result is "" without any known word.
    """
    names = list(known)
    near = difflib.get_close_matches(word[:64], names, 1)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(names)}" \
        if names else ""


def _as_number(text: str, *, is_whole: bool) -> str:
    """Return the right spelling of a number that YAML reads as text, such as 54M or 1e6."""
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text.strip()[-1:], 1.0)
    try:
        value = float(text.strip().rstrip("kMG")) * scale
    except ValueError:
        value = float("nan")
    if not abs(value) < _LONGEST or (is_whole and value != int(value)):
        return "write a plain number"
    return f"write {value:.0f}" if value == int(value) else f"write {value!r}"

# --- Refused values of a file ---

class Refusal(NamedTuple):
    """A refused value in a file: its line and name, what is wrong, and what to write.

    `more` counts the other refused values.
    """

    line: int
    name: str
    what: str
    advice: str
    more: int


#: Types of errors about a key that is unknown, and of an error with texts of its own.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_OWN_TEXTS = "policy"


def explain_refusal(error: ValidationError, document: YamlDocument, cls: Any,
                    advice: str) -> Refusal:
    """Explain the first value of a file that pydantic refuses.

    A misspelt key comes first, as it explains a missing one.

    Args:
        error: The error of pydantic.
        document: The file's values.
        cls: The class that the file was read into.
        advice: What to do where nothing better is known.
    """
    details = error.errors(include_url=False)
    first = min(details, key=lambda detail: (
        detail["type"] not in _UNKNOWN, detail["type"] == "missing"))
    path = value_path(first)
    context = first.get("ctx", {})
    blamed = [(*path, *keys) for keys in context.get("at", ())] or [path]
    place = next((spot for spot in blamed if spot in document.spots), path)
    line, name = document.find_spot(place).key_line, ".".join(map(str, path))
    if first["type"] == _OWN_TEXTS:
        return Refusal(line, name, context["what"], context["advice"], len(details) - 1)
    known = fields_at(cls, path[:-1]) if first["type"] in _UNKNOWN else ()
    what, own_advice = describe_value(first, document.spots.get(path), known)
    return Refusal(line, name, what, own_advice or advice, len(details) - 1)


def value_path(error: ErrorDetails) -> KeyPath:
    """Return the keys that lead to a refused value."""
    return tuple(part for part in error["loc"] if part != "[key]")


def describe_value(error: ErrorDetails, spot: SourceLines | None,
                   known: Iterable[str] = ()) -> tuple[str, str]:
    """Return what is wrong with a value, and what to write, "" if unknown.

    Args:
        error: The error of pydantic.
        spot: Lines and spelling of the value, None if no file has it.
        known: The existing fields.
    """
    if spot is not None and spot.misreading and error["type"].startswith(("int_", "float_")):
        return spot.misreading, MISREADING_ADVICE
    return describe_input(error), advise_fix(error, known)


def describe_input(error: ErrorDetails) -> str:
    """Return a text with a refused value and the reason, without the name of its field."""
    has_value = error["type"] not in (*_UNKNOWN, "missing")
    shown = show_value(error.get("input")) if has_value else ""
    return f"{shown} {describe_refused_value(error)}".strip()


def fields_at(cls: Any, path: KeyPath) -> list[str]:
    """Return the fields that a class has at a path of keys.

    There are none if another type is there.
    """
    for key in path:
        fields = _fields_of(_plain_class(cls))
        cls = fields.get(str(key)) if fields else \
            (typing.get_args(_plain_class(cls)) or (None,))[-1]
    return list(_fields_of(_plain_class(cls)))


def _plain_class(cls: Any) -> Any:
    """Return the class in a type annotation, without Annotated and None."""
    while typing.get_origin(cls) in (typing.Annotated, types.UnionType, typing.Union):
        cls = next(option for option in typing.get_args(cls) if option is not types.NoneType)
    return cls


def _fields_of(cls: Any) -> Mapping[str, Any]:
    """Return the types of a class's fields, empty for a class without fields."""
    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    fields = getattr(cls, "model_fields", {})
    return {name: field.annotation for name, field in fields.items()}
