"""Convert latencies of urgent messages to fields of a record, for all judges."""

from __future__ import annotations

from statistics import fmean, median, pstdev
from typing import Any


def latency_fields(waits_s: list[float]) -> dict[str, Any]:
    """Return statistics and values of the latencies by field of `Measured`."""
    return {"latency_s": fmean(waits_s) if waits_s else None,
            "latency_median_s": median(waits_s) if waits_s else None,
            "latency_deviation_s": pstdev(waits_s) if waits_s else None,
            "latencies_s": waits_s}
