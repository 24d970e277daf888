"""Lookup of cells over wires by heuristic, clients and load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from analysis.cells import Cells
from studies.authenticast1998.factors import WIRED

#: Levels of heuristic, clients and load.
Ids = tuple[str, str, str]
_Value = TypeVar("_Value")


def wired_cell(cells: Cells, ids: Ids) -> tuple[str, ...]:
    """Return a cell's levels. Results older than the choice of policies have three of them."""
    return (*ids, *WIRED)[:len(cells.results.names)]


def only_wired(values: Mapping[tuple[str, ...], _Value]) -> dict[tuple[str, ...], _Value]:
    """Select the values of cells over wires, by metric and the three levels."""
    return {key[:4]: value for key, value in values.items() if key[4:] in ((), WIRED)}
