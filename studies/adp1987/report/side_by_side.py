"""Modern ADP, ESP and no protection beside WireGuard: what was measured in one run, and ratios."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells, Ids, Observation
from analysis.numbers import NOTHING, entry, exact
from analysis.table import Column, Entry, Table
from studies.adp1987 import design
from studies.adp1987.body import ESTABLISHMENT, LATENCY, RATE, THROUGHPUT, WIRE_BYTES, WORK
from studies.adp1987.report.paper_tables import column
from studies.adp1987.report.ranking import mean

_METRICS = (ESTABLISHMENT, THROUGHPUT, RATE, WORK, LATENCY, WIRE_BYTES)
_COMPARED = (THROUGHPUT, WORK, LATENCY, WIRE_BYTES)
_REFERENCE = "wireguard"
_NOTE = ("A message over UDP is a datagram in the kernel's tunnel, which keeps none back; ADP is "
         "a program in Python. Bytes on the wire are counted with all headers, checksum, "
         "preamble and gap. Processor: of the host, user and system, both ends together, the "
         "emulation included.")
_FREE = "By the processor clock kernel threads compute for nothing, and so WireGuard, mostly."


def tables(cells: Cells) -> Iterator[Table]:
    """One of what was measured and one of ratios to WireGuard, if there is anything in them."""
    places = [(trace, row) for trace in cells.results.levels["trace"]
              for row in design.beside(trace)
              if isinstance(cells.value(THROUGHPUT.name, row), Observation)]
    if not places:
        return
    notes = (_NOTE, _FREE) if cells.results.clock == "processor" else (_NOTE,)
    head = [Column("trace", "Trace"), Column("protocol", "Protocol")]
    yield Table("table-beside", "Side by side, in one run", (*head, *map(column, _METRICS)), tuple(
        (Entry(trace), Entry(_named(row)), *(_value(cells, metric.name, row)
                                             for metric in _METRICS))
        for trace, row in places), "All in the same testbed, on the same traces.", notes,
        clock=cells.results.clock)
    ratios = [(Entry(trace), Entry(_named(row)), *made) for trace, row in places
              if (made := _ratios(cells, trace, row))]
    if ratios:
        yield Table("table-ratios", "Ratios to WireGuard", (*head, *(
            Column(f"{metric.name}_ratio", metric.title, "", 1, 3) for metric in _COMPARED)),
            tuple(ratios), "Means over WireGuard's mean of the same trace, in this run.",
            clock=cells.results.clock)


def _named(row: Ids) -> str:
    ids = dict(zip(design.NAMES, row, strict=True))
    queue = f", queueing {ids['queue'].lower()}" * (ids["protocol"] == "modern")
    return f"{ids['protocol']}{queue}"


def _value(cells: Cells, metric: str, row: Ids) -> Entry:
    value = cells.value(metric, row)
    if not isinstance(value, Observation):
        return NOTHING
    return entry(value.estimate, records=value.records)


def _ratios(cells: Cells, trace: str, row: Ids) -> list[Entry]:
    [reference] = [other for other in design.beside(trace) if _REFERENCE in other]
    if row == reference:
        return []
    pairs = [(mean(cells, (metric.name, *row)), mean(cells, (metric.name, *reference)))
             for metric in _COMPARED]
    return [exact(one / other) if one is not None and other else NOTHING for one, other in pairs] \
        if any(other for _, other in pairs) else []
