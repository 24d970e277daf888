"""Which pairs of latencies the paper decides is told from print alone, by rules for all its cells.

No measurement of ours enters. A pair of one table is **decided** if the latencies differ by more
than the paper's clock tells (1 ms) and by more than the mean of so many urgent messages varies:
Figure 7's deviation, over the urgent ones of 10,000 messages. A cell is **contradicted**, and with
it its pairs, if another printed figure rules it out:

1. Load: its trace offers (Table 2: size by interarrival time) more than its own throughput. The
   queue grows for as long as the trace lasts, and so does the mean.
2. One operation has one cost: what encrypting a trailer takes, by the throughputs of two cells that
   differ in nothing else, is many times the median of all such pairs of Tables 3 and 4.
3. Shipments: a sender that never idles ships for an urgent message, or because its queue is full or
   would overflow. The last takes two messages of more than the bound together; Figure 7 has ADP
   messages of three pages, so that the bound is at least that, and a larger one leaves fewer. What
   a message and a shipment take follows from two throughputs of Table 3: without a queue every
   message is one; with it, as many as are urgent at least, which is the reading that suits Table 6
   best. Less throughput than the most shipments leave is beyond the discipline, whichever messages
   are urgent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from analysis.cells import Ids, Key
from studies.adp1987.body import ADP_BYTES
from studies.adp1987.design import NOMINAL_URGENCY, URGENCY, ids
from studies.adp1987.published import QUEUES, L, PaperValues, T, scope_ids
from studies.adp1987.traces import PAGE_BYTES, TRACES

_TRACE = "ALL"
_MESSAGES, _RESOLUTION_S, _NORMAL = 10_000, 0.001, 1.96
#: By how many times a cost or a number of shipments has to be out to be no rounding.
_MANY_TIMES, _ROUNDING = 3.0, 1.05
_PAGES_SEEN = 3
RANKED = ("2", "3", "4", "5", "6")


@dataclass(frozen=True)
class UrgencyRow:
    """A row of Table 6: throughputs, and shipments a message; printed, and the limit of each."""

    printed: float
    least: float
    implied_share: float
    most_share: float

    @property
    def is_contradicted(self) -> bool:
        """Whether the row needs more shipments than there can be, and not by rounding."""
        return self.implied_share > self.most_share * _ROUNDING


def decided(paper: PaperValues, table: str) -> Iterator[tuple[Key, Key]]:
    """The pairs of a table whose order is no matter of the clock, or of which messages came."""
    printed = {key: value for key, value in paper.tables[table].items() if key[0] == L}
    for one, other in itertools.combinations(printed, 2):
        counts = (URGENCY[key[2]] * _MESSAGES for key in (one, other))
        error_s = paper.figure_7_ms["deviation"] / 1e3 * sum(1 / count for count in counts) ** 0.5
        if abs(printed[one] - printed[other]) > max(_RESOLUTION_S, _NORMAL * error_s):
            yield one, other


def fitted(paper: PaperValues) -> frozenset[Ids]:
    """Cells whose latencies the traces were chosen by: all of Tables 2 and 3."""
    return frozenset(tuple(key[1:]) for table in ("2", "3") for key in paper.tables[table]
                     if key[0] == L)


def contradicted(paper: PaperValues, table: str) -> Mapping[Ids, str]:
    """Cells of a table whose latency is of circumstances that other figures rule out, and why."""
    cells = [tuple(key[1:]) for key in paper.tables[table] if key[0] == L]
    by_rule = (_overloaded(paper, table), _costly(paper), _shipped(paper) if table == "6" else {})
    return {cell: "; ".join(rule[cell] for rule in by_rule if cell in rule)
            for cell in cells if any(cell in rule for rule in by_rule)}


def rows(paper: PaperValues) -> Mapping[str, UrgencyRow]:
    """Every row of Table 6."""
    mean_bytes = TRACES[_TRACE].mean_bytes
    alone_s = mean_bytes / paper.tables["3"][T, *scope_ids(_TRACE, "PE", "OFF")]
    queued_s = mean_bytes / paper.tables["3"][T, *scope_ids(_TRACE, "PE", "ON")]
    shipment_s = (alone_s - queued_s) / (1 - URGENCY[NOMINAL_URGENCY])
    message_s = alone_s - shipment_s
    made = {}
    for urgency, share in URGENCY.items():
        printed = paper.tables["6"][T, *ids(_TRACE, urgency=urgency)]
        most = share + 2 * mean_bytes / (_PAGES_SEEN * PAGE_BYTES)
        made[urgency] = UrgencyRow(printed, mean_bytes / (message_s + shipment_s * most),
                                   (mean_bytes / printed - message_s) / shipment_s, most)
    return made


def trailer_costs(paper: PaperValues) -> Mapping[Ids, float]:
    """What encrypting a trailer takes (s), by each cell with it and the same one without."""
    made = {}
    for table, trace in (("3", "ALL"), ("4", "ND")):
        printed, mean_bytes = paper.tables[table], TRACES[trace].mean_bytes
        messages = {"OFF": 1.0, "ON": paper.tables["2"][ADP_BYTES.name, *ids(trace)] / mean_bytes}
        for queue in QUEUES:
            with_it, without = (printed[T, *scope_ids(trace, scope, queue)]
                                for scope in ("PE", "NE"))
            made[scope_ids(trace, "PE", queue)] = (
                1 / with_it - 1 / without) * mean_bytes * messages[queue]
    return made


def _overloaded(paper: PaperValues, table: str) -> dict[Ids, str]:
    made: dict[Ids, str] = {}
    for (metric, *cell), printed in paper.tables[table].items():
        kind = TRACES[cell[0]]
        offered = kind.mean_bytes / kind.interarrival_s
        if metric == T and printed < offered:
            made[tuple(cell)] = (
                f"overloaded: {printed / 1e3:.0f} kB/s where Table 2's rates offer "
                f"{offered / 1e3:.0f}; the mean of a queue that grows is of the trace's length")
    return made


def _costly(paper: PaperValues) -> dict[Ids, str]:
    costs = trailer_costs(paper)
    usual_s = median(costs.values())
    return {cell: f"its throughput asks for {cost_s * 1e3:.2f} ms to encrypt a trailer, which "
            f"takes {usual_s * 1e3:.2f} ms by the median of Tables 3 and 4"
            for cell, cost_s in costs.items() if cost_s > _MANY_TIMES * usual_s}


def _shipped(paper: PaperValues) -> dict[Ids, str]:
    return {ids(_TRACE, urgency=urgency): f"its throughput ({row.printed / 1e3:.0f} kB/s) asks "
            f"for {row.implied_share:.0%} of the messages to be shipments by Table 3, where at "
            f"most {row.most_share:.0%} can be" for urgency, row in rows(paper).items()
            if row.is_contradicted}
