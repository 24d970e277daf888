"""Figures of a loaded KDC: measured and modelled rates by number of customers."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells
from analysis.numbers import to_quantity
from analysis.present import figures as drawing
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure
from analysis.table import Quantity
from studies.krb5today.design import CUSTOMERS
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.krb5today.model import measured_demand, measured_loads


def build_figures(cells: Cells) -> Iterator[Figure]:
    """Generate the figures that have measured values."""
    series = []
    for name in LOADED:
        points = [(float(load.customers), to_quantity(load.rate.estimate)) for load
                  in measured_loads(cells)
                  if load.mechanism == name]
        asked = measured_demand(cells, name)
        if points and asked:
            title = MECHANISMS[name].title
            series += [Series(title, points), Series(title, [
                (float(count), Quantity(asked.login_rate(count))) for count in CUSTOMERS],
                                                     "modelled")]
    if series:
        yield Figure("fig-kdc", "A KDC under load",
                     "Logins a second by the number of customers who log in again and again; "
                     "dashed: exact MVA with a lone customer's inputs.",
                     "Logins a second by customers, measured and modelled. The tables have the "
                     "numbers.", (drawing.line_panel("", series, Axis("customers"),
                                               Axis("logins", "/s")),))
