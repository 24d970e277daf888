"""Cells of folders of before there was an air are known by fewer ids: all are over wires."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from analysis.cells import Cells, Ids, Key, Observation, Value
from analysis.results import Results
from studies.adp1987 import design

_WIRED = design.ids("ALL")


class WiredCells(Cells):
    """Cells without a policy and a scenario, under the ids that cells over wires have now."""

    def value(self, name: str, ids: Ids, *, filled: bool = False) -> Value:
        """As of the cell by the factors that there were."""
        return super().value(name, ids[:len(self.results.names)], filled=filled)

    @cached_property
    def observations(self) -> Mapping[Key, Observation]:
        """Under today's ids."""
        return {(key[0], *full(key[1:])): value for key, value in super().observations.items()}


def full(ids: Ids) -> Ids:
    """All ids of a cell, of which a folder may have the first ones."""
    return (*ids, *_WIRED[len(ids):])


def cells(results: Results, baseline: str) -> Cells:
    """The cells of a results folder, whichever factors it has."""
    is_old = len(results.names) < len(design.NAMES)
    return (WiredCells if is_old else Cells)(results, baseline)
