"""What tests of intervals share: Student's example, and whether a truth is covered."""

from __future__ import annotations

from analysis.statistics import Estimate

#: Student (1908): additional hours of sleep gained with two soporifics, ten patients.
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def covers(estimate: Estimate, truth: float) -> bool:
    """Whether the interval holds the truth."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high
