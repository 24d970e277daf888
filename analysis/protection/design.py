"""Sigma of several policies for many sets of weights at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies import Policy, Weights
from policies.weights import Feature

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """The weights of each policy as arrays.

    `parts` are the implementation and the feature of each weight. `weights` are the values, shape
    (parts,). `has` tells which policy has which weight, shape (policies, parts). `once` are the
    features of which only the strongest weight counts.
    """

    policies: tuple[str, ...]
    parts: tuple[tuple[str, Feature], ...]
    weights: _Floats
    has: NDArray[np.bool_]
    once: frozenset[Feature]

    @classmethod
    def from_policies(cls, policies: Sequence[Policy], weights: Weights) -> Design:
        """Return the design of policies, with the weights that at least one of them has."""
        having = [weights.implementations_of(policy) for policy in policies]
        used = {key for keys in having for key in keys}
        parts = tuple((key, feature) for key, implementation in weights.implementations.items()
                      if key in used
                      for feature, weight in implementation.weights.items() if weight > 0)
        values = [weights.implementations[key].weights[feature] for key, feature in parts]
        has = np.array([[key in keys for key, _ in parts] for keys in having], dtype=np.bool_)
        return cls(tuple(policy.id for policy in policies), parts,
                   np.array(values, dtype=np.float64), has.reshape(len(having), len(parts)),
                   frozenset(weights.once))

    def compute_sigmas(self, weights: _Floats) -> _Floats:
        """Return sigma under each set of weights.

        The shape changes from (sets, parts) to (sets, policies).
        """
        single = np.array([feature in self.once for _, feature in self.parts], dtype=np.bool_)
        sums = weights @ (self.has & ~single).T.astype(np.float64)
        for columns in self.by_feature():
            if not single[columns[0]]:
                continue
            for row, has in enumerate(self.has[:, columns]):
                if has.any():
                    sums[:, row] += weights[:, columns[has]].max(axis=1)
        return np.asarray(sums)

    def by_feature(self) -> Iterator[NDArray[np.intp]]:
        """Yield the indices of the weights of each feature."""
        for feature in dict.fromkeys(feature for _, feature in self.parts):
            yield np.array([index for index, (_, of_part) in enumerate(self.parts)
                            if of_part == feature], dtype=np.intp)
