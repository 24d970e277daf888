"""Table and figure of the surface of I7, and the drawing of Figure B.1."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cells import Cells, Ids
from analysis.numbers import exact_entry
from analysis.present import figures as drawing
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure
from analysis.table import Column, Entry, Quantity, Table
from studies.kerberos2002 import model, surface
from studies.kerberos2002.body import RESPONSE
from studies.kerberos2002.design import (
    TURNING_SERVERS,
    TURNING_WIRES,
    WIRES,
    cell_ids,
    today_cell_ids,
)

_DELAY = "wires and client"
#: Exchanges of a transaction in order. A proxied exchange comes before the one that it requests.
_ORDER = ("AS-REQ", "TGS-REQ", "AP-REQ")


def computed_table(points: Sequence[surface.SurfacePoint]) -> Table:
    """Build the table of times and capacities by servers, round trip and key."""
    rows = []
    for point in points:
        better = "PKCROSS" if point.pkcross_s < point.pktapp_s else "PKTAPP"
        one, each = point.pktapp_per_s
        rows.append((Entry(point.key), exact_entry(point.round_trip_s), exact_entry(point.servers),
                     exact_entry(point.pkcross_s), exact_entry(point.pktapp_s),
                     exact_entry(point.charged_s),
                     Entry(better), exact_entry(point.pkcross_per_s), exact_entry(one),
                     exact_entry(each),
                     Entry("PKCROSS" if point.pkcross_per_s > each else "PKTAPP")))
    return Table("table-surface", "I7: PKCROSS and PKTAPP by servers, round trip and keys", (
        Column("key", "Keys"), Column("round_trip_s", "round trip", "ms", 1e3, 0),
        Column("servers", "servers", digits=0),
        Column("pkcross_s", "PKCROSS", "s", digits=3, group="a lone client"),
        Column("pktapp_s", "PKTAPP", "s", digits=3, group="a lone client"),
        Column("charged_s", "PKTAPP, client charged", "s", digits=3, group="a lone client"),
        Column("quicker", "quicker"),
        Column("pkcross_per_s", "PKCROSS", "/s", digits=2, group="at most"),
        Column("one_per_s", "PKTAPP, one machine", "/s", digits=2, group="at most"),
        Column("each_per_s", "PKTAPP, a machine each", "/s", digits=2, group="at most"),
        Column("bears", "bears more, a machine each")), tuple(rows),
        f"Computed: operations and round trips as the protocols define them, on {surface.DEVICE}; "
        "nothing else takes time, and the remote realm is so far away. By default the client is "
        "the paper's, which takes none.")


def measured_table(cells: Cells) -> Table:
    """Build the table of both protocols in today's suite, measured with a machine per server."""
    rows = []
    for wire in TURNING_WIRES:
        for servers in TURNING_SERVERS:
            cross, direct = (_measured_point(cells, today_cell_ids(name, wire, servers))
                             for name in ("pkcross", "pktapp"))
            if cross and direct:
                took_s, per_s = zip(cross, direct, strict=True)
                rows.append((Entry(WIRES[wire]), exact_entry(servers), *map(exact_entry, took_s),
                             Entry("PKCROSS" if took_s[0] < took_s[1] else "PKTAPP"),
                             *map(exact_entry, per_s),
                             Entry("PKCROSS" if per_s[0] > per_s[1] else "PKTAPP")))
    return Table("table-surface-measured", "I7: PKCROSS and PKTAPP as measured, RSA-2048", (
        Column("wire", "Wire"), Column("servers", "servers", digits=0),
        Column("pkcross_s", "PKCROSS", "s", digits=3, group="a lone client"),
        Column("pktapp_s", "PKTAPP", "s", digits=3, group="a lone client"),
        Column("quicker", "quicker"),
        Column("pkcross_per_s", "PKCROSS", "/s", digits=2, group="at most"),
        Column("pktapp_per_s", "PKTAPP", "/s", digits=2, group="at most"),
        Column("bears", "bears more")), tuple(rows),
        f"Suite today on {surface.DEVICE}, each server on a machine of its own; the client takes "
        "no time. What is borne comes from the records' demands.", clock=cells.results.clock)


def _measured_point(cells: Cells, cell: Ids) -> tuple[float, float] | None:
    """Return a single customer's response time (s) and the capacity (transactions/s)."""
    took_s, asked = model.mean_of(cells, RESPONSE.name, cell), model.transaction_of(cells, cell)
    return None if took_s is None or asked is None else (took_s, asked.capacity_per_s)


def surface_figure(points: Sequence[surface.SurfacePoint]) -> Figure:
    """Draw PKTAPP's time relative to PKCROSS's by servers, with a line for each round trip."""
    panels = []
    for key in surface.KEYS:
        series = []
        for round_trip_s in surface.ROUND_TRIPS_S:
            line = [(float(point.servers), Quantity(point.pktapp_s / point.pkcross_s))
                    for point in points
                    if (point.key, point.round_trip_s) == (key, round_trip_s)]
            series.append(Series(f"{1e3 * round_trip_s:g} ms", line, "modelled"))
        panels.append(drawing.line_panel(key, series, Axis("servers"), Axis("PKTAPP / PKCROSS")))
    return Figure("fig-surface", "I7: where PKCROSS becomes the quicker one",
                  "A lone client's time by PKTAPP over that by PKCROSS; above 1, PKCROSS is "
                  "quicker. Computed from operations and round trips.",
                  "PKTAPP's time over PKCROSS's by servers and round trip; the table has the "
                  "numbers.", tuple(panels))


def figure_b1(cells: Cells) -> Figure | None:
    """Draw the transaction's path through the stations, with visits and service time by class."""
    asked = model.transaction_of(cells, cell_ids("mp-assist", wire="3g", speed=50))
    if asked is None:
        return None
    def when(visit: tuple[str, str]) -> tuple[int, bool]:
        _, name = visit
        return (next(place for place, kind in enumerate(_ORDER) if name.endswith(kind)),
                not name.startswith("proxied"))

    stops = [(_DELAY, "under way", 1.0, asked.delay_s)]
    for party, name in sorted(asked.visits, key=when):
        count, each_s = asked.visits[party, name]
        stops.append((party, name, count, each_s))
    panel = drawing.route_panel("", [
        (station, f"{name}<br>v {count:g}, s {1e3 * each_s:.1f} ms")
        for station, name, count, each_s in [*stops, stops[0]]])
    return Figure("fig-paper-b1", "Figure B.1: a transaction as the model's input",
                  "The customer of MP-PKINIT with an assisting proxy (3G, speed-up 50) switches "
                  "its class at each station: visits a transaction v_ir, service times s_ir.",
                  "The customer's way through stations and classes; the table has the numbers.",
                  (panel,))
