"""Read unquoted values of a YAML file as the types that their fields have.

YAML decides on the type of a value by its spelling: `1.20` is a number, `on` a boolean, `06` an
octal number and `2026-12-01` a date. A field for text means the text, a field for numbers the
number. `validate_values` calls the validator of a file's class, and repeats it with such values in
the types that were expected. A value with two possible meanings stays as it is, and is refused:
`010` is 8 in YAML 1.1, and 10 in YAML 1.2.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from documents.refusals import value_path
from documents.yaml_reader import KeyPath, SourceLines

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

T = TypeVar("T")

#: Validations of one file. A value may fail as a member of a block after the block was settled.
_ROUNDS = 4
_WORD_OR_NUMBER = re.compile(r"'([^']*)'|(-?\d+)")
_DECIMAL = re.compile(r"([-+]?)(\d+)(\.\d*)?([eE][-+]?\d{1,3})?")
_OCTAL = re.compile(r"0+[0-7]{2,}")
_BOOLEANS = {"0": False, "1": True, "n": False, "y": True}


def validate_values(validate: Callable[[Any], T], data: Any,
                    find_spot: Callable[[KeyPath], SourceLines | None],
                    find_choices: Callable[[KeyPath], Sequence[Any]] = lambda _: ()) -> T:
    """Validate the values of a YAML file, unquoted ones as the types that their fields have.

    Args:
        validate: Validates values, and raises pydantic's ValidationError.
        data: The values. They are not changed.
        find_spot: Returns the spelling of a value by its path of keys, None if it has none.
        find_choices: Returns the words and numbers that a field allows, where the error of its
            validator does not list them.

    Raises:
        ValidationError: Values are invalid in any case.
    """
    from pydantic import ValidationError

    for _ in range(_ROUNDS):
        try:
            return validate(data)
        except ValidationError as error:
            settled = _settle_values(error, data, find_spot, find_choices)
            if settled is None:
                raise
            data = settled
    return validate(data)


def _settle_values(error: ValidationError, data: Any,
                   find_spot: Callable[[KeyPath], SourceLines | None],
                   find_choices: Callable[[KeyPath], Sequence[Any]]) -> Any:
    """Return the values with refused ones in the expected types, None if nothing changes."""
    settled = None
    for detail in error.errors(include_url=False):
        path = value_path(detail)
        spot = find_spot(path)
        if spot is None and path:
            path = path[:-1]  # pydantic adds the name of a type where a field has several
            spot = find_spot(path)
        if spot is None or not spot.is_unquoted:
            continue
        value = _find_value(data, path)
        meant = None if value is None else _read_as_expected(detail, value, spot.text,
                                                             find_choices(path))
        if meant is None or (type(meant), meant) == (type(value), value):
            continue
        settled = copy.deepcopy(data) if settled is None else settled
        _find_value(settled, path[:-1])[path[-1]] = meant
    return settled


def _find_value(data: Any, path: KeyPath) -> Any:
    """Return the value at a path of keys, None if there is none."""
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _read_as_expected(detail: ErrorDetails, value: Any, text: str,
                      choices: Sequence[Any]) -> Any:
    """Return what an unquoted text means in a field, None if its meaning is not plain."""
    kind = detail["type"]
    if kind == "string_type":
        return text
    if kind == "literal_error":
        expected = str(detail.get("ctx", {}).get("expected", ""))
        choices = choices or [int(number) if number else word
                              for word, number in _WORD_OR_NUMBER.findall(expected)]
    if choices:
        return _choose_value(value, text, choices)
    if isinstance(value, bool):
        return None
    if kind.startswith("int_"):
        return _read_whole(text)
    if kind.startswith("float_"):
        return _read_number(text)
    return _BOOLEANS.get(text.lower()) if kind.startswith("bool_") else None


def _choose_value(value: Any, text: str, choices: Sequence[Any]) -> Any:
    """Return the allowed word or number that an unquoted text means, or None.

    `yes` is 1 only where no other number than 0 and 1 is allowed.
    """
    if text in choices:
        return text
    if isinstance(value, bool):
        if text.lower() in choices:
            return text.lower()
        numbers = {choice for choice in choices if isinstance(choice, int)}
        is_plain = numbers >= {0, 1} and (numbers == {0, 1} or not value)
        return int(value) if is_plain else None
    number = _read_whole(text)
    return number if number in choices else None


def _read_whole(text: str) -> int | None:
    """Return the whole number that an unquoted text means, or None."""
    number = _read_number(text)
    return None if number is None or number != int(number) else int(number)


def _read_number(text: str) -> float | None:
    """Return the decimal number that an unquoted text means, or None.

    Leading zeros make YAML 1.1 read an octal number. One digit is the same number in both.
    """
    if not _DECIMAL.fullmatch(text) or _OCTAL.fullmatch(text.lstrip("+-")):
        return None
    number = float(text)
    return number if math.isfinite(number) else None
