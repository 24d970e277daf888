"""Descriptions of pydantic validation errors in files and settings, for users."""

from __future__ import annotations

from pydantic import ValidationError

from topologies.wording import describe_error

__all__ = ["describe_error", "describe_refusal"]


def describe_refusal(error: ValidationError) -> str:
    """Describe the first error of a validation and its field in one line."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "[key]") or "top level"
    return f"{place}: {describe_error(first)}"
