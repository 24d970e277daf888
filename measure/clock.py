"""Was the machine's clock set while a repetition was measured? Its times would be of two clocks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any

#: Less than this is what two readings of two clocks differ by, on a busy machine.
TOLERATED_S = 0.01
_READINGS = 5


def offset_s() -> float:
    """The wall clock minus the monotonic one, in seconds; only setting the clock changes it.

    (Slowing or speeding a clock up, as NTP does, goes to both.) Of several readings that with the
    least time between its two halves is the one that was not interrupted.
    """
    readings = []
    for _ in range(_READINGS):
        before = time.monotonic()
        wall = time.time()
        after = time.monotonic()
        readings.append((after - before, wall - (before + after) / 2))
    return min(readings)[1]


def was_set(raw: Mapping[str, Any]) -> str:
    """How the clock moved during a repetition with these raw values; "" if nobody set it.

    Records of machines that did not look are judged by their stamps alone, which are in the order
    in which they were taken.
    """
    stepped_s = raw.get("clock_step_s", 0.0)
    if abs(stepped_s) > TOLERATED_S:
        return f"the machine's clock was set by {stepped_s:+.2f} s meanwhile"
    stamps = [at_s for part in (*raw.get("parts", {}).values(), raw)
              for at_s in part["stamps"].values()]
    if any(later < earlier for earlier, later in itertools.pairwise(stamps)):
        return "the machine's clock was set back meanwhile"
    return ""
