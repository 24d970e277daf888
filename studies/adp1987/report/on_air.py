"""Table of the channel under policies on the air, with ratios to no channel."""

from __future__ import annotations

from analysis.blocks import ratio_of_means
from analysis.cells import Cells, Ids
from analysis.numbers import NOTHING, estimate_entry, exact_entry, observation_entry
from analysis.table import Column, Entry, Table
from studies.adp1987 import design
from studies.adp1987.body import ESTABLISHMENT, LATENCY, THROUGHPUT, WIRE_BYTES
from studies.adp1987.report.paper_tables import metric_column
from studies.mobile import NO_POLICY

_METRICS = {THROUGHPUT: "throughput", LATENCY: "latency", ESTABLISHMENT: "establishment",
            WIRE_BYTES: "air bytes a byte"}
_NAMED = ("trace", "policy", "scenario", "protocol", "queue")
_LOST = {"lost_by_handoff": "Lost by the handoff", "lost_otherwise": "otherwise"}
_NOTES = (
    ("Throughput: as fast as the other end counts, after the handoff where there is one, with two "
     "messages of ADP under way, or 16 of UDP. None: a datagram a message, by UDP. Latency: of "
     "urgent messages. Air bytes: of data frames, on every hop, a byte of user data."),
    ("Lost: user messages in datagrams that the capture at the peer has, and the one at the mobile "
     "node has not; by the handoff are those sent between leaving home and the first packet "
     "answered away. The rest found no room at an access point, or no way through the air. While "
     "throughput is measured, a message that is lost holds its sender up for half a second."),
    ("Of none's: means of the same messages under the same policy in the same scenario; intervals "
     "by blocks hold 95 % (Fieller's)."))


def build_table(cells: Cells) -> Table | None:
    """Return a table with one row per cell on the air, None without such cells."""
    rows = [_build_row(cells, ids) for ids in cells.results.cells
            if _levels_of(cells, ids).get("policy", NO_POLICY) != NO_POLICY]
    if not rows:
        return None
    return Table("table-on-air", "The channel over policies on the air", (
        *(Column(name, name.capitalize()) for name in _NAMED), *(
            metric_column(metric, title=title) for metric, title in _METRICS.items()),
        Column("throughput_share", "throughput, of none's", "%", 100, 0),
        *(Column(name, title, "messages", digits=1) for name, title in _LOST.items()),
        Column("handoff_s", "Handoff", "ms", 1e3, 0)), tuple(rows),
        "From a scenario's peer to its mobile node, which moves amid the trace where the scenario "
        "roams.", _NOTES, clock=cells.results.clock)


def _levels_of(cells: Cells, ids: Ids) -> dict[str, str]:
    return dict(zip(cells.results.names, ids, strict=True))


def _build_row(cells: Cells, ids: Ids) -> tuple[Entry, ...]:
    levels = _levels_of(cells, ids)
    named = [Entry(levels[name]) for name in _NAMED]
    further = [observation_entry(cells.mean_of_any(metric.name, ids)) for metric in _METRICS]
    lost = [observation_entry(cells.mean_of_any(name, ids)) for name in (*_LOST, "handoff_s")]
    return (*named, *further, _throughput_share(cells, ids), *lost)


def _throughput_share(cells: Cells, ids: Ids) -> Entry:
    """Return the ratio of throughput to that without protection.

    Both cells have the same policy and scenario.
    """
    levels = _levels_of(cells, ids)
    [beside] = [row for row in design.air_cells(
        levels["trace"], levels["policy"], levels["scenario"], None) if "none" in row]
    if ids == beside:
        return exact_entry(1.0)
    share = ratio_of_means(cells.observations, [(THROUGHPUT.name, *ids)],
                           [(THROUGHPUT.name, *beside)])
    return NOTHING if share is None else estimate_entry(share)
