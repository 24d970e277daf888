"""Comparisons beyond 1998: all controllers, the best static setting and the clairvoyant bound.

Further tables compare the rate of tree chaining with that of signing each packet, and show how
fairly a server signs.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells, Observation
from analysis.numbers import observation_entry, value_entry
from analysis.table import Column, Entry, Quantity, Table
from studies.authenticast1998.factors import (
    BESIDE,
    DISTURBANCES,
    FLOODED,
    HEURISTICS,
    RATES,
    SHARED,
)
from studies.authenticast1998.metrics import DELAY_P99, EXPOSURE, LEVEL, RETENTION, SENT
from studies.authenticast1998.report import against, bound, wired

_SHOWN = (RETENTION, LEVEL, EXPOSURE, DELAY_P99)
_COMPARED = ("idle", "half", "most", "loss", "flood")
_VERIFIED = "verified_share"
_NOTES = (
    ("Retention never stands alone: a level that was given up is no success. Verified of sent is "
     "both in one: the share of all packets that were verified and used."),
    ("Clairvoyant: what could have been verified and used by whoever knows arrivals, load and "
     "forgeries in advance, within the delay bound; a fluid, so no setting reaches it quite."))


def all_tables(cells: Cells) -> Iterator[Table]:
    """Yield the tables whose cells were measured."""
    for made in (*(_comparison_table(cells, load) for load in _COMPARED),
                 against.difference_table(cells, (*BESIDE, *FLOODED), _COMPARED),
                 _rate_table(cells), _fairness_table(cells)):
        if made is not None:
            yield made


def _comparison_table(cells: Cells, load: str) -> Table | None:
    at_most = _bound_entry(cells, load)
    rows = []
    for heuristic in FLOODED if load == "flood" else BESIDE:
        ids = wired.wired_cell(cells, (heuristic, "1", load))
        if ids in cells.results.cells and isinstance(cells.value(RETENTION.name, ids), Observation):
            rows.append((Entry(heuristic, note=HEURISTICS[heuristic].title),
                         *(value_entry(cells.value(metric.name, ids)) for metric in _SHOWN),
                         observation_entry(cells.mean_of_any(_VERIFIED, ids)), at_most))
    if len(rows) < 2:
        return None
    columns = (Column("heuristic", "Heuristic"), *(
        Column(metric.name, metric.sentence, metric.unit, metric.scale, metric.digits)
        for metric in _SHOWN), Column(_VERIFIED, "Verified of sent", "%", 100.0, 1),
        Column("clairvoyant_share", "Clairvoyant", "%", 100.0, 1))
    return Table(f"beside-{load}", f"One client; {DISTURBANCES[load].title}", columns, tuple(rows),
                 "Schemes and controllers of 1998 and later, side by side.", _NOTES)


def _bound_entry(cells: Cells, load: str) -> Entry:
    """Return the clairvoyant bound at the server's sending rate (a dash if unknown)."""
    heuristics = (*BESIDE, *(heuristic for heuristic, _ in RATES))
    rates = [observation.estimate.mean for heuristic in heuristics if (
        observation := cells.mean_of_any(SENT.name,
                                         wired.wired_cell(cells, (heuristic, "1", load))))]
    manifest = cells.results.manifest
    if manifest is None or not rates or (
            manifest.asked.get("video") and not DISTURBANCES[load].rate_pps):
        return Entry("-")  # A results folder does not state how long a user's video lasts.
    asked = manifest.asked
    work = manifest.devices[asked["client_device"]]["work"]
    share = bound.verified_at_most(DISTURBANCES[load], asked,
                                   bound.receiver_capacity(asked, work, max(rates)))
    return Entry(number=Quantity(share))


def _rate_table(cells: Cells) -> Table | None:
    """Compare the rates that a receiver verifies with tree chaining and with single signatures."""
    names = ("verified_pps", RETENTION.name, SENT.name, DELAY_P99.name)
    rows, first = [], None
    for heuristic, load in RATES:
        ids = wired.wired_cell(cells, (heuristic, "1", load))
        values = [cells.mean_of_any(name, ids) for name in names]
        if values[0] is None:
            continue
        first = first or values[0].estimate.mean
        rows.append((Entry(heuristic, note=HEURISTICS[heuristic].title),
                     *(observation_entry(value) for value in values),
                     _bound_entry(cells, load),
                     Entry(number=Quantity(values[0].estimate.mean / first))))
    if len(rows) < 2:
        return None
    columns = (Column("heuristic", "Heuristic"),
               Column("verified_pps", "Verified", "1/s", digits=1),
               Column(RETENTION.name, RETENTION.sentence, "%", 100.0, 1),
               Column(SENT.name, "Sent", "1/s", digits=1),
               Column(DELAY_P99.name, DELAY_P99.sentence, "ms", 1e3, 0),
               Column("clairvoyant_share", "Clairvoyant", "%", 100.0, 1),
               Column("times", "Times the first", digits=1))
    return Table("rates", "The rate of trees against signing each packet, at 2 % loss", columns,
                 tuple(rows), "One client, one device. The first row is what the receiver can "
                 "sustain packet by packet; the second asks the same of it at the trees' rate.",
                 ("All of a tree's packets can be verified alone, so that a lost one costs itself.",
                  ))


def _fairness_table(cells: Cells) -> Table | None:
    """Compare the rates of the clients of a server that cannot sign for all."""
    names = ("first_sent_pps", "others_sent_pps", "worst_sent_pps", "fairness_share")
    rows = []
    for load in ("idle", "weighted"):
        values = [cells.mean_of_any(name, wired.wired_cell(cells, (*SHARED, load))) for name
                  in names]
        if values[0] is not None:
            rows.append((Entry(DISTURBANCES[load].title), *map(observation_entry, values),
                         *_fair_bounds(cells, load)))
    if not rows:
        return None
    columns = (Column("load", "Load"), Column("first_sent_pps", "First client", "1/s", digits=1),
               Column("others_sent_pps", "Others, mean", "1/s", digits=1),
               Column("worst_sent_pps", "Worst of all", "1/s", digits=1),
               Column("fairness_share", "Jain's index", digits=3),
               Column("first_at_most_pps", "First, max-min", "1/s", digits=1),
               Column("others_at_most_pps", "Others, max-min", "1/s", digits=1))
    return Table("fair-signing", "Fair signing: 5 clients of a server that cannot sign for all",
                 columns, tuple(rows), "Packets signed and sent a second; each video asks for 117. "
                 "Max-min fair shares are of all that the server's processors can sign.",
                 ("Jain's index of the rates is 1 where all are alike: without weights.",))


def _fair_bounds(cells: Cells, load: str) -> tuple[Entry, Entry]:
    """Return the max-min fair rates of the first client and of each other one."""
    manifest = cells.results.manifest
    if manifest is None or manifest.asked.get("video"):
        return Entry("-"), Entry("-")
    weights = [DISTURBANCES[load].weight, *(1.0 for _ in range(int(SHARED[1]) - 1))]
    demand_pps = bound.demand_pps(manifest.asked)
    shares = bound.max_min_shares(bound.signed_pps(
        manifest.asked, manifest.devices[manifest.asked["server_device"]]),
        [demand_pps] * len(weights), weights)
    return Entry(number=Quantity(shares[0])), Entry(number=Quantity(shares[1]))
