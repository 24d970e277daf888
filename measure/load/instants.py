"""Provide select() with a nanosecond deadline: timerfd and a short busy-wait.

Standard library only. A timeout of select() may be late by a thousandth of its length, and `epoll`
counts whole milliseconds. Waking up and reading the clock takes some microseconds, too. So the
timer expires before the deadline, and the clock is read until the deadline. The wake-up time
depends on the machine and on whether it was idle. In real time the lead is learnt from each
wake-up.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections.abc import Collection

_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1
_NS = 1_000_000_000
#: Lead of the timer before the deadline, in s: in virtual time the clock is read twice meanwhile.
AHEAD_S = 0.00001
#: Lead in real time, in s: least time a guest takes to wake a real-time process, and the upper
#: limit of busy-waiting.
REAL_AHEAD_S, MAX_AHEAD_S = 0.00008, 0.0005
#: Step of learning: a late wake-up raises the lead by 0.9 steps, a timely one lowers it by 0.1
#: (Robbins-Monro estimate of a quantile). So nine in ten wake-ups are in time.
_LEARN_S, _TOO_LATE = 0.00002, 0.1


class _Instant(ctypes.Structure):
    """`struct itimerspec`: interval and expiry time."""

    _fields_ = (("again_s", ctypes.c_long), ("again_ns", ctypes.c_long),
                ("at_s", ctypes.c_long), ("at_ns", ctypes.c_long))


class InstantTimer:
    """A timer that waits for descriptors until a deadline on the monotonic clock.

    The clock is read from `ahead_s` before the deadline on. With `learns`, this lead adapts so that
    nine in ten wake-ups are in time.
    """

    def __init__(self, ahead_s: float = AHEAD_S, *, learns: bool = False) -> None:
        self.ahead_s, self._learns = ahead_s, learns
        self._library = ctypes.CDLL(None, use_errno=True)
        self._timer = self._library.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "there is no timer")
        self._armed_ns = 0

    def close(self) -> None:
        """Close the timer's descriptor."""
        os.close(self._timer)

    def wait_until(self, descriptors: Collection[int], until_s: float) -> tuple[list[int], float]:
        """Wait until a descriptor is readable or the deadline has come.

        Args:
            descriptors: The descriptors to wait for.
            until_s: The deadline on the monotonic clock, in s.

        Returns:
            The readable descriptors, and the time (monotonic, s).
        """
        at_ns = max(1, round((until_s - self.ahead_s) * _NS))
        if at_ns != self._armed_ns:
            instant = _Instant(0, 0, *divmod(at_ns, _NS))
            self._library.timerfd_settime(self._timer, _ABSOLUTE, ctypes.byref(instant), None)
            self._armed_ns = at_ns
        is_ahead = self._learns and time.monotonic() < until_s - self.ahead_s
        ready, _, _ = select.select([*descriptors, self._timer], (), ())
        now_s = time.monotonic()
        if is_ahead and ready == [self._timer]:
            self._adjust_lead(is_late=now_s > until_s)
        while self._timer in ready and now_s < until_s:
            now_s = time.monotonic()
        return [descriptor for descriptor in ready if descriptor != self._timer], now_s

    def _adjust_lead(self, *, is_late: bool) -> None:
        """Adjust the lead after a sleep that only the timer ended."""
        step_s = _LEARN_S * (1 - _TOO_LATE if is_late else -_TOO_LATE)
        self.ahead_s = min(MAX_AHEAD_S, max(AHEAD_S, self.ahead_s + step_s))
