"""Correction of the p-values of many tests for chance findings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from analysis.statistics.estimates import Sample


def holm(p_values: Iterable[float]) -> Sample:
    """Return adjusted p-values in the given order, by Holm's method.

    Let those below 0.05 be called significant. Then at most 5 % of all families of tests have any
    error, however the tests depend on each other. Holm (1979), "A simple sequentially rejective
    multiple test procedure", Scandinavian J. of Statistics 6(2), 65-70.

    Raises:
        ValueError: A value is not a probability.
    """
    p = _check_probabilities(p_values)
    order = np.argsort(p, kind="stable")
    raised = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    # A larger p-value never gets the smaller adjusted one.
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return adjusted


def benjamini_hochberg(p_values: Iterable[float]) -> Sample:
    """Return adjusted p-values in the given order, by Benjamini and Hochberg's method.

    Of those below 0.05, 5 % are expected to be errors, for independent or positively dependent
    tests. The method is less strict than `holm`; it finds results that deserve a closer look.
    Benjamini and Hochberg (1995), "Controlling the false discovery rate", J. Royal Statistical
    Society B 57(1), 289-300.

    Raises:
        ValueError: A value is not a probability.
    """
    p = _check_probabilities(p_values)
    order = np.argsort(p, kind="stable")
    raised = p[order] * p.size / np.arange(1, p.size + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1])
    return adjusted


def _check_probabilities(values: Iterable[float]) -> Sample:
    p = np.fromiter(values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    return p
