"""Class switching: visit ratios from a routing matrix, from classes to chains and back.

Equations (B.6) to (B.10) of Harbitter and Menascé (2002), after Bruell and Balbo (1980). Arrays
over classes have shape (M, R): M stations, R classes of one chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.queueing.errors import QueueingError

Array = NDArray[np.float64]


def visit_ratios(routing: ArrayLike, reference: tuple[int, int]) -> Array:
    """Visit ratios (M, R) of one closed chain, one visit to `reference` being a cycle.

    `routing` has shape (M, R, M, R): the probability that a customer who leaves station i as a
    class r joins station j as a class s. `reference` is a (station, class) pair that every
    customer returns to. Solves the traffic equations v = v P with v at the reference 1 (Lazowska
    et al. 1984, 7.4; Bruell and Balbo 1980). Raises QueueingError for rows that are no
    probabilities, and for a reference that customers do not return to.
    """
    matrix = np.asarray(routing, dtype=np.float64)
    stations, classes = matrix.shape[:2]
    size = stations * classes
    if matrix.shape != (stations, classes, stations, classes):
        raise QueueingError("routing", f"has the shape {matrix.shape}", "give (M, R, M, R)")
    flat = matrix.reshape(size, size)
    home = reference[0] * classes + reference[1]
    used = _reachable(flat, home)
    sums = flat.sum(axis=1)
    if (flat < 0).any() or not np.allclose(sums[used], 1, atol=1e-9):
        raise QueueingError("routing", "a row is not a set of probabilities",
                            "make each row that customers reach add up to 1")
    if not all(_reachable(flat, int(start))[home] for start in np.flatnonzero(used)):
        raise QueueingError("routing", "customers do not return to the reference",
                            "name a (station, class) that every cycle passes")
    # v = v P without the reference's column, where v is 1.
    others = np.flatnonzero(used & (np.arange(size) != home))
    ratios = np.zeros(size)
    ratios[home] = 1.0
    ratios[others] = np.linalg.solve(np.eye(others.size) - flat[np.ix_(others, others)].T,
                                     flat[home, others])
    return ratios.reshape(stations, classes)


def _reachable(flat: Array, start: int) -> NDArray[np.bool_]:
    """Which states can be reached from one, itself included."""
    seen = np.zeros(flat.shape[0], dtype=np.bool_)
    seen[start] = True
    while True:
        further = seen | (flat[seen] > 0).any(axis=0)
        if (further == seen).all():
            return seen
        seen = further


@dataclass(frozen=True)
class ChainParameters:
    """A chain seen as a single class: what (B.1) to (B.5) take. Shapes (M,), alpha (M, R)."""

    visits: Array
    service_s: Array
    alpha: Array


def aggregate(visits: ArrayLike, service_s: ArrayLike, reference: int | None = None,
              ) -> ChainParameters:
    """A chain's visit ratios and service times from its classes', both (M, R).

    With `reference` (a station's row) this is (B.6) as printed: v_iq = sum_r v_ir / sum_r v_0r,
    and throughput counts visits to that station; without one, visits are per cycle already.
    alpha_ir = v_ir / sum_s v_is is (B.7), and s_iq = sum_r alpha_ir s_ir. Raises QueueingError
    for a reference that nobody visits.
    """
    by_class = np.asarray(visits, dtype=np.float64)
    total = by_class.sum(axis=1)
    scale = 1.0 if reference is None else float(total[reference])
    if scale <= 0:
        raise QueueingError(f"reference station {reference}", "is never visited",
                            "name a station that every cycle passes")
    alpha = np.divide(by_class, total[:, None], out=np.zeros_like(by_class),
                      where=total[:, None] > 0)
    service = (alpha * np.asarray(service_s, dtype=np.float64)).sum(axis=1)
    return ChainParameters(visits=total / scale, service_s=service, alpha=alpha)
