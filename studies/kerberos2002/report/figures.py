"""Draw the figures of the 2002 paper on Kerberos with measured and modelled values.

`build_figures` yields Figures 4 to 6 and 9 to 11, and `build_figure_b1` draws Figure B.1. Input are
the measured values of a run. Further functions compare PKCROSS and PKTAPP by number of servers,
round-trip time and key length: two tables (computed, measured) and a figure. The paper is Harbitter
and Menascé (2002). `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.cells import Cells, Ids
from analysis.present import figures as drawing
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure, Panel
from analysis.reporting.table_entries import exact_entry, to_quantity
from analysis.table import Column, Entry, Quantity, Table
from studies.kerberos2002 import model
from studies.kerberos2002.cells import (
    BY_SPEED,
    FIG_5,
    FIG_6,
    FIG_6_SPEEDS,
    FIG_10_SPEEDS,
    FIG_11_SPEEDS,
    LOADED,
    TURNING_SERVERS,
    TURNING_WIRES,
    WIRES,
    cell_ids,
    today_cell_ids,
)
from studies.kerberos2002.measurements import RESPONSE
from studies.kerberos2002.model import Transaction
from studies.kerberos2002.published import PublishedValues
from studies.kerberos2002.report.tables import measured_loads
from studies.kerberos2002.variants import VARIANTS

_MANY = (*range(1, 21), 24, 28, 32, 40)
_X, _R = Axis("throughput", "/s"), Axis("response time", "s")


def build_figures(cells: Cells, paper: PublishedValues) -> Iterator[Figure]:
    """Yield the figures for which there are measurements."""
    for figure in (_figure_4_9(cells), _figure_5(cells), _figure_6(cells, paper),
                   _figure_10(cells, paper), _figure_11(cells)):
        if figure is not None:
            yield figure


def _make_figure(name: str, title: str, caption: str, panels: Sequence[Panel]) -> Figure | None:
    return Figure(f"fig-paper-{name}", title, caption, f"{caption} The tables have the numbers.",
                  tuple(panels)) if panels else None


def _curve_series(name: str, demands: Transaction) -> Series:
    return Series(name, [(rate, Quantity(response))
                         for rate, response in model.response_curve(demands, _MANY)], "modelled")


def _figure_4_9(cells: Cells) -> Figure | None:
    panels = []
    for protocol in LOADED:
        alone = model.transaction_of(cells, cell_ids(protocol))
        points = [(load.throughput.estimate.mean, to_quantity(load.response.estimate))
                  for load in measured_loads(cells) if load.protocol == protocol]
        if alone and points:
            panels.append(drawing.line_panel(VARIANTS[protocol].title, [
                Series("", points), _curve_series("", alone)], _X, _R))
    return _make_figure("4-9", "Figures 4 and 9: the model against the test bed",
                        "Response time by throughput as users are added, 10 Mbit/s, one server. "
                        "The model uses the service times of a single user.", panels)


def _figure_5(cells: Cells) -> Figure | None:
    panels = []
    for placement, title in (("one", "all servers on one machine"),
                             ("each", "a machine for each server")):
        series = []
        for protocol, counts in FIG_5.items():
            for count in counts:
                if placement == "each" and count not in (1, 4):
                    continue
                at = "one" if count == 1 else placement
                asked = model.transaction_of(cells, cell_ids(protocol, servers=count, placement=at))
                if asked:
                    series.append(_curve_series(f"{VARIANTS[protocol].title}, {count}", asked))
        if series:
            panels.append(drawing.line_panel(title, series, _X, _R))
    return _make_figure("5", "Figure 5: PKCROSS and PKTAPP by the number of servers",
                        "Response time by throughput, by the queueing model. The first panel is "
                        "the paper's figure: PKTAPP's capacity falls only where servers share a "
                        "machine (I7). According to the text, PKTAPP is better for one server, "
                        "and PKCROSS is more stable for more than two. The remote KDC saturates "
                        "first, the local one next, and the application server never.", panels)


def _figure_6(cells: Cells, paper: PublishedValues) -> Figure | None:
    panels = []
    for speed in FIG_6_SPEEDS:
        series = [_curve_series(f"{VARIANTS[protocol].title}, {count}", transaction)
                  for protocol, counts in FIG_6.items() for count in counts
                  if (transaction := model.transaction_of(cells, cell_ids(
                      protocol, servers=count, wire="slow", speed=speed)))]
        if series:
            panels.append(drawing.mark_panel(
                drawing.line_panel(f"servers {speed} times as fast", series, _X, _R),
                paper.stable_below_per_s, "stable below, by the text"))
    return _make_figure("6", "Figure 6: faster servers, slow Internet",
                        "As Figure 5, the remote realm behind 12,750 bytes/s and 80.5 ms; servers "
                        "on "
                        "one machine. By the text, both protocols are close for one and two "
                        "servers and "
                        f"stable below {paper.stable_below_per_s:g}/s (dotted), until the local "
                        "KDC "
                        "saturates.", panels)


def _figure_10(cells: Cells, paper: PublishedValues) -> Figure | None:
    panels = []
    for wire, title in (("2g", "9600 bit/s, 520 ms"), ("3g", "384 kbit/s, 100 ms")):
        series = []
        for protocol in BY_SPEED:
            points = [(float(speed), to_quantity(value.estimate)) for speed in FIG_10_SPEEDS
                      if (value := cells.find_value(RESPONSE.name, cell_ids(
                          protocol, wire=wire, speed=speed)))]
            if points:
                series.append(Series(VARIANTS[protocol].title, points))
        if series:
            series += _printed_series(cells, wire, paper)
            panels.append(drawing.line_panel(title, series, Axis("speed-up of servers"), _R))
    return _make_figure("10", "Figure 10: wireless networks and faster servers",
                        'Response time of a single user. Published at 2G: "about 20" and "just '
                        'above 14" seconds. Published at 3G: the measured time without the proxy, '
                        'plus the "more than 2 seconds" that the proxy adds.', panels)


def _printed_series(cells: Cells, wire: str, paper: PublishedValues) -> Iterator[Series]:
    """Yield values of the paper's text for a panel of Figure 10, at its highest speed-up."""
    printed, speed = paper.figure_10_s, FIG_10_SPEEDS[-1]
    marks = {"m-standard": printed["2g_without"], "mp-assist": printed["2g_assist"]}
    if wire == "3g":
        alone = model.mean_of(cells, RESPONSE.name,
                              cell_ids("m-client-key", wire=wire, speed=speed))
        marks = {"mp-assist": alone + printed["3g_penalty"]} if alone else {}
    for name, took_s in marks.items():
        yield Series(VARIANTS[name].title, [(float(speed), Quantity(took_s))], "published")


def _figure_11(cells: Cells) -> Figure | None:
    series = []
    for protocol in BY_SPEED[1:]:
        for speed in FIG_11_SPEEDS:
            transaction = model.transaction_of(cells, cell_ids(protocol, wire="2g", speed=speed))
            if not transaction:
                continue
            series.append(_wide_curve(f"{VARIANTS[protocol].title}, {speed}", transaction))
            if protocol == "mp-assist" and speed == FIG_11_SPEEDS[0]:
                slower = transaction.with_faster_processors(30 / FIG_11_SPEEDS[0], "proxy")
                series.append(_wide_curve(f"{VARIANTS[protocol].title}, {speed}, proxy 30", slower))
    return _make_figure("11", "Figure 11: throughput at 9600 bit/s",
                        "Response time by throughput, by the queueing model at these speed-ups. "
                        "According to the text, curves are long and flat, with a sharp knee where "
                        "the KDC saturates, at the same place with and without a proxy. A proxy "
                        "of speed 30 with a KDC of 50 makes no noticeable difference, and a KDC "
                        "of 100 more than doubles the throughput.",
                        [drawing.line_panel("", series, _X, _R)] if series else [])


def _wide_curve(name: str, demands: Transaction) -> Series:
    """Return response time over throughput, up to twice the users that saturate the bottleneck."""
    _, lone_s = demands.mean_performance(1)
    knee = max(2, round(lone_s * demands.capacity_per_s))
    counts = sorted({max(1, round(knee * share / 10)) for share in range(1, 21)})
    return Series(name, [(rate, Quantity(response))
                         for rate, response in model.response_curve(demands, counts)], "modelled")


# --- Surface of I7 with its tables, and the drawing of Figure B.1 ---

_DELAY = "wires and client"
#: Exchanges of a transaction in order. A proxied exchange comes before the one that it requests.
_ORDER = ("AS-REQ", "TGS-REQ", "AP-REQ")


def build_computed_table(points: Sequence[model.SurfacePoint]) -> Table:
    """Build the table that compares PKCROSS and PKTAPP by servers, round-trip time and key."""
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
        Column("pkcross_s", "PKCROSS", "s", digits=3, group="a single client"),
        Column("pktapp_s", "PKTAPP", "s", digits=3, group="a single client"),
        Column("charged_s", "PKTAPP, client charged", "s", digits=3, group="a single client"),
        Column("quicker", "faster"),
        Column("pkcross_per_s", "PKCROSS", "/s", digits=2, group="capacity"),
        Column("one_per_s", "PKTAPP, one machine", "/s", digits=2, group="capacity"),
        Column("each_per_s", "PKTAPP, a machine each", "/s", digits=2, group="capacity"),
        Column("bears", "higher capacity, a machine each")), tuple(rows),
        "Computed from the operations and round trips that the protocols define, on "
        f"{model.SURFACE_DEVICE}. "
        "Nothing else takes time. The round-trip time is that to the remote realm. By default "
        "the client is the paper's, which takes no time.")


def build_measured_table(cells: Cells) -> Table:
    """Build the table of measurements of PKCROSS and PKTAPP with today's cipher suite."""
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
        Column("pkcross_s", "PKCROSS", "s", digits=3, group="a single client"),
        Column("pktapp_s", "PKTAPP", "s", digits=3, group="a single client"),
        Column("quicker", "faster"),
        Column("pkcross_per_s", "PKCROSS", "/s", digits=2, group="capacity"),
        Column("pktapp_per_s", "PKTAPP", "/s", digits=2, group="capacity"),
        Column("bears", "higher capacity")), tuple(rows),
        f"Suite today on {model.SURFACE_DEVICE}, each server on a machine of its own. The client "
        "takes no time. Capacities come from the processor times in the records.",
        clock=cells.results.clock)


def _measured_point(cells: Cells, cell: Ids) -> tuple[float, float] | None:
    """Return a single user's response time (s) and the capacity (logins/s)."""
    took_s = model.mean_of(cells, RESPONSE.name, cell)
    transaction = model.transaction_of(cells, cell)
    return None if took_s is None or transaction is None else (took_s, transaction.capacity_per_s)


def build_surface_figure(points: Sequence[model.SurfacePoint]) -> Figure:
    """Draw PKTAPP's time relative to PKCROSS's by servers, with a line per round-trip time."""
    panels = []
    for key in model.SURFACE_KEY_BITS:
        series = []
        for round_trip_s in model.ROUND_TRIPS_S:
            line = [(float(point.servers), Quantity(point.pktapp_s / point.pkcross_s))
                    for point in points
                    if (point.key, point.round_trip_s) == (key, round_trip_s)]
            series.append(Series(f"{1e3 * round_trip_s:g} ms", line, "modelled"))
        panels.append(drawing.line_panel(key, series, Axis("servers"), Axis("PKTAPP / PKCROSS")))
    return Figure("fig-surface", "I7: where PKCROSS becomes faster",
                  "Ratio of a single client's time by PKTAPP to that by PKCROSS. Above 1, PKCROSS "
                  "is faster. Computed from operations and round trips.",
                  "PKTAPP's time over PKCROSS's by servers and round trip; the table has the "
                  "numbers.", tuple(panels))


def build_figure_b1(cells: Cells) -> Figure | None:
    """Draw the path of a login through all nodes, with the CPU time of each request."""
    transaction = model.transaction_of(cells, cell_ids("mp-assist", wire="3g", speed=50))
    if transaction is None:
        return None
    def when(visit: tuple[str, str]) -> tuple[int, bool]:
        _, name = visit
        return (next(place for place, kind in enumerate(_ORDER) if name.endswith(kind)),
                not name.startswith("proxied"))

    stops = [(_DELAY, "under way", 1.0, transaction.delay_s)]
    for party, name in sorted(transaction.visits, key=when):
        count, each_s = transaction.visits[party, name]
        stops.append((party, name, count, each_s))
    panel = drawing.route_panel("", [
        (station, f"{name}<br>v {count:g}, s {1e3 * each_s:.1f} ms")
        for station, name, count, each_s in [*stops, stops[0]]])
    return Figure("fig-paper-b1", "Figure B.1: a transaction as the model's input",
                  "The customer of MP-PKINIT with an assisting proxy (3G, speed-up 50) switches "
                  "its class at each station: visits a transaction v_ir, service times s_ir.",
                  "The customer's way through stations and classes; the table has the numbers.",
                  (panel,))
