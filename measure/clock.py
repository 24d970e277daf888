"""Detect that the machine's clock was set during a repetition, which spoils its times."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any

#: Tolerance in s: readings of two clocks differ by less on a busy machine.
TOLERATED_S = 0.01
_READINGS = 5


def offset_s() -> float:
    """Return the wall clock minus the monotonic clock, in s.

    Only setting the clock changes this offset; NTP's slewing affects both clocks. Of several
    readings, the one with the least time between its two halves counts: it was not interrupted.
    """
    readings = []
    for _ in range(_READINGS):
        before = time.monotonic()
        wall = time.time()
        after = time.monotonic()
        readings.append((after - before, wall - (before + after) / 2))
    return min(readings)[1]


def describe_clock_step(raw: Mapping[str, Any]) -> str:
    """Return how the clock was set during a repetition, or "" if it was not.

    Records without a measured step are judged by their stamps, which must be in the order in which
    they were taken.
    """
    stepped_s = raw.get("clock_step_s", 0.0)
    if abs(stepped_s) > TOLERATED_S:
        return f"the machine's clock was set by {stepped_s:+.2f} s meanwhile"
    stamps = [at_s for part in (*raw.get("parts", {}).values(), raw)
              for at_s in part["stamps"].values()]
    if any(later < earlier for earlier, later in itertools.pairwise(stamps)):
        return "the machine's clock was set back meanwhile"
    return ""
