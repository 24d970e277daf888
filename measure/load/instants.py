"""Whoever waits for descriptors is woken at an instant, to the nanosecond. Standard library only.

A timeout is not enough: the kernel lets it be late by a thousandth of itself, and `epoll`'s are
whole milliseconds. To be woken and to look at the clock takes some microseconds, too: the timer
goes off before the instant, and the clock is read until it has come. How long it takes to be woken
depends on the machine, and on whether it rested: where time is real, that is learnt from each time.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections.abc import Collection

_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1
_NS = 1_000_000_000
#: So long before an instant the timer goes off: in virtual time a clock is read twice meanwhile.
AHEAD_S = 0.00001
#: In real time a guest takes that long, at least, to wake up who goes before all others; at most so
#: long is waited for with the clock being read.
REAL_AHEAD_S, MAX_AHEAD_S = 0.00008, 0.0005
#: Who is woken too late wakes up that much sooner the next time; nine who are not, as much later
#: (Robbins and Monro's way to a quantile): so nine in ten are woken in time.
_LEARN_S, _TOO_LATE = 0.00002, 0.1


class _Instant(ctypes.Structure):
    """`struct itimerspec`: how often again, and when."""

    _fields_ = (("again_s", ctypes.c_long), ("again_ns", ctypes.c_long),
                ("at_s", ctypes.c_long), ("at_ns", ctypes.c_long))


class InstantTimer:
    """Waits for descriptors until an instant of the monotonic clock, until it is closed.

    The clock is read from `ahead_s` before the instant on; if it `learns`, from as long before as
    nine in ten are woken in time.
    """

    def __init__(self, ahead_s: float = AHEAD_S, *, learns: bool = False) -> None:
        self.ahead_s, self._learns = ahead_s, learns
        self._library = ctypes.CDLL(None, use_errno=True)
        self._timer = self._library.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "there is no timer")
        self._armed_ns = 0

    def close(self) -> None:
        """Give the timer back."""
        os.close(self._timer)

    def wait(self, descriptors: Collection[int], until_s: float) -> tuple[list[int], float]:
        """Those that are readable, as soon as any is, or at that instant; and what time it is."""
        at_ns = max(1, round((until_s - self.ahead_s) * _NS))
        if at_ns != self._armed_ns:
            instant = _Instant(0, 0, *divmod(at_ns, _NS))
            self._library.timerfd_settime(self._timer, _ABSOLUTE, ctypes.byref(instant), None)
            self._armed_ns = at_ns
        is_ahead = self._learns and time.monotonic() < until_s - self.ahead_s
        ready, _, _ = select.select([*descriptors, self._timer], (), ())
        now_s = time.monotonic()
        if is_ahead and ready == [self._timer]:
            self._learn(is_late=now_s > until_s)
        while self._timer in ready and now_s < until_s:
            now_s = time.monotonic()
        return [descriptor for descriptor in ready if descriptor != self._timer], now_s

    def _learn(self, *, is_late: bool) -> None:
        """Of one who slept until the timer went off, and whom nothing else woke."""
        step_s = _LEARN_S * (1 - _TOO_LATE if is_late else -_TOO_LATE)
        self.ahead_s = min(MAX_AHEAD_S, max(AHEAD_S, self.ahead_s + step_s))
