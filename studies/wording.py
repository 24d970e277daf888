"""Says in a user's words what is wrong in a file, or a setting, that pydantic refuses."""

from __future__ import annotations

from pydantic import ValidationError

from topologies.wording import describe_error

__all__ = ["describe_error", "refused"]


def refused(error: ValidationError) -> str:
    """The first thing that is wrong, with the field that it is about, on one line."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "[key]") or "top level"
    return f"{place}: {describe_error(first)}"
