"""Class switching: visit ratios from a routing matrix, and aggregation of classes to chains.

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
    """Return the visit ratios (M, R) of one closed chain.

    The function solves the traffic equations v = v P with v = 1 at the reference. See Lazowska et
    al. (1984), 7.4; Bruell and Balbo (1980).

    Args:
        routing: Shape (M, R, M, R): the probability that a customer who leaves station i as class r
            joins station j as class s.
        reference: A (station, class) pair that every customer returns to. One visit to it is a
            cycle.

    Raises:
        QueueingError: A row is not a set of probabilities, or customers do not return to the
            reference.
    """
    matrix = np.asarray(routing, dtype=np.float64)
    stations, classes = matrix.shape[:2]
    size = stations * classes
    if matrix.shape != (stations, classes, stations, classes):
        raise QueueingError("routing", f"has the shape {matrix.shape}", "give (M, R, M, R)")
    flat = matrix.reshape(size, size)
    home = reference[0] * classes + reference[1]
    used = _find_reachable(flat, home)
    sums = flat.sum(axis=1)
    if (flat < 0).any() or not np.allclose(sums[used], 1, atol=1e-9):
        raise QueueingError("routing", "a row is not a set of probabilities",
                            "make each row that customers reach add up to 1")
    if not all(_find_reachable(flat, int(start))[home] for start in np.flatnonzero(used)):
        raise QueueingError("routing", "customers do not return to the reference",
                            "name a (station, class) that every cycle passes")
    # Solve v = v P without the column of the reference, where v is 1.
    others = np.flatnonzero(used & (np.arange(size) != home))
    ratios = np.zeros(size)
    ratios[home] = 1.0
    ratios[others] = np.linalg.solve(np.eye(others.size) - flat[np.ix_(others, others)].T,
                                     flat[home, others])
    return ratios.reshape(stations, classes)


def _find_reachable(flat: Array, start: int) -> NDArray[np.bool_]:
    """Return which states are reachable from a state, including that state."""
    seen = np.zeros(flat.shape[0], dtype=np.bool_)
    seen[start] = True
    while True:
        further = seen | (flat[seen] > 0).any(axis=0)
        if (further == seen).all():
            return seen
        seen = further


@dataclass(frozen=True)
class ChainParameters:
    """A chain as a single class, as equations (B.1) to (B.5) need it.

    Shapes are (M,), for alpha (M, R).
    """

    visits: Array
    service_s: Array
    alpha: Array


def aggregate_classes(visits: ArrayLike, service_s: ArrayLike, reference: int | None = None,
                      ) -> ChainParameters:
    """Return a chain's visit ratios and service times from those of its classes.

    With `reference` this is (B.6) as printed: v_iq = sum_r v_ir / sum_r v_0r. Throughput then
    counts visits to that station. Without a reference, visits are per cycle already. The shares
    alpha_ir = v_ir / sum_s v_is are (B.7). The service time is s_iq = sum_r alpha_ir s_ir.

    Args:
        visits: Visit ratios of the classes, shape (M, R).
        service_s: Mean service times of the classes in seconds, shape (M, R).
        reference: The reference station's row.

    Raises:
        QueueingError: No class visits the reference.
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
