"""Statistics as pure functions of samples, with 95 % intervals by default.

Simulations test the coverage of the intervals: test_statistics.py and test_comparison.py in
tests/analysis.
"""

from analysis.statistics.correction import benjamini_hochberg, holm
from analysis.statistics.differences import (
    Comparison,
    compare_paired,
    compare_welch,
    compare_welch_pairs,
)
from analysis.statistics.effects import cliffs_delta, hedges_g, hedges_g_paired, magnitude_word
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
from analysis.statistics.extremes import relative_spread
from analysis.statistics.needed import (
    MOST,
    POWER,
    Outcome,
    decide_outcome,
    pairs_needed,
    repetitions_to_decide,
)
from analysis.statistics.robust import Trend, find_trend, modified_z_scores

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
    "compare_paired",
    "compare_welch",
    "compare_welch_pairs",
    "decide_outcome",
    "find_trend",
    "hedges_g",
    "hedges_g_paired",
    "holm",
    "magnitude_word",
    "mean",
    "mean_bca",
    "median",
    "modified_z_scores",
    "paired_differences",
    "pairs_needed",
    "relative_spread",
    "repetitions_to_decide",
    "sample_variance",
]
