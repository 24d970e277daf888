"""Byte sizes as people write them."""

from __future__ import annotations

import re
from typing import Any

import click

_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


class ByteSize(click.ParamType[int]):
    """A size such as 500k, 1M or 16000000, in decimal units as network rates use them."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The size in bytes; refuses what is none, and what is too small to time."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)([kmg]?)b?", value.strip().lower())
        if not match:
            self.fail(f"{value!r} is no size; write 500k, 1M or 16M", param, ctx)
        size = int(match[1]) * _FACTORS[match[2]]
        if not 50_000 <= size <= 10_000_000_000:
            self.fail(f"{value!r}: give between 50k and 10G", param, ctx)
        return size
