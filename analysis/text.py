"""Text functions for tables and notes, such as safe text and sort keys."""

from __future__ import annotations

import re
from typing import Any

from measure.document import to_printable

__all__ = ["count_noun", "format_size", "natural_cell_key", "natural_key", "to_printable"]


def natural_key(name: str) -> tuple[Any, ...]:
    """Return a sort key that puts A2 before A10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part)
                 for part in re.split(r"([0-9]+)", name) if part)


def natural_cell_key(ids: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a sort key in natural order for the ids of a cell."""
    return tuple(natural_key(name) for name in ids)


def count_noun(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> counted(2, "repetition")
    '2 repetitions'
    """
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def format_size(count: float) -> str:
    """Return a number of bytes as text with a decimal unit.

    The units are B, kB, MB and GB.
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * factor:  # three digits would show this as 1 of the unit
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
