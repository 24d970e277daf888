"""Says in a user's words what is wrong in a file, or a setting, that pydantic refuses."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import ErrorDetails

#: In place of pydantic's own, which name our classes, by its types of errors.
_WORDS = {"extra_forbidden": "there is no such field", "missing": "is missing",
          "model_type": "is not a mapping", "dict_type": "is not a mapping",
          "list_type": "is not a list", "string_type": "is not text", "too_short": "is empty",
          "int_type": "is not a whole number",
          "int_parsing": "is not a whole number", "int_from_float": "is not a whole number",
          "float_type": "is not a number", "float_parsing": "is not a number",
          "bool_type": "is neither true nor false", "bool_parsing": "is neither true nor false"}


def refused(error: ValidationError) -> str:
    """The first thing that is wrong, with the field that it is about, on one line."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "[key]") or "top level"
    return f"{place}: {what(first)}"


def what(error: ErrorDetails) -> str:
    """What is wrong with one field, without its name."""
    return _WORDS.get(error["type"]) or " ".join(
        error["msg"].removeprefix("Value error, ").split())[:200]
