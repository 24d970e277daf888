"""Rounding of numbers for tables, to the digits that their uncertainty supports."""

from __future__ import annotations

import math

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
_MOST_DECIMALS = 3


def round_to_uncertainty(value: float, half_width: float | None) -> tuple[str, str]:
    """Return value and half width with two significant digits of the half width.

    >>> uncertain(4.6123, 0.0312)
    ('4.612', '0.031')
    >>> uncertain(1734.0, 126.0)
    ('1730', '130')
    """
    if half_width is None:
        return round_to_digits(value), ""
    if half_width <= 1e-9 * max(abs(value), 1):  # equal values, except for rounding
        return round_to_digits(value), "0"
    decimals = min(_MOST_DECIMALS, 1 - _decimal_exponent(half_width))
    # A half width below the last digit shown is shown as 1 in that digit, not as 0.
    return _format_fixed(value, decimals), _format_fixed(max(half_width, 10.0**-_MOST_DECIMALS),
                                                         decimals)


def round_to_digits(value: float) -> str:
    """Return a value without interval, with three significant digits or its whole integer part."""
    if value == 0:
        return "0"
    return _format_fixed(value, max(0, min(_MOST_DECIMALS, 2 - _decimal_exponent(value, digits=3))))


def _decimal_exponent(value: float, digits: int = 2) -> int:
    """Return the power of ten of the first digit after rounding to `digits`.

    For example, 0.0996 becomes 0.10.
    """
    return math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))


def _format_fixed(value: float, decimals: int) -> str:
    rounded = round(value, decimals)
    return f"{rounded + 0.0:.{max(0, decimals)}f}"  # + 0.0 turns -0.0 into 0.0
