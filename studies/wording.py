"""Says in a user's words what is wrong in a file that pydantic refuses."""

from __future__ import annotations

from pydantic import ValidationError

#: In place of pydantic's own, which name our classes, by its types of errors.
_WORDS = {"extra_forbidden": "there is no such field", "missing": "is missing",
          "model_type": "is no mapping", "dict_type": "is no mapping", "list_type": "is no list",
          "string_type": "is no text", "int_type": "is no whole number", "too_short": "is empty"}


def refused(error: ValidationError) -> str:
    """The first thing that is wrong, with the field that it is about, on one line."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "[key]") or "top level"
    what = _WORDS.get(first["type"]) or " ".join(first["msg"].split())[:200]
    return f"{place}: {what}"
