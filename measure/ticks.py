"""The kernel's tick is found, so that what begins then has the same place among ticks in every run.

The kernel's own waits, such as those of a scan, last until a tick. The coarse clock shows one: it
stands still until the next. Runs inside a machine: standard library only.
"""

from __future__ import annotations

import time

#: Linux's number of the clock that is read without a look at the hardware (time(7)).
_MONOTONIC_COARSE = 6
#: Between two ticks of the guest's kernel (100 a second).
PERIOD_NS = 10_000_000


def next_ns() -> int:
    """When the next one has come, by the machine's clock that nobody sets.

    It is watched for without a rest: after an idle moment the coarse clock is set between ticks.
    """
    before_ns = time.clock_gettime_ns(_MONOTONIC_COARSE)
    while time.clock_gettime_ns(_MONOTONIC_COARSE) == before_ns:
        time.monotonic_ns()  # in virtual time this is what makes it go on
    return time.monotonic_ns()
