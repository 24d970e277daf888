"""Texts that tables and notes share: order of names, safe text from files, counts and sizes."""

from __future__ import annotations

import re
from typing import Any

from measure.document import printable

__all__ = ["counted", "natural", "natural_cell", "printable", "size"]


def natural(name: str) -> tuple[Any, ...]:
    """Sort key that puts A2 before A10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part)
                 for part in re.split(r"([0-9]+)", name) if part)


def natural_cell(ids: tuple[str, ...]) -> tuple[Any, ...]:
    """The same for the ids of a cell, one factor after the other."""
    return tuple(natural(name) for name in ids)


def counted(count: int, singular: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(2, "repetition")
    '2 repetitions'
    """
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def size(count: float) -> str:
    """A number of bytes for people, in powers of ten."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * factor:  # what three digits show as 1 of this unit
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
