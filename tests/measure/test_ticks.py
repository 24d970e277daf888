"""The kernel's tick: the coarse clock has moved when one is said to have come."""

from __future__ import annotations

import time

from measure import ticks

_COARSE = 6


def test_a_tick_is_waited_for() -> None:
    """Between the call and its answer the coarse clock moved, and not past the answer."""
    before_ns = time.clock_gettime_ns(_COARSE)
    tick_ns = ticks.next_ns()
    assert before_ns < time.clock_gettime_ns(_COARSE)
    assert before_ns < tick_ns <= time.monotonic_ns()
