"""Replay protection by timestamps, with Identifications in NTP format (RFC 5944 section 5.7.1).

Times are seconds since 1970 (UNIX); an Identification has seconds since 1900 in its high 32 bits
and a binary fraction in its low ones.
"""

from __future__ import annotations

_NTP_EPOCH = 2_208_988_800
_SECOND = 1 << 32
_LOW = _SECOND - 1
# RFC 5944 section 5.7.1: the default is 7 s, and more than 3 s is recommended.
WINDOW_S = 7.0


def make_identification(now_s: float, noise: int = 0) -> int:
    """Return the time as an Identification with `noise` in its low 10 bits.

    These bits are below the clock's precision.
    """
    whole = int(now_s)
    fraction = int((now_s - whole) * _SECOND)
    low = (fraction & ~0x3FF) | (noise & 0x3FF)
    return ((whole + _NTP_EPOCH) % _SECOND) << 32 | low


def seconds_from_identification(value: int) -> float:
    """Return the time of an Identification, between 1968 and 2104 (RFC 4330 section 3)."""
    high = value >> 32
    if high < _SECOND >> 1:
        high += _SECOND
    return high - _NTP_EPOCH + (value & _LOW) / _SECOND


def is_fresh(value: int, now_s: float, last: int) -> bool:
    """Return whether an Identification is close to our time and later than the last accepted."""
    return abs(seconds_from_identification(value) - now_s) <= WINDOW_S and value > last


def make_resynchronisation(value: int, now_s: float) -> int:
    """Return the Identification of a denial with code 133.

    Its high half is our time, its low half the request's.
    """
    return (make_identification(now_s) & ~_LOW) | (value & _LOW)


def is_answer(reply: int, request: int) -> bool:
    """Return whether a reply belongs to a request, by their low halves.

    RFC 5944 section 3.6.2.1.
    """
    return reply & _LOW == request & _LOW
