"""The smallest change of a single weight that swaps the ranks of two policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.protection.design import Design
from policies.weights import Feature


@dataclass(frozen=True)
class Swap:
    """A change of one weight at which two policies have equal sigmas.

    The weight changes from `before` to `after`. Beyond `after` the policies swap their ranks.
    """

    above: str
    below: str
    implementation: str
    feature: Feature
    before: float
    after: float

    @property
    def change(self) -> float:
        """Return the change of the weight as a share of its value."""
        return abs(self.after - self.before) / self.before


def smallest_swap(design: Design, above: int, below: int) -> Swap | None:
    """Return the smallest change of one weight that swaps two policies, or None.

    Changes are compared as shares of the weight. Weights cannot become negative. `above` and
    `below` are indices of policies. The result is None where no change of a single weight is
    sufficient.
    """
    swaps = [swap for part in range(len(design.parts))
             for swap in _find_swaps(design, above, below, part)]
    return min(swaps, key=lambda swap: swap.change, default=None)


def _find_swaps(design: Design, above: int, below: int, part: int) -> Iterator[Swap]:
    """Yield the changes of one weight that swap two policies.

    Between the other weights of the same feature, sigma is linear in the weight.
    """
    if design.has[above, part] == design.has[below, part] and \
            design.parts[part][1] not in design.once:
        return
    points = _break_points(design, above, below, part)
    sets = np.repeat(design.weights[np.newaxis], points.size, axis=0)
    sets[:, part] = points
    sigmas = design.compute_sigmas(sets)
    gaps = sigmas[:, above] - sigmas[:, below]
    for (x, y), (gap, next_gap) in zip(pairwise(points), pairwise(gaps), strict=True):
        # Equal sigmas alone are no swap: on one side of the change the weaker policy must be ahead.
        if not min(gap, next_gap) < 0 <= max(gap, next_gap):
            continue
        after = x + (y - x) * gap / (gap - next_gap)
        yield Swap(design.policies[above], design.policies[below], *design.parts[part],
                   float(design.weights[part]), float(after))


def _break_points(design: Design, above: int, below: int, part: int) -> np.ndarray[
        tuple[int], np.dtype[np.float64]]:
    """Return the values of a weight between which sigmas are linear.

    The last value is beyond any swap.
    """
    feature = design.parts[part][1]
    rivals = [design.weights[index] for index, (_, of_part) in enumerate(design.parts)
              if of_part == feature and of_part in design.once]
    sigma = design.compute_sigmas(design.weights[np.newaxis])[0]
    beyond = max([*rivals, design.weights[part]]) + abs(sigma[above] - sigma[below]) + 1
    return np.unique(np.array([0.0, *rivals, design.weights[part], beyond]))
