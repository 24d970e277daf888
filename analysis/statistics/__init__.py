"""Statistics as pure functions of samples, with 95 % intervals by default.

Simulations test the coverage of the intervals: test_statistics.py and test_comparison.py in
tests/analysis.
"""

from analysis.statistics.correction import benjamini_hochberg, holm
from analysis.statistics.differences import Comparison, paired, welch, welch_over
from analysis.statistics.effects import cliffs_delta, hedges_g, hedges_g_paired, magnitude
from analysis.statistics.estimates import (
    LEVEL,
    Estimate,
    Sample,
    mean,
    mean_bca,
    median,
    paired_differences,
    sample_variance,
)
from analysis.statistics.extremes import spread
from analysis.statistics.needed import (
    MOST,
    POWER,
    Outcome,
    decided,
    pairs_needed,
    repetitions_to_decide,
)
from analysis.statistics.robust import Trend, modified_z_scores, trend

__all__ = [
    "LEVEL",
    "MOST",
    "POWER",
    "Comparison",
    "Estimate",
    "Outcome",
    "Sample",
    "Trend",
    "benjamini_hochberg",
    "cliffs_delta",
    "decided",
    "hedges_g",
    "hedges_g_paired",
    "holm",
    "magnitude",
    "mean",
    "mean_bca",
    "median",
    "modified_z_scores",
    "paired",
    "paired_differences",
    "pairs_needed",
    "repetitions_to_decide",
    "sample_variance",
    "spread",
    "trend",
    "welch",
    "welch_over",
]
