"""Cells over wires are found by heuristic, clients and load, which figures and claims are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from analysis.cells import Cells
from studies.authenticast1998.factors import WIRED

#: Heuristic, clients and load.
Ids = tuple[str, str, str]
_Value = TypeVar("_Value")


def cell(cells: Cells, ids: Ids) -> tuple[str, ...]:
    """The ids of all its levels; folders of before there was a choice of policies have three."""
    return (*ids, *WIRED)[:len(cells.results.names)]


def only(values: Mapping[tuple[str, ...], _Value]) -> dict[tuple[str, ...], _Value]:
    """Of values by metric and cell those over wires, by metric, heuristic, clients and load."""
    return {key[:4]: value for key, value in values.items() if key[4:] in ((), WIRED)}
