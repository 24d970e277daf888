"""Draw the logins per second of a loaded KDC by number of users, measured and modelled.

`build_figures` takes the measured values of a run of krb5today (logins by MIT krb5). It yields the
figure if there are measurements of a loaded KDC.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells
from analysis.present import figures as drawing
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure
from analysis.reporting.table_entries import to_quantity
from analysis.table import Quantity
from studies.krb5today.cells import CUSTOMERS
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.krb5today.model import measured_demand, measured_loads


def build_figures(cells: Cells) -> Iterator[Figure]:
    """Yield the figures that have measured values."""
    series = []
    for name in LOADED:
        points = [(float(load.customers), to_quantity(load.rate.estimate)) for load
                  in measured_loads(cells)
                  if load.mechanism == name]
        demand = measured_demand(cells, name)
        if points and demand:
            title = MECHANISMS[name].title
            series += [Series(title, points), Series(title, [
                (float(count), Quantity(demand.login_rate(count))) for count in CUSTOMERS],
                                                     "modelled")]
    if series:
        yield Figure("fig-kdc", "A KDC under load",
                     "Logins per second by the number of users who log in again and again. "
                     "Dashed: exact mean-value analysis (MVA) with the inputs of a single user.",
                     "Logins per second by number of users, measured and modelled. The tables "
                     "have the numbers.", (drawing.line_panel("", series, Axis("customers"),
                                               Axis("logins", "/s")),))
