"""Detect that a machine's clock was set, and wait until exact deadlines.

`describe_clock_step` takes the raw values of a repetition (one measurement). It returns a text if
the clock was set meanwhile, because then its times are wrong. `offset_s` returns the wall clock
minus the monotonic clock. `InstantTimer` waits until a deadline in nanoseconds or until data
arrive, for programs that send on schedule, such as the load generator. `set_read_ticks` sets how
long a clock read takes in a guest with virtual time, which skips waiting. Standard library only.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import select
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

#: Tolerance in s: readings of two clocks differ by less on a busy machine.
TOLERATED_S = 0.01
_READINGS = 5
#: Ticks of 256 ns that a clock read takes in virtual time. Only the embedded guest has this file.
_READ_TICKS = Path("/sys/module/time/parameters/clock_read_ticks")
_USUAL_READ_TICKS, _LEAST_READ_TICKS = 20, 1


def set_read_ticks(*, are_short: bool, ticks: Path = _READ_TICKS) -> None:
    """Set how long a clock read takes in virtual time, if the kernel can.

    iperf3 reads the clock about five times for a datagram. By the usual ticks that takes 26 us,
    more than the datagram's part of an aggregate.
    """
    if ticks.exists():
        ticks.write_text(f"{_LEAST_READ_TICKS if are_short else _USUAL_READ_TICKS}\n")


def offset_s() -> float:
    """Return the difference between the wall clock and the monotonic clock, in s.

    Only setting the clock changes this offset; NTP's slewing affects both clocks. The offset is
    read several times. The reading with the least time between its two halves counts, because it
    was not interrupted.
    """
    readings = []
    for _ in range(_READINGS):
        before = time.monotonic()
        wall = time.time()
        after = time.monotonic()
        readings.append((after - before, wall - (before + after) / 2))
    return min(readings)[1]


def describe_clock_step(raw: Mapping[str, Any]) -> str:
    """Describe how the clock was set during a repetition, or return "" if it was not.

    Records without a measured step are judged by their time stamps, which must be in the order in
    which they were taken.
    """
    stepped_s = raw.get("clock_step_s", 0.0)
    if abs(stepped_s) > TOLERATED_S:
        return f"the machine's clock was set by {stepped_s:+.2f} s meanwhile"
    stamps = [at_s for part in (*raw.get("parts", {}).values(), raw)
              for at_s in part["stamps"].values()]
    if any(later < earlier for earlier, later in itertools.pairwise(stamps)):
        return "the machine's clock was set back meanwhile"
    return ""


# --- Waiting with a nanosecond deadline: timerfd and a short busy-wait ---
# A timeout of select() may be late by a thousandth of its length, and epoll counts milliseconds. So
# the timer expires before the deadline, and the clock is read until the deadline. In real time the
# lead is learnt from each wake-up: it depends on the machine and on whether it was idle.

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


class _TimerSpec(ctypes.Structure):
    """The C structure `struct itimerspec`: interval and expiry time of a timer."""

    _fields_ = (("again_s", ctypes.c_long), ("again_ns", ctypes.c_long),
                ("at_s", ctypes.c_long), ("at_ns", ctypes.c_long))


class InstantTimer:
    """A timer that waits until a deadline on the monotonic clock, or until data arrive.

    The clock is polled from `ahead_s` before the deadline on. With `learns`, this lead adapts so
    that nine in ten wake-ups are in time.
    """

    def __init__(self, ahead_s: float = AHEAD_S, *, learns: bool = False) -> None:
        self.ahead_s, self._learns = ahead_s, learns
        self._library = ctypes.CDLL(None, use_errno=True)
        self._timer = self._library.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "there is no timer")
        self._armed_ns = 0

    def close(self) -> None:
        """Close the file descriptor of the timer."""
        os.close(self._timer)

    def wait_until(self, descriptors: Collection[int], until_s: float) -> tuple[list[int], float]:
        """Wait until a file descriptor is readable or the deadline has come.

        Args:
            descriptors: The descriptors to wait for.
            until_s: The deadline on the monotonic clock, in s.

        Returns:
            The readable descriptors, and the time (monotonic, s).
        """
        at_ns = max(1, round((until_s - self.ahead_s) * _NS))
        if at_ns != self._armed_ns:
            instant = _TimerSpec(0, 0, *divmod(at_ns, _NS))
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
        """Make the polling before the deadline longer or shorter, after a sleep up to the timer."""
        step_s = _LEARN_S * (1 - _TOO_LATE if is_late else -_TOO_LATE)
        self.ahead_s = min(MAX_AHEAD_S, max(AHEAD_S, self.ahead_s + step_s))
