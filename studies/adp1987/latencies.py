"""Latencies of a phase's urgent messages become fields of a record, alike for all judges."""

from __future__ import annotations

from statistics import fmean, median, pstdev
from typing import Any


def fields(waits_s: list[float]) -> dict[str, Any]:
    """What they come to, and all of them, as `Measured` has them."""
    return {"latency_s": fmean(waits_s) if waits_s else None,
            "latency_median_s": median(waits_s) if waits_s else None,
            "latency_deviation_s": pstdev(waits_s) if waits_s else None,
            "latencies_s": waits_s}
