"""The smallest change of a single weight that makes two policies change places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.protection.design import Design
from policies.weights import Feature


@dataclass(frozen=True)
class Swap:
    """At `after` instead of `before`, two policies' sigmas are equal; beyond it they swap."""

    above: str
    below: str
    implementation: str
    feature: Feature
    before: float
    after: float

    @property
    def change(self) -> float:
        """How much the weight moves, as a share of itself."""
        return abs(self.after - self.before) / self.before


def smallest_swap(design: Design, above: int, below: int) -> Swap | None:
    """The weight that has to move least, as a share of itself; None where none alone does it.

    `above` and `below` are indices of policies; weights cannot become negative.
    """
    swaps = [swap for part in range(len(design.parts))
             for swap in _swaps(design, above, below, part)]
    return min(swaps, key=lambda swap: swap.change, default=None)


def _swaps(design: Design, above: int, below: int, part: int) -> Iterator[Swap]:
    """The changes of one weight; sigma is linear in it between the weights it competes with."""
    if design.has[above, part] == design.has[below, part] and \
            design.parts[part][1] not in design.once:
        return
    points = _points(design, above, below, part)
    sets = np.repeat(design.weights[np.newaxis], points.size, axis=0)
    sets[:, part] = points
    sigmas = design.sigmas(sets)
    gaps = sigmas[:, above] - sigmas[:, below]
    for (x, y), (gap, next_gap) in zip(pairwise(points), pairwise(gaps), strict=True):
        # Equal is not swapped: on one side of the change the weaker policy must be ahead.
        if not min(gap, next_gap) < 0 <= max(gap, next_gap):
            continue
        after = x + (y - x) * gap / (gap - next_gap)
        yield Swap(design.policies[above], design.policies[below], *design.parts[part],
                   float(design.weights[part]), float(after))


def _points(design: Design, above: int, below: int, part: int) -> np.ndarray[
        tuple[int], np.dtype[np.float64]]:
    """Values of a weight between which sigmas are linear in it, the last one beyond any swap."""
    feature = design.parts[part][1]
    rivals = [design.weights[index] for index, (_, of_part) in enumerate(design.parts)
              if of_part == feature and of_part in design.once]
    sigma = design.sigmas(design.weights[np.newaxis])[0]
    beyond = max([*rivals, design.weights[part]]) + abs(sigma[above] - sigma[below]) + 1
    return np.unique(np.array([0.0, *rivals, design.weights[part], beyond]))
