"""The supplicant's authentications as samples: every one counts, not only a repetition's mean."""

from __future__ import annotations

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
