"""Samples of authentications: every one of a cell's counts; or the lists of one repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.cells import Cells, Ids, Observation
from analysis.statistics import mean
from studies.eapload2004.metrics import SERVICES


def of_services(cells: Cells, row: Ids) -> Observation | None:
    """A cell's service times, each authentication a block of its own; None without any."""
    values = [float(value) for place in cells.rows(row)
              for value in cells.results.samples[place][SERVICES.name]]
    if not values:
        return None
    return Observation(mean(values), dict(enumerate(values)), cells.records(row))


def of_first(cells: Cells, row: Ids) -> Mapping[str, Sequence[float]]:
    """All lists of a cell's first good repetition, by name; none where there is no such one."""
    rows = cells.rows(row)
    return cells.results.samples[rows[0]] if rows else {}
