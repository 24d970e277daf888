"""Numerical inversion of Laplace transforms for tails and percentiles of distributions.

The method is a Fourier series whose last terms are averaged (Euler summation). Abate and Whitt
(1995), "Numerical inversion of Laplace transforms of probability distributions", ORSA Journal on
Computing 7(1), 36-43.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

Transform = Callable[[NDArray[np.complex128]], NDArray[np.complex128]]

#: Damping; the discretization error is exp(-_DAMPING), 4e-11.
_DAMPING = 24.0
_TERMS = 240
_AVERAGED = 12

_ORDERS = np.arange(_TERMS + _AVERAGED + 1)
#: Weights of the terms: binomial averages of the last partial sums, with alternating signs.
_WEIGHTS = np.where(_ORDERS <= _TERMS, 1.0, special.bdtrc(
    np.maximum(_ORDERS - _TERMS - 1, 0), _AVERAGED, 0.5)) * (-1.0) ** _ORDERS
_WEIGHTS[0] /= 2


def tail_of(transform: Transform, time_s: float) -> float:
    """Return the probability that a non-negative random variable exceeds a time above 0."""
    points = np.asarray((_DAMPING / 2 + 1j * np.pi * _ORDERS) / time_s, dtype=np.complex128)
    values = ((1.0 - transform(points)) / points).real
    return float(np.exp(_DAMPING / 2) / time_s * (_WEIGHTS @ values))


def gamma_transform(mean: float, variation: float) -> Transform:
    """Return the transform of a gamma distribution, or of a constant for variation 0."""
    complement = gamma_complement(mean, variation)
    return lambda s: 1.0 - complement(s)


def gamma_complement(mean: float, variation: float) -> Transform:
    """Return 1 minus the transform of a gamma distribution, precise also for small s."""
    if variation == 0 or mean == 0:
        return lambda s: -np.expm1(-s * mean)
    if variation == 1:
        return lambda s: s * mean / (1.0 + s * mean)
    return lambda s: -np.expm1(-np.log1p(s * (mean * variation)) / variation)
