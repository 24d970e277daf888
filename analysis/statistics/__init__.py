"""Compute statistics of measured samples, such as means and differences, with 95 % intervals.

The functions know nothing about networks: they take numbers and return estimates, p-values or
effect sizes. Reports use them to compare security policies, and stopping rules to end a run.
Simulations test the coverage of the intervals: test_statistics.py and test_comparison.py in
tests/analysis.
"""

from analysis.statistics.differences import (
    Comparison,
    benjamini_hochberg,
    cliffs_delta,
    compare_paired,
    compare_welch,
    compare_welch_pairs,
    hedges_g,
    hedges_g_paired,
    holm,
    magnitude_word,
    p_value_beyond,
)
from analysis.statistics.estimates import (
    LEVEL,
    Estimate,
    Sample,
    joint_level,
    mean,
    mean_bca,
    median,
    paired_differences,
    relative_spread,
    sample_variance,
)
from analysis.statistics.robust import Trend, find_trend, modified_z_scores
from analysis.statistics.sample_size import (
    MAX_REPETITIONS,
    POWER,
    Outcome,
    decide_outcome,
    pairs_needed,
    repetitions_to_decide,
)
from analysis.statistics.sequential import Looks, plan_looks

__all__ = [
    "LEVEL",
    "MAX_REPETITIONS",
    "POWER",
    "Comparison",
    "Estimate",
    "Looks",
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
    "joint_level",
    "magnitude_word",
    "mean",
    "mean_bca",
    "median",
    "modified_z_scores",
    "p_value_beyond",
    "paired_differences",
    "pairs_needed",
    "plan_looks",
    "relative_spread",
    "repetitions_to_decide",
    "sample_variance",
]
