"""Tables of modern ADP, ESP and no protection compared with WireGuard in one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.blocks import mean_of, ratio_of_means
from analysis.cells import Cells, Ids, Observation
from analysis.claims import verdict
from analysis.claims.finding import TIMES, Band, Question, Unit
from analysis.claims.verdict import Claim, Verdict, judge_claim
from analysis.metrics import Metric
from analysis.numbers import NOTHING, estimate_entry
from analysis.table import Column, Entry, Table
from studies.adp1987 import design
from studies.adp1987.body import ESTABLISHMENT, LATENCY, RATE, THROUGHPUT, WIRE_BYTES, WORK
from studies.adp1987.report.paper_tables import metric_column

_METRICS = (ESTABLISHMENT, THROUGHPUT, RATE, WORK, LATENCY, WIRE_BYTES)
_COMPARED = (THROUGHPUT, WORK, LATENCY, WIRE_BYTES)
_REFERENCE = "wireguard"
#: User messages per second of a core, both ends together.
_RATE_ASKED = 10_000.0
_RATE, _THROUGHPUT, _LATENCY, _BYTES = (Claim(name, says, "real time") for name, says in (
    ("M1", "with queueing, a core carries 10,000 user messages a second, both ends together"),
    ("M2", "with queueing, throughput is WireGuard's or more"),
    ("M3", "with queueing, latency is more than WireGuard's"),
    ("M4", "with queueing, fewer bytes are on the wire than WireGuard's")))
_NOTE = ("A message over UDP is a datagram in the kernel's tunnel, which keeps none back; ADP is "
         "a program in Python. Bytes on the wire are counted with all headers, checksum, "
         "preamble and gap. Processor: of the host, user and system, both ends together, the "
         "emulation included.")
_FREE = "By the processor clock kernel threads compute for nothing, and so WireGuard, mostly."


def build_tables(cells: Cells) -> Iterator[Table]:
    """Yield tables of measured values, of ratios to WireGuard, and of verdicts.

    Tables without measured values are left out.
    """
    places = [(trace, row) for trace in cells.results.levels["trace"]
              for row in design.real_time_cells(trace)
              if isinstance(cells.value(THROUGHPUT.name, row), Observation)]
    if not places:
        return
    notes = (_NOTE, _FREE) if cells.results.clock == "processor" else (_NOTE,)
    head = [Column("trace", "Trace"), Column("protocol", "Protocol")]
    yield Table("table-beside", "Side by side, in one run", (*head, *map(metric_column, _METRICS)),
                tuple(
        (Entry(trace), Entry(_protocol_name(row)), *(_measured_entry(cells, metric.name, row)
                                                     for metric in _METRICS))
        for trace, row in places), "All in the same testbed, on the same traces.", notes,
        clock=cells.results.clock)
    ratios = [(Entry(trace), Entry(_protocol_name(row)), *made) for trace, row in places
              if (made := _ratio_entries(cells, trace, row))]
    if ratios:
        yield Table("table-ratios", "Ratios to WireGuard", (*head, *(
            Column(f"{metric.name}_ratio", metric.title, "", 1, 3) for metric in _COMPARED)),
            tuple(ratios), "Means over WireGuard's mean of the same trace, in this run; intervals "
            "by blocks hold 95 % (Fieller's).", clock=cells.results.clock)
    traces = list(dict.fromkeys(trace for trace, _ in places))
    yield replace(verdict.make_claims_table(_judge_claims(cells, traces), "Modern ADP today",
                                            "What is said"),
                  id="table-today", clock=cells.results.clock)


def _protocol_name(row: Ids) -> str:
    ids = dict(zip(design.NAMES, row, strict=True))
    queue = f", queueing {ids['queue'].lower()}" * (ids["protocol"] == "modern")
    return f"{ids['protocol']}{queue}"


def _measured_entry(cells: Cells, metric: str, row: Ids) -> Entry:
    value = cells.value(metric, row)
    if not isinstance(value, Observation):
        return NOTHING
    return estimate_entry(value.estimate, records=value.records)


def _ratio_entries(cells: Cells, trace: str, row: Ids) -> list[Entry]:
    reference = _cell_of(trace, _REFERENCE)
    if row == reference:
        return []
    made = [ratio_of_means(cells.observations, [(metric.name, *row)], [(metric.name, *reference)])
            for metric in _COMPARED]
    return [NOTHING if estimate is None else estimate_entry(estimate) for estimate in made] \
        if any(estimate is not None for estimate in made) else []


def _cell_of(trace: str, protocol: str) -> Ids:
    """Return the first cell of a protocol.

    For modern ADP it is the one with queueing.
    """
    return next(row for row in design.real_time_cells(trace) if protocol in row)


def _judge_claims(cells: Cells, traces: Sequence[str]) -> list[Verdict]:
    """Return the verdicts on modern ADP (M1 to M4), from the intervals of this run."""
    return [judge_claim(claim, [question for trace in traces for question in questions(trace)],
                        cells.observations) for claim, questions in (
        (_RATE, _rate_questions), (_THROUGHPUT, _throughput_questions),
        (_LATENCY, _latency_questions), (_BYTES, _bytes_questions))]


def _rate_questions(trace: str) -> Iterator[Question]:
    yield Question(f"{trace}: messages a second of the processor",
                   [(WORK.name, *_cell_of(trace, "modern"))], Band(low=_RATE_ASKED), Unit("/s"),
                   mean_of)


def _throughput_questions(trace: str) -> Iterator[Question]:
    yield _ratio_question(trace, THROUGHPUT, Band(low=1.0))


def _latency_questions(trace: str) -> Iterator[Question]:
    yield _ratio_question(trace, LATENCY, Band(low=1.0))


def _bytes_questions(trace: str) -> Iterator[Question]:
    yield _ratio_question(trace, WIRE_BYTES, Band(high=1.0))


def _ratio_question(trace: str, metric: Metric, band: Band) -> Question:
    return Question(f"{trace}: {metric.title}, of WireGuard's",
                    [(metric.name, *_cell_of(trace, "modern"))], band, TIMES,
                    below=[(metric.name, *_cell_of(trace, _REFERENCE))])
