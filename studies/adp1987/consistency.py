"""Table 6 of the paper is held against its Table 3: which throughputs urgency leaves possible.

With a sender that never idles no timeout ends a wait: an ADP message is shipped for an urgent
message, or because the queue is full or would overflow, when what waits and what comes are two, of
more than the bound together. So shipments a message are at most the urgent share and twice the mean
message's share of the bound. What a message and a shipment take follows from two throughputs of
Table 3 alone: without a queue every message is a shipment; with it, at a tenth of urgent messages,
at most the share above. Whatever the messages are, and whichever are urgent, less throughput than
that is beyond the discipline: the paper's rows below it contradict its Table 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.cells import Ids
from studies.adp1987.asked import Asked
from studies.adp1987.design import NOMINAL_URGENCY, URGENCY, ids
from studies.adp1987.published import PaperValues, T, scope_ids
from studies.adp1987.traces import TRACES

_TRACE = "ALL"


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
        return self.implied_share > self.most_share * 1.05


def rows(paper: PaperValues) -> Mapping[str, UrgencyRow]:
    """Every row of Table 6."""
    mean_bytes = TRACES[_TRACE].mean_bytes
    alone_s = mean_bytes / paper.tables["3"][T, *scope_ids(_TRACE, "PE", "OFF")]
    queued_s = mean_bytes / paper.tables["3"][T, *scope_ids(_TRACE, "PE", "ON")]
    nominal = _most(URGENCY[NOMINAL_URGENCY])
    shipment_s = (alone_s - queued_s) / (1 - nominal)
    message_s = alone_s - shipment_s
    made = {}
    for urgency, share in URGENCY.items():
        printed = paper.tables["6"][T, *ids(_TRACE, urgency=urgency)]
        made[urgency] = UrgencyRow(
            printed, mean_bytes / (message_s + shipment_s * _most(share)),
            (mean_bytes / printed - message_s) / shipment_s, _most(share))
    return made


def contradicted(paper: PaperValues, table: str) -> Mapping[Ids, str]:
    """Cells of a table whose latency is of circumstances that other figures rule out, and why."""
    known: dict[str, dict[Ids, str]] = {
        "3": {scope_ids("ALL", "FE", "OFF"): "overloaded: 208 kB/s where Table 2's rates offer "
              "291; the mean of a queue that grows depends on how long the trace is"},
        "4": {scope_ids("ND", "PE", "OFF"): "its throughput (330 kB/s) asks for 2.05 ms to encrypt "
              "a trailer, which takes 0.17 ms in Table 3"},
        "5": {ids(trace, technology="SW"): f"overloaded: {rate} kB/s where Table 2's rates offer "
              f"{offered}; 192 ms and 3.3 s need lower rates, which nobody states"
              for trace, rate, offered in (("ALL", 50, 291), ("ND", 97, 213))},
        "6": {ids(_TRACE, urgency=urgency): f"its throughput ({row.printed / 1e3:.0f} kB/s) asks "
              f"for {row.implied_share:.0%} of the messages to be shipments by Table 3, where at "
              f"most {row.most_share:.0%} can be" for urgency, row in rows(paper).items()
              if row.is_contradicted}}
    return known.get(table, {})


def _most(share: float) -> float:
    """Shipments a message, at most."""
    bound_bytes: int = Asked.model_fields["bound_bytes"].default
    return share + 2 * TRACES[_TRACE].mean_bytes / bound_bytes
