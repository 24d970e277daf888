"""Decide from print alone which pairs of latencies can be compared with the paper's order.

No measured value enters. A pair of cells in one table is **decided** if its latencies differ by
more than two limits. One is the resolution of the paper's clock (1 ms). The other is the sampling
error of the mean: Figure 7's deviation over the number of urgent messages among 10,000. A cell is
**contradicted**, and with it all its pairs, if another printed figure rules it out:

1. Load: the trace offers more (Table 2: size by interarrival time) than the cell's own throughput.
   The queue grows as long as the trace lasts, and the mean latency grows with it.
2. One operation has one cost. The throughputs of two cells that differ in nothing else say how long
   the encryption of a trailer takes. Many times the median of all such pairs of Tables 3 and 4 is a
   contradiction.
3. Shipments: a sender that never idles ships for an urgent message or for a queue that is full or
   would overflow. A full queue takes two messages of more than the bound together. Figure 7 has ADP
   messages of three pages, so the bound is three pages or more; a larger bound leaves fewer
   shipments. Two throughputs of Table 3 give the cost of a message and of a shipment. Without a
   queue, every message is a shipment. With a queue, at least the urgent ones are, which is the
   reading that suits Table 6 best. A throughput below that of the largest number of shipments
   cannot come from this discipline, whichever messages are urgent.
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
#: Factors above which a difference in cost, or in the number of shipments, is more than rounding.
_MANY_TIMES, _ROUNDING = 3.0, 1.05
_PAGES_SEEN = 3
RANKED = ("2", "3", "4", "5", "6")


@dataclass(frozen=True)
class UrgencyRow:
    """A row of Table 6 with its throughput, its implied shipments and their limits.

    `printed` and `least` are throughputs in bytes/s. `implied_share` and `most_share` are shipments
    per message.
    """

    printed: float
    least: float
    implied_share: float
    most_share: float

    @property
    def is_contradicted(self) -> bool:
        """Return whether the row needs more shipments than possible, beyond rounding."""
        return self.implied_share > self.most_share * _ROUNDING


def decided_pairs(paper: PaperValues, table: str) -> Iterator[tuple[Key, Key]]:
    """Yield the pairs of a table whose order neither the clock nor sampling explains."""
    printed = {key: value for key, value in paper.tables[table].items() if key[0] == L}
    for one, other in itertools.combinations(printed, 2):
        counts = (URGENCY[key[2]] * _MESSAGES for key in (one, other))
        error_s = paper.figure_7_ms["deviation"] / 1e3 * sum(1 / count for count in counts) ** 0.5
        if abs(printed[one] - printed[other]) > max(_RESOLUTION_S, _NORMAL * error_s):
            yield one, other


def fitted_cells(paper: PaperValues) -> frozenset[Ids]:
    """Return the cells of Tables 2 and 3, by whose latencies the traces were chosen."""
    return frozenset(tuple(key[1:]) for table in ("2", "3") for key in paper.tables[table]
                     if key[0] == L)


def contradicted_cells(paper: PaperValues, table: str) -> Mapping[Ids, str]:
    """Return the cells of a table that other printed figures rule out, with the reason."""
    cells = [tuple(key[1:]) for key in paper.tables[table] if key[0] == L]
    by_rule = (_find_overloaded(paper, table), _find_costly(paper),
               _find_impossible_shipments(paper) if table == "6" else {})
    return {cell: "; ".join(rule[cell] for rule in by_rule if cell in rule)
            for cell in cells if any(cell in rule for rule in by_rule)}


def urgency_rows(paper: PaperValues) -> Mapping[str, UrgencyRow]:
    """Return every row of Table 6 with its limits, by urgency."""
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
    """Return the cost of encrypting a trailer (s) by cell with an encrypted trailer.

    Each cost is the difference to the cell that differs only in having no encryption.
    """
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


def _find_overloaded(paper: PaperValues, table: str) -> dict[Ids, str]:
    made: dict[Ids, str] = {}
    for (metric, *cell), printed in paper.tables[table].items():
        kind = TRACES[cell[0]]
        offered = kind.mean_bytes / kind.interarrival_s
        if metric == T and printed < offered:
            made[tuple(cell)] = (
                f"overloaded: {printed / 1e3:.0f} kB/s where Table 2's rates offer "
                f"{offered / 1e3:.0f}; the mean of a queue that grows is of the trace's length")
    return made


def _find_costly(paper: PaperValues) -> dict[Ids, str]:
    costs = trailer_costs(paper)
    usual_s = median(costs.values())
    return {cell: f"its throughput asks for {cost_s * 1e3:.2f} ms to encrypt a trailer, which "
            f"takes {usual_s * 1e3:.2f} ms by the median of Tables 3 and 4"
            for cell, cost_s in costs.items() if cost_s > _MANY_TIMES * usual_s}


def _find_impossible_shipments(paper: PaperValues) -> dict[Ids, str]:
    return {ids(_TRACE, urgency=urgency): f"its throughput ({row.printed / 1e3:.0f} kB/s) asks "
            f"for {row.implied_share:.0%} of the messages to be shipments by Table 3, where at "
            f"most {row.most_share:.0%} can be" for urgency, row in urgency_rows(paper).items()
            if row.is_contradicted}
