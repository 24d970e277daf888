"""Samples of authentications in a cell or in one repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.cells import Cells, Ids, Observation
from analysis.statistics import mean
from studies.eapload2004.metrics import SERVICES


def service_times(cells: Cells, row: Ids) -> Observation | None:
    """Return a cell's service times, or None without any.

    Each authentication is a block of its own.
    """
    values = [float(value) for place in cells.good_rows(row)
              for value in cells.results.samples[place][SERVICES.name]]
    if not values:
        return None
    return Observation(mean(values), dict(enumerate(values)), cells.record_names(row))


def first_samples(cells: Cells, row: Ids) -> Mapping[str, Sequence[float]]:
    """Return all lists of a cell's first good repetition by name, empty without one."""
    rows = cells.good_rows(row)
    return cells.results.samples[rows[0]] if rows else {}
