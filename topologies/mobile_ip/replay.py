"""Replay protection by timestamps: Identification fields in NTP's format (RFC 5944 section 5.7.1).

Times are seconds since 1970 (UNIX); an Identification has seconds since 1900 in its high 32 bits
and a binary fraction in its low ones.
"""

from __future__ import annotations

_NTP_EPOCH = 2_208_988_800
_SECOND = 1 << 32
_LOW = _SECOND - 1
# RFC 5944 section 5.7.1: by default 7 s, and better more than 3 s.
WINDOW_S = 7.0


def identification(now_s: float, noise: int = 0) -> int:
    """The time as an Identification; the low 10 bits, below the clock's precision, are `noise`."""
    whole = int(now_s)
    fraction = int((now_s - whole) * _SECOND)
    low = (fraction & ~0x3FF) | (noise & 0x3FF)
    return ((whole + _NTP_EPOCH) % _SECOND) << 32 | low


def seconds(value: int) -> float:
    """The time that an Identification says, between 1968 and 2104 (RFC 4330 section 3)."""
    high = value >> 32
    if high < _SECOND >> 1:
        high += _SECOND
    return high - _NTP_EPOCH + (value & _LOW) / _SECOND


def is_fresh(value: int, now_s: float, last: int) -> bool:
    """Whether it is close enough to our time and later than all that were accepted."""
    return abs(seconds(value) - now_s) <= WINDOW_S and value > last


def resynchronising(value: int, now_s: float) -> int:
    """What code 133 answers: our time in the high half, the request's own low half."""
    return (identification(now_s) & ~_LOW) | (value & _LOW)


def answers(reply: int, request: int) -> bool:
    """Whether a reply belongs to a request: their low halves (RFC 5944 section 3.6.2.1)."""
    return reply & _LOW == request & _LOW
