"""Figures 4 to 6 and 9 to 11: measured, modelled and printed values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.cells import Cells
from analysis.numbers import to_quantity
from analysis.present import figures as drawing
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure, Panel
from analysis.table import Quantity
from studies.kerberos2002 import model
from studies.kerberos2002.body import RESPONSE
from studies.kerberos2002.design import (
    BY_SPEED,
    FIG_5,
    FIG_6,
    FIG_6_SPEEDS,
    FIG_10_SPEEDS,
    FIG_11_SPEEDS,
    LOADED,
    cell_ids,
)
from studies.kerberos2002.model import Transaction
from studies.kerberos2002.published import PublishedValues
from studies.kerberos2002.report.paper_tables import measured_loads
from studies.kerberos2002.variants import VARIANTS

_MANY = (*range(1, 21), 24, 28, 32, 40)
_X, _R = Axis("throughput", "/s"), Axis("response time", "s")


def all_figures(cells: Cells, paper: PublishedValues) -> Iterator[Figure]:
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
                        "Response time by throughput as customers are added, 10 Mbit/s, one "
                        "server; the "
                        "model has a lone customer's service times.", panels)


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
                        "Response time by throughput, modelled from records. The paper's figure is "
                        "the "
                        "first: PKTAPP's capacity falls only where servers share a machine (I7). "
                        "By the "
                        "text, PKTAPP is better for one server and PKCROSS more stable for more "
                        "than "
                        "two, whatever their number; the remote KDC saturates first, the local one "
                        "next, and the application server never.", panels)


def _figure_6(cells: Cells, paper: PublishedValues) -> Figure | None:
    panels = []
    for speed in FIG_6_SPEEDS:
        series = [_curve_series(f"{VARIANTS[protocol].title}, {count}", asked)
                  for protocol, counts in FIG_6.items() for count in counts
                  if (asked := model.transaction_of(cells, cell_ids(
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
                        'Response time of a lone customer; published at 2G: "about 20" and "just '
                        'above '
                        '14" seconds; at 3G: the client without the proxy, as measured, and the '
                        '"more '
                        'than 2 seconds" that the proxy adds.', panels)


def _printed_series(cells: Cells, wire: str, paper: PublishedValues) -> Iterator[Series]:
    """Yield the text's values for a panel of Figure 10, at its highest speed-up."""
    said, speed = paper.figure_10_s, FIG_10_SPEEDS[-1]
    marks = {"m-standard": said["2g_without"], "mp-assist": said["2g_assist"]}
    if wire == "3g":
        alone = model.mean_of(cells, RESPONSE.name,
                              cell_ids("m-client-key", wire=wire, speed=speed))
        marks = {"mp-assist": alone + said["3g_penalty"]} if alone else {}
    for name, took_s in marks.items():
        yield Series(VARIANTS[name].title, [(float(speed), Quantity(took_s))], "published")


def _figure_11(cells: Cells) -> Figure | None:
    series = []
    for protocol in BY_SPEED[1:]:
        for speed in FIG_11_SPEEDS:
            asked = model.transaction_of(cells, cell_ids(protocol, wire="2g", speed=speed))
            if not asked:
                continue
            series.append(_wide_curve(f"{VARIANTS[protocol].title}, {speed}", asked))
            if protocol == "mp-assist" and speed == FIG_11_SPEEDS[0]:
                slower = asked.with_faster_processors(30 / FIG_11_SPEEDS[0], "proxy")
                series.append(_wide_curve(f"{VARIANTS[protocol].title}, {speed}, proxy 30", slower))
    return _make_figure("11", "Figure 11: throughput at 9600 bit/s",
                        "Response time by throughput, modelled from records at these speed-ups. By "
                        "the "
                        "text, curves are long, flat, and have a sharp knee where the KDC "
                        "saturates, at "
                        "the same place with and without a proxy; a proxy of 30 beside a KDC of 50 "
                        "makes no noticeable difference, and a KDC of 100 more than doubles the "
                        "throughput.",
                        [drawing.line_panel("", series, _X, _R)] if series else [])


def _wide_curve(name: str, demands: Transaction) -> Series:
    """Return a curve up to twice the number of customers that saturates the bottleneck."""
    _, lone_s = demands.mean_performance(1)
    knee = max(2, round(lone_s * demands.capacity_per_s))
    counts = sorted({max(1, round(knee * share / 10)) for share in range(1, 21)})
    return Series(name, [(rate, Quantity(response))
                         for rate, response in model.response_curve(demands, counts)], "modelled")
