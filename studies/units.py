"""Values with units as users write them, for fields of a study's settings."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def byte_size(value: Any) -> Any:
    """Convert a size such as 500k, 1M or 16000000 to bytes.

    The units are decimal, as in network rates. Raises ValueError for other text.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+)([kmg]?)b?", value.strip().lower())
    if not match:
        raise ValueError(f"{value!r} is not a size; write 500k, 1M or 16M")
    return int(match[1]) * _FACTORS[match[2]]


#: Number of bytes; text such as 500k is converted.
Bytes = Annotated[int, BeforeValidator(byte_size)]
